"""Waves fit the boundary, come longest first, and take the same effort."""

import numpy as np
import pytest
import torch

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.discovery.candidates import at_effort, wave_loads
from nipde.errors import PairsError
from nipde.grid import Axis, Grid


def test_the_first_waves_of_the_square_are_products_of_sines():
    grid = Grid.uniform(21)
    loads = wave_loads(grid, 4)
    x, y = grid.coordinates
    for load, (k, m) in zip(loads, ((1, 1), (1, 2), (2, 1), (2, 2)), strict=True):
        assert load[0].numpy() == pytest.approx(2 * np.sin(k * np.pi * x) * np.sin(m * np.pi * y), abs=1e-12)


@pytest.mark.parametrize("kinds", [(Dirichlet(),), (Neumann(), Neumann()), (Periodic(), Dirichlet(), Neumann())])
def test_equal_effort_on_every_grid(kinds):
    grid = Grid(tuple(Axis(9 + place, 1.5, kind) for place, kind in enumerate(kinds)))
    loads = wave_loads(grid, 6)
    assert (grid.norm(loads)[:, 0] / grid.volume**0.5).numpy() == pytest.approx(np.ones(6))
    flat = loads.flatten(1) * torch.tensor(grid.weights).flatten()
    assert float((flat @ loads.flatten(1).T / grid.volume - torch.eye(6)).abs().max()) <= 1e-10  # no two are alike


def test_loads_of_two_components_push_one_way_at_a_time():
    loads = wave_loads(Grid.uniform(9), 5, components=2)
    assert loads.shape == (5, 2, 9, 9)
    assert torch.equal(loads[0, 0], loads[1, 1])
    assert not loads[0, 1].any()
    assert not loads[4, 1].any()


def test_effort_counts_all_components():
    grid = Grid.uniform(9)
    loads = at_effort(grid, torch.rand(3, 2, 9, 9, dtype=torch.float64), effort=2.0)
    assert grid.norm(loads).square().sum(-1).numpy() == pytest.approx(4 * grid.volume)


def test_more_waves_than_the_grid_has():
    with pytest.raises(PairsError) as error:
        wave_loads(Grid.uniform(9), 50)
    assert (error.value.expected, error.value.got) == ("1 to 49 waves", 50)

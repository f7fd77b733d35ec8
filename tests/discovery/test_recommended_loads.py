"""The next load is one that a person can apply from its name."""

import re

import numpy as np
import pytest
import torch

from nipde.boundary import Dirichlet, Neumann
from nipde.context.pairs import Pairs
from nipde.discovery.a_optimal_design import Sensor
from nipde.discovery.recommended_loads import by_material, effort_of, recommended_loads
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.grid import Axis, Grid
from nipde.kernels.dense import DenseKernel
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField


def kernel_of(loads, *, grid):
    torch.manual_seed(0)
    model = ConditionedNIPS(dimension=grid.dimension, channels=4).double().eval().requires_grad_(False)
    answers = Darcy(grid, np.full(grid.shape, 3.0)).solve(loads)
    return model(Pairs.from_arrays(loads, answers, grid=grid, noise=0.0))


def random_loads(grid, count, *, rms=1.0):
    return GaussianField(1.0, waves=6, rms=rms).sample(grid, rng=np.random.default_rng(1), count=count)


def half_waves(name):
    return {axis: int(number) for number, axis in re.findall(r"(\d+) half waves? along (\w)", name)}


def test_a_load_is_what_its_name_says():
    grid = Grid((Axis(11, 2.0), Axis(12, 3.0)))
    found = recommended_loads(kernel_of(random_loads(grid, 4), grid=grid), effort=0.5, count=8)
    x, y = grid.coordinates
    for name, load in zip(found.names, found.loads, strict=True):
        counts = half_waves(name)
        wave = np.sin(counts["x"] * np.pi * x / 2.0) * np.sin(counts["y"] * np.pi * y / 3.0)
        assert np.abs(load) == pytest.approx(np.abs(2 * 0.5 * wave), abs=1e-8)
        assert name.endswith("rms 0.5")
        assert np.sqrt(grid.integrate(load**2) / grid.volume) == pytest.approx(0.5)


def test_along_a_free_side_a_half_wave_is_one_that_is_turned_once():
    grid = Grid((Axis(9, 1.0, Dirichlet()), Axis(9, 1.0, Neumann())))
    found = recommended_loads(kernel_of(random_loads(grid, 3), grid=grid), effort=1.0, count=12)
    for name, load in zip(found.names, found.loads, strict=True):
        line = load[np.abs(load).max(1).argmax()]
        turns = int(np.count_nonzero(np.diff(np.sign(line[np.abs(line) > 1e-6]))))
        assert half_waves(name).get("y", 0) == turns, name


def test_the_best_come_first_and_no_two_are_alike():
    grid = Grid.uniform(9)
    found = recommended_loads(kernel_of(random_loads(grid, 3), grid=grid), effort=1.0, count=5)
    assert found.gains.shape == (5,)
    assert (np.diff(found.gains) <= 0).all()
    assert 0 < found.gains[-1] <= found.gains[0] <= 1
    assert len(set(found.names)) == 5


def test_a_wave_that_was_applied_is_not_proposed_again():
    grid = Grid.uniform(9)
    applied = recommended_loads(kernel_of(random_loads(grid, 3), grid=grid), effort=1.0, count=3)
    after = recommended_loads(kernel_of(applied.loads, grid=grid), effort=1.0, count=5)
    assert not set(applied.names) & set(after.names)


def test_small_grids_have_few_waves():
    grid = Grid.uniform(5)
    found = recommended_loads(kernel_of(random_loads(grid, 2), grid=grid), effort=1.0, count=100)
    assert len(found.names) == len(found.gains) == len(found.loads) == 8


def test_effort_is_that_of_the_loads_so_far():
    loads = torch.tensor(random_loads(Grid.uniform(9), 5, rms=0.02))
    assert effort_of(loads.float()) == pytest.approx(float(loads.square().mean().sqrt()), rel=1e-6)
    assert effort_of(3 * loads) == pytest.approx(3 * effort_of(loads))


@pytest.mark.parametrize("relative", [False, True])
def test_what_tells_about_the_material_does_not_depend_on_the_unit_of_load(relative):
    grid = Grid.uniform(9)
    gains = []
    for rms in (1.0, 1e-3):
        loads = random_loads(grid, 4, rms=rms)
        kernel = kernel_of(loads, grid=grid)
        rank = by_material(kernel, torch.tensor(loads)[:, None], sensor=Sensor(0.01, relative))
        gains.append(recommended_loads(kernel, effort=rms, count=5, rank=rank).gains)
    assert gains[1] == pytest.approx(gains[0], rel=1e-4)
    assert 0 < gains[0][-1] < gains[0][0] < 1


def test_a_kernel_without_uncertainty_has_no_recommended_load():
    grid = Grid.uniform(9)
    kernel = DenseKernel(grid, torch.eye(grid.size, dtype=torch.float64))
    found = recommended_loads(kernel, effort=1.0, count=3)
    assert found.names == ()
    assert found.loads.shape == (0, 9, 9)

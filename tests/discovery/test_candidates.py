"""Patches, points and doublets can be applied; all candidates of a kind take the effort of the loads so far."""

import numpy as np
import pytest
import torch

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.discovery.candidates import KINDS, at_effort, candidates_like, usual_kind, wave_loads
from nipde.errors import PairsError
from nipde.grid import Axis, Grid
from nipde.physics.random_fields import GaussianField

GRIDS = [
    Grid.uniform(21),
    Grid((Axis(12, 3.0, Dirichlet()), Axis(17, 1.5, Neumann()))),
    Grid((Axis(9, 1.0, Dirichlet()), Axis(8, 2.0, Periodic()), Axis(10, 1.0, Neumann()))),
    Grid((Axis(30, 40.0),)),
]


def fields(grid, *, count=5, rms=0.3):
    return torch.tensor(GaussianField(1.0, rms=rms).sample(grid, rng=np.random.default_rng(0), count=count))[:, None]


def wells(grid, *nodes, total=-800.0):
    """One pair for every tuple of nodes; totals alternate in sign within it."""
    loads = torch.zeros(len(nodes), 1, *grid.shape, dtype=torch.float64)
    for pair, places in enumerate(nodes):
        for number, node in enumerate(places):
            loads[pair, 0][node] = total * (-1) ** number / grid.weights[node]
    return loads


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_a_patch_has_the_largest_density_on_its_box_and_nothing_elsewhere(grid):
    applied = fields(grid)
    made = candidates_like(grid, applied, "patches")
    density = float(applied.abs().max())
    assert made.effort == pytest.approx(density)
    assert float(made.fields.abs().max()) == pytest.approx(density)
    totals = grid.integrate(made.fields)[:, 0].numpy()
    assert totals == pytest.approx(np.full(len(totals), density * np.prod(made.size)))
    for load, (centre,) in zip(made.fields[:, 0].numpy(), made.places, strict=True):
        for x, middle, length, axis in zip(grid.coordinates, centre, made.size, grid.axes, strict=True):
            assert length == pytest.approx(max(axis.length / 5, 2 * axis.spacing))
            assert middle - length / 2 >= -1e-9
            assert middle + length / 2 <= axis.length + 1e-9
            apart = np.abs(x - middle)
            apart = np.minimum(apart, axis.length - apart) if axis.boundary.periodic else apart
            assert not load[apart > length / 2 + axis.spacing / 2 + 1e-9].any()


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_a_point_has_the_largest_total_in_one_cell_away_from_the_sides(grid):
    applied = fields(grid)
    made = candidates_like(grid, applied, "points")
    total = float(grid.integrate(applied.abs()).max())
    assert made.effort == pytest.approx(total)
    assert grid.integrate(made.fields)[:, 0].numpy() == pytest.approx(np.full(len(made.fields), total))
    assert (made.fields != 0).flatten(1).sum(1).tolist() == [1] * len(made.fields)
    for load, (place,) in zip(made.fields[:, 0].numpy(), made.places, strict=True):
        (node,) = np.argwhere(load)
        assert node * np.array(grid.spacing) == pytest.approx(place)
        assert all(0.05 * a.length < x < 0.95 * a.length for x, a in zip(place, grid.axes, strict=True))


def test_a_doublet_takes_out_what_it_puts_in_half_a_side_away():
    grid = Grid.uniform(21, length=100.0)
    made = candidates_like(grid, wells(grid, ((5, 5), (9, 9)), ((3, 9), (14, 9))))
    assert made.kind == "doublets"
    assert abs(made.effort) == pytest.approx(800)
    assert grid.integrate(made.fields).abs().max() < 1e-9
    assert grid.integrate(made.fields.abs()).flatten().numpy() == pytest.approx(np.full(len(made.fields), 1600))
    apart = made.places[:, 1] - made.places[:, 0]
    assert sorted(set(apart.max(1).round(6))) == [50.0]
    assert set(apart.min(1)) == {0.0}


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_there_are_some_candidates_and_few_and_no_two_alike(grid, kind):
    made = candidates_like(grid, fields(grid), kind)
    assert 1 < len(made.fields) <= 120
    assert len(made.places) == len(made.fields)
    assert len({load.numpy().tobytes() for load in made.fields}) == len(made.fields)
    assert bool(made.fields[:, 0][:, torch.tensor(grid.unknown)].flatten(1).any(1).all())


def test_the_kind_is_that_of_the_loads_so_far():
    grid = Grid.uniform(21)
    pumped = wells(grid, ((5, 5),), ((9, 12),), ((14, 4),))
    assert usual_kind(grid, fields(grid)) == "patches"
    assert usual_kind(grid, pumped) == "points"
    side = torch.zeros(1, 1, *grid.shape, dtype=torch.float64)
    side[..., 1, :] = 5000.0
    assert usual_kind(grid, torch.cat([pumped, side])) == "points"
    assert usual_kind(grid, torch.cat([pumped[:1], fields(grid)])) == "patches"
    # The well is not as strong as the side, nor of its sign.
    assert candidates_like(grid, torch.cat([pumped, side])).effort == pytest.approx(-800)


def test_pumps_go_on_pumping_and_pads_press_as_before():
    grid = Grid.uniform(21)
    assert candidates_like(grid, wells(grid, ((5, 5),))).effort == pytest.approx(-800)
    assert candidates_like(grid, -fields(grid).abs(), "patches").effort < 0 < candidates_like(grid, fields(grid)).effort


def test_a_patch_in_place_of_a_well_has_its_rate():
    """The density of a well is that of a cell, which nobody applied."""
    grid = Grid.uniform(21)
    made = candidates_like(grid, wells(grid, ((5, 5),)), "patches")
    assert grid.integrate(made.fields)[:, 0].numpy() == pytest.approx(np.full(len(made.fields), -800))


@pytest.mark.parametrize("nodes", [3, 5, 8])
def test_small_grids_have_patches_and_points_too(nodes):
    grid = Grid.uniform(nodes)
    for kind in ("patches", "points"):
        made = candidates_like(grid, torch.ones(1, 1, nodes, nodes, dtype=torch.float64), kind)
        assert 1 <= len(made.fields) <= 49
        assert bool(made.fields[:, 0][:, torch.tensor(grid.unknown)].any(1).all())


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

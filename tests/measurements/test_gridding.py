import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nipde.boundary import Dirichlet, Periodic
from nipde.errors import MeasurementError
from nipde.grid import Grid
from nipde.measurements.gridding import choose_grid, find_lattice, put_on_grid
from nipde.measurements.point_data import PointData
from tests.measurements.refused import refused

DIRICHLET = (Dirichlet(), Dirichlet())


def lattice_points(shape=(7, 5), first=(1.0, -2.0), spacing=(0.3, 0.7)):
    lines = [a + np.arange(n) * h for n, a, h in zip(shape, first, spacing, strict=True)]
    return np.stack([x.ravel() for x in np.meshgrid(*lines, indexing="ij")], axis=1)


def data(points, values, valid=None, load=None):
    return PointData(points, values[None, None], np.ones((1, 1, len(points)), bool) if valid is None else valid, load)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), counts=st.tuples(st.integers(3, 12), st.integers(3, 12)))
def test_lattices_in_any_order_come_back_to_the_bit(seed, counts):
    rng = np.random.default_rng(seed)
    points = lattice_points(counts, rng.uniform(-50, 50, 2), 10 ** rng.uniform(-3, 3, 2))
    values, valid = rng.standard_normal(len(points)), rng.random((1, 1, len(points))) > 0.3
    order = rng.permutation(len(points))
    grid, origin = choose_grid(points[order], nodes=None, box=(), boundaries=DIRICHLET)
    assert grid.shape == counts
    found = put_on_grid(data(points[order], values[order], valid[..., order]), grid, origin=origin)
    assert not found.interpolated
    np.testing.assert_array_equal(found.mask.ravel(), valid.ravel())
    np.testing.assert_array_equal(found.response.ravel(), np.where(valid, values, 0).ravel())


def test_rows_that_are_left_out_are_gaps():
    points = lattice_points()
    kept = np.random.default_rng(0).random(len(points)) > 0.3
    grid, origin = choose_grid(points[kept], nodes=None, box=(), boundaries=DIRICHLET)
    found = put_on_grid(data(points[kept], np.ones(kept.sum())), grid, origin=origin)
    np.testing.assert_array_equal(found.mask.ravel(), kept)


def test_rounded_positions_are_still_a_lattice():
    lattice = find_lattice(np.round(lattice_points((31, 31), (0, 0), (1 / 3, 1 / 7)), 5))
    assert lattice is not None
    assert lattice.counts == (31, 31)


def test_scattered_points_are_no_lattice():
    assert find_lattice(np.random.default_rng(1).uniform(0, 1, (400, 2))) is None
    with refused(remedy="nodes=[21, 21]"):
        choose_grid(np.random.default_rng(1).uniform(0, 1, (400, 2)), nodes=None, box=(), boundaries=DIRICHLET)


LINE = np.stack([np.arange(9.0), np.full(9, 2.0)], axis=1)


@pytest.mark.parametrize("nodes", [None, (5, 5)])
@pytest.mark.parametrize(
    ("points", "got"),
    [
        (LINE, "y = 2 at all 9 points"),
        (LINE[:, ::-1], "x = 2 at all 9 points"),
        (0 * LINE + 3, "x = 3, y = 3 at all 9 points"),
        (LINE[:1], "x = 0, y = 2 at all 1 points"),
        (LINE[:0], "none"),
        (np.where(LINE == 4, np.nan, LINE), "1 of 9 without"),
        (np.where(LINE == 4, -np.inf, LINE), "1 of 9 without"),
        (np.array([[-1e308, 0], [1e308, 1], [0, 2]]), "from x = -1e+308, y = 0 to x = 1e+308, y = 2"),
    ],
)
def test_points_without_an_extent_along_every_axis_are_refused(points, got, nodes):
    with pytest.raises(MeasurementError) as error:
        choose_grid(points, nodes=nodes, box=(), boundaries=DIRICHLET)
    assert error.value.got == got


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_very_small_and_large_point_sets_are_told_how_many_nodes_suit_them(size):
    points = size * np.random.default_rng(1).uniform(0, 1, (400, 2))
    with refused(remedy="nodes=[21, 21]"):
        choose_grid(points, nodes=None, box=(), boundaries=DIRICHLET)


def test_a_box_in_another_unit_than_the_points_asks_for_no_memory():
    with refused(expected="20,000,000", got="e+11 for 35 points", remedy="box"):
        choose_grid(1e-6 * lattice_points(first=(0, 0)), nodes=None, box=((0, 0.3), (0, 0.084)), boundaries=DIRICHLET)


def test_a_box_may_reach_beyond_the_points():
    points = lattice_points()
    grid, origin = choose_grid(points, nodes=None, box=((0.7, 3.1), (-2.0, 0.8)), boundaries=DIRICHLET)
    assert grid.shape == (9, 5)
    found = put_on_grid(data(points, np.ones(len(points))), grid, origin=origin)
    assert not found.mask[0, 0, [0, -1]].any()
    assert found.mask[0, 0, 1:-1].all()


def test_periodic_axes_end_one_spacing_later():
    grid, _ = choose_grid(lattice_points(), nodes=None, box=(), boundaries=(Periodic(), Dirichlet()))
    assert grid.axes[0].length == pytest.approx(7 * 0.3)
    assert grid.axes[1].length == pytest.approx(4 * 0.7)


def test_points_that_occur_twice_are_refused():
    points = lattice_points()
    grid, origin = choose_grid(points, nodes=None, box=(), boundaries=DIRICHLET)
    with refused(got="1 points twice", remedy="'pair'"):
        put_on_grid(data(np.vstack([points, points[:1]]), np.ones(len(points) + 1)), grid, origin=origin)


def test_a_load_without_a_row_is_refused():
    points = lattice_points()
    grid, origin = choose_grid(points, nodes=None, box=(), boundaries=DIRICHLET)
    load = np.ones((1, 1, len(points) - 1))
    with refused(got="none at 1 of them, the first at x = 2.8, y = 0.8"):
        put_on_grid(data(points[:-1], np.ones(len(points) - 1), load=load), grid, origin=origin)


def test_planes_are_interpolated_exactly():
    rng = np.random.default_rng(3)
    points = rng.uniform(0, 2, (500, 2))
    grid = Grid.uniform(9, length=2.0)
    found = put_on_grid(data(points, 1 + points @ [2.0, -3.0]), grid, origin=(0.0, 0.0))
    assert found.interpolated
    x, y = grid.coordinates
    gap = np.abs(found.response[0, 0] - (1 + 2 * x - 3 * y))[found.mask[0, 0]]
    assert gap.max() < 1e-12
    assert found.mask[0, 0, 1:-1, 1:-1].all()


def test_interpolation_is_of_second_order():
    errors = []
    for count in (400, 6400):
        points = np.random.default_rng(4).uniform(0, 1, (count, 2))
        grid = Grid.uniform(11)
        found = put_on_grid(data(points, np.sin(3 * points[:, 0]) * np.cos(2 * points[:, 1])), grid, origin=(0.0, 0.0))
        x, y = grid.coordinates
        errors.append(np.sqrt(np.mean((found.response[0, 0] - np.sin(3 * x) * np.cos(2 * y))[found.mask[0, 0]] ** 2)))
    assert np.log(errors[0] / errors[1]) / np.log(4) > 1.7


def test_holes_of_scattered_points_stay_holes():
    rng = np.random.default_rng(5)
    points = rng.uniform(0, 1, (3000, 2))
    outside = np.linalg.norm(points - 0.5, axis=1) > 0.25
    grid = Grid.uniform(21)
    found = put_on_grid(data(points, np.ones(len(points)), outside[None, None]), grid, origin=(0.0, 0.0))
    distance = np.linalg.norm(np.stack(grid.coordinates) - 0.5, axis=0)
    assert not found.mask[0, 0][distance < 0.2].any()
    assert found.mask[0, 0, 1:-1, 1:-1][distance[1:-1, 1:-1] > 0.26].all()


def test_loads_reach_every_node():
    points = np.random.default_rng(6).uniform(0, 1, (300, 2))
    found = put_on_grid(data(points, np.ones(300), load=np.full((1, 1, 300), 2.0)), Grid.uniform(9), origin=(0.0, 0.0))
    np.testing.assert_allclose(found.load, 2.0, rtol=1e-12)
    assert found.load_extended > 0


def test_one_axis_works_too():
    points = np.random.default_rng(7).uniform(0, 1, (50, 1))
    found = put_on_grid(data(points, 3 * points[:, 0]), Grid.uniform(9, dimension=1), origin=(0.0,))
    np.testing.assert_allclose(
        found.response[0, 0][found.mask[0, 0]], 3 * np.linspace(0, 1, 9)[found.mask[0, 0]], atol=1e-12
    )

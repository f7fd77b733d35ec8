"""Values between nodes: exact where they claim to be, of the stated order elsewhere, totals of sources kept."""

from itertools import product

import numpy as np
import pytest

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.discretisation.interpolation import interpolated, interpolated_transposed, moments_on, multilinear
from nipde.errors import GridError
from nipde.grid import Axis, Grid

D, N, P = Dirichlet(), Neumann(), Periodic()
GRIDS = [
    Grid(tuple(Axis(5 + place, 1.0 + 0.5 * place, kind) for place, kind in enumerate(kinds)))
    for kinds in [(D,), (P,), (D, D), (N, P), (P, P), (D, D, D), (P, N, D)]
]
every_grid = pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: "-".join(a.boundary.name for a in grid.axes))


def points_in(grid, count=40, seed=0):
    return np.random.default_rng(seed).uniform(0, 1, (count, grid.dimension)) * [axis.length for axis in grid.axes]


def values_by_hand(grid, field, point):
    """The slow oracle: one loop over the corners around a point."""
    total = 0.0
    for corner in product((0, 1), repeat=grid.dimension):
        weight, place = 1.0, []
        for axis, at, end in zip(grid.axes, point, corner, strict=True):
            low = int(at // axis.spacing)
            share = at / axis.spacing - low
            weight *= share if end else 1 - share
            place.append((low + end) % axis.nodes)
        total += weight * field[tuple(place)]
    return total


def on(grid, *intervals):
    return Grid(tuple(axis.resampled(count) for axis, count in zip(grid.axes, intervals, strict=True)))


# At points


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_multilinear_function_is_met_exactly(dimension):
    grid = Grid(tuple(Axis(4 + place, 1.0 + 0.5 * place) for place in range(dimension)))

    def function(*x):
        return np.prod([1.5 + (place + 1) * one for place, one in enumerate(x)], axis=0) - 2 * x[0]

    points = points_in(grid)
    found = multilinear(grid, points) @ function(*grid.coordinates).ravel()
    np.testing.assert_allclose(found, function(*points.T), rtol=1e-12)


@every_grid
def test_weights_are_those_of_the_corners_and_sum_to_one(grid):
    points, field = points_in(grid), np.random.default_rng(1).standard_normal(grid.shape)
    weights = multilinear(grid, points)
    assert weights.data.min() >= 0
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-14)
    expected = [values_by_hand(grid, field, point) for point in points]
    np.testing.assert_allclose(weights @ field.ravel(), expected, rtol=0, atol=1e-12)


@every_grid
def test_nodes_are_met_exactly(grid):
    weights = multilinear(grid, np.stack([x.ravel() for x in grid.coordinates], -1))
    np.testing.assert_allclose(weights.toarray(), np.eye(grid.size), atol=1e-12)


def test_behind_the_last_node_of_a_periodic_axis_stands_the_first():
    grid = Grid((Axis(4, 2.0, P),))
    weights = multilinear(grid, np.array([[1.5 + 0.125], [2.0]])).toarray()
    np.testing.assert_allclose(weights, [[0.25, 0, 0, 0.75], [1, 0, 0, 0]], atol=1e-14)


@pytest.mark.parametrize("point", [(-0.01, 0.5), (0.5, 1.51), (np.nan, 0.5)])
def test_points_outside_are_refused(point):
    grid = Grid((Axis(5, 1.0), Axis(5, 1.5)))
    with pytest.raises(GridError) as error:
        multilinear(grid, np.array([(0.5, 0.5), point]))
    assert error.value.remedy == "give positions inside the box"


def test_rounding_of_a_file_is_not_outside():
    grid = Grid.uniform(5, dimension=1)
    weights = multilinear(grid, np.array([[-1e-8], [1 + 1e-8]])).toarray()
    np.testing.assert_array_equal(weights, np.eye(5)[[0, -1]])


# From grid to grid


def spline_order(boundary, function, *, inside):
    errors = []
    for intervals in (32, 64):
        axis = Axis(3, 1.0, boundary).resampled(intervals)
        to = Grid((axis.resampled(5 * intervals),))
        x = to.axes[0].coordinates
        gap = interpolated(function(axis.coordinates)[None], Grid((axis,)), to=to)[0] - function(x)
        errors.append(np.abs(gap)[(x >= inside) & (x <= 1 - inside)].max())
    return np.log2(errors[0] / errors[1])


def test_splines_of_degree_5_have_order_6_inside():
    order = spline_order(D, lambda x: np.sin(5 * x) + np.exp(x), inside=0.25)
    assert order == pytest.approx(6, abs=0.3)


def test_splines_have_order_6_everywhere_on_a_periodic_axis():
    order = spline_order(P, lambda x: np.exp(np.sin(2 * np.pi * x)), inside=0.0)
    assert order == pytest.approx(6, abs=0.3)


@pytest.mark.parametrize(("nodes", "degree"), [(3, 1), (4, 1), (5, 3), (6, 3), (7, 5), (12, 5)])
def test_few_nodes_lower_the_degree_of_the_spline(nodes, degree):
    axis = Axis(nodes, 2.0)
    fine = axis.resampled(7 * axis.intervals)

    def error(power):
        found = interpolated(axis.coordinates[None] ** power, Grid((axis,)), to=Grid((fine,)))[0]
        return np.abs(found - fine.coordinates**power).max()

    assert max(error(power) for power in range(degree + 1)) < 1e-10
    assert error(degree + 1) > 1e-4


def test_cosines_are_exact_for_cosines_and_splines_are_not():
    grid = Grid((Axis(9, 1.0), Axis(7, 2.0)))
    to = on(grid, 20, 15)
    for waves in ((1, 0), (3, 2), (7, 5), (8, 6)):
        coarse, fine = (np.cos(np.pi * waves[0] * x) * np.cos(np.pi * waves[1] * y / 2)
                        for x, y in (grid.coordinates, to.coordinates))  # fmt: skip
        np.testing.assert_allclose(interpolated(coarse[None], grid, to=to, kind="cosine")[0], fine, atol=1e-12)
        assert np.abs(interpolated(coarse[None], grid, to=to)[0] - fine).max() > 1e-5


@every_grid
@pytest.mark.parametrize("kind", ["spline", "cosine"])
def test_transposed_is_the_transpose(grid, kind):
    to, rng = on(grid, *(2 * axis.intervals + 3 for axis in grid.axes)), np.random.default_rng(2)
    coarse, fine = rng.standard_normal((3, *grid.shape)), rng.standard_normal((3, *to.shape))
    there = interpolated(coarse, grid, to=to, kind=kind)
    back = interpolated_transposed(fine, grid, to=to, kind=kind)
    assert back.shape == coarse.shape
    np.testing.assert_allclose(np.vdot(there, fine), np.vdot(coarse, back), rtol=1e-11)


# Moments


def sources(grid, *places):
    rates = np.zeros((len(places), *grid.shape))
    for number, place in enumerate(places):
        rates[(number, *place)] = number + 1.0
    return rates / grid.weights


@pytest.mark.parametrize("intervals", [(20, 14), (13, 9), (7, 8)], ids=["nested", "finer", "neither"])
@pytest.mark.parametrize("second", [D, P], ids=["box", "tube"])
def test_point_sources_keep_their_totals_and_places(intervals, second):
    grid = Grid((Axis(11, 1.0), Axis(3, 2.0, second).resampled(7)))
    places = ((3, 2), (9, 5), (1, 6), (5, 0))
    to = on(grid, *intervals)
    moments = moments_on(sources(grid, *places), grid, to=to)
    np.testing.assert_allclose(moments.sum((1, 2)), [1, 2, 3, 4], rtol=1e-12)
    assert np.all(np.count_nonzero(moments, axis=(1, 2)) <= 4)
    centres = (moments * to.coordinates[0]).sum((1, 2)) / moments.sum((1, 2))
    np.testing.assert_allclose(centres, [0.3, 0.9, 0.1, 0.5], rtol=1e-12)


def test_several_sources_in_one_load_and_beside_a_field():
    grid = Grid.uniform(11)
    to = on(grid, 23, 17)
    field = np.zeros((1, *grid.shape))
    field[0, :, 6:] = np.random.default_rng(0).uniform(1, 2, (11, 5))
    both = field + sources(grid, (2, 2)) + sources(grid, (3, 3))  # neighbours on a diagonal are none
    expected = moments_on(field, grid, to=to) + moments_on(sources(grid, (2, 2)), grid, to=to)
    expected += moments_on(sources(grid, (3, 3)), grid, to=to)
    np.testing.assert_allclose(moments_on(both, grid, to=to), expected, atol=1e-12)


def test_a_smooth_load_is_interpolated_and_integrated_by_cells():
    grid = Grid.uniform(17)
    to = on(grid, 40, 40)
    coarse, fine = (np.exp(one.coordinates[0]) * np.cos(2 * one.coordinates[1]) for one in (grid, to))
    np.testing.assert_allclose(moments_on(coarse[None], grid, to=to)[0], fine * to.weights, rtol=1e-5)


@pytest.mark.parametrize("columns", [(3, 4, 5), (-2, -1, 0, 1)], ids=["inside", "across a periodic end"])
def test_a_patch_larger_than_a_cell_is_no_source(columns):
    grid = Grid((Axis(11, 1.0), Axis(8, 1.0, P)))
    to = on(grid, 24, 24)
    patch = np.zeros((1, *grid.shape))
    patch[0, 4:8, columns] = 1.0
    expected = interpolated(patch, grid, to=to) * to.weights
    np.testing.assert_allclose(moments_on(patch, grid, to=to), expected, atol=1e-15)
    assert np.count_nonzero(expected) > 100  # point sources reach four nodes each


def test_nodes_that_share_a_source_are_one():
    grid = Grid.uniform(11)
    to = on(grid, 24, 17)
    shared = np.zeros((1, *grid.shape))
    shared[0, 4:6, 5:7] = np.outer((0.3, 0.7), (0.6, 0.4))
    moments = moments_on(shared / grid.weights, grid, to=to)
    assert moments.min() >= 0
    assert float(moments.sum()) == pytest.approx(1.0)
    centre = [float((moments * x).sum()) for x in to.coordinates]
    assert centre == pytest.approx([0.47, 0.54])

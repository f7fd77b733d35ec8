"""The grid's promises: quadrature, masks, nesting, and the same numbers from NumPy and torch."""

import json
import pickle
import time
from itertools import combinations_with_replacement

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nipde.boundary import BOUNDARIES, Dirichlet, Neumann, Periodic
from nipde.errors import GridError, NipdeError, ShapeError
from nipde.grid import Axis, Grid
from tests.oracles.manufactured import observed_orders

KINDS = list(BOUNDARIES.values())
EVERY_MIX = [mix for dimension in (1, 2, 3) for mix in combinations_with_replacement(KINDS, dimension)]
axes = st.builds(Axis, st.integers(3, 9), st.floats(0.1, 10.0), st.sampled_from(KINDS))
grids = st.lists(axes, min_size=1, max_size=3).map(lambda chosen: Grid(tuple(chosen)))


def box(mix, *, nodes=5):
    # Odd and even, short and long: no two axes may be confused.
    return Grid(tuple(Axis(nodes + place, 1.0 + 0.7 * place, kind) for place, kind in enumerate(mix)))


def name_of(mix):
    return "-".join(kind.name for kind in mix)


# Quadrature


@pytest.mark.parametrize("mix", EVERY_MIX, ids=name_of)
def test_weights_are_positive_and_sum_to_the_volume(mix):
    grid = box(mix)
    assert np.all(grid.weights > 0)
    assert grid.weights.shape == grid.shape
    assert grid.weights.sum() == pytest.approx(grid.volume, rel=1e-14)
    assert grid.integrate(np.ones(grid.shape)) == pytest.approx(np.prod([a.length for a in grid.axes]), rel=1e-14)


@settings(max_examples=40, deadline=None)
@given(grid=grids)
def test_weights_sum_to_the_volume_on_any_grid(grid):
    assert grid.weights.sum() == pytest.approx(grid.volume, rel=1e-12)


@pytest.mark.parametrize("kind", [Dirichlet(), Neumann()], ids=lambda kind: kind.name)
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_trapezoid_rule_is_second_order_on_a_smooth_function(dimension, kind):
    def error(grid):
        return abs(grid.integrate(np.exp(sum(grid.coordinates))) - (np.e - 1) ** dimension)

    grids = [Grid.uniform(nodes, dimension=dimension, boundary=kind) for nodes in (11, 21, 41)]
    orders = observed_orders(error, grids)
    assert orders == pytest.approx([2.0, 2.0], abs=0.01)  # neither worse, nor better by luck


@pytest.mark.parametrize("nodes", [7, 8])
def test_periodic_rule_is_exact_for_every_resolved_wave_and_wrong_beyond(nodes):
    grid = Grid.uniform(nodes, dimension=1, length=3.0, boundary=Periodic())
    (x,) = grid.coordinates
    for wave in range(1, nodes):
        assert abs(grid.integrate(np.cos(2 * np.pi * wave * x / 3.0 + 0.3))) < 1e-13
    # The next wave looks constant at the nodes: no rule on them can know better.
    assert grid.integrate(np.cos(2 * np.pi * nodes * x / 3.0 + 0.3)) == pytest.approx(3.0 * np.cos(0.3))


def test_periodic_rule_is_exact_in_two_dimensions():
    grid = Grid((Axis(8, 1.0, Periodic()), Axis(9, 2.0, Periodic())))
    x, y = grid.coordinates
    square = (1 + np.sin(2 * np.pi * 3 * x)) ** 2 * (1 + np.cos(np.pi * 4 * y)) ** 2
    assert grid.integrate(square) == pytest.approx(1.5 * 3.0, rel=1e-13)


def test_coordinates_start_at_zero_and_end_where_the_boundary_says():
    for kind, last in ((Dirichlet(), 2.0), (Neumann(), 2.0), (Periodic(), 1.5)):
        axis = Axis(5 - kind.periodic, 2.0, kind)
        assert axis.coordinates[0] == 0
        assert axis.coordinates[-1] == pytest.approx(last, rel=1e-15)
        assert np.diff(axis.coordinates) == pytest.approx(axis.spacing)
        assert axis.spacing == 0.5


def test_space_is_ordered_as_the_axes_are():
    x, y, z = box((Dirichlet(), Neumann(), Periodic())).coordinates
    assert np.ptp(x, axis=(1, 2)).max() == np.ptp(y, axis=(0, 2)).max() == np.ptp(z, axis=(0, 1)).max() == 0
    assert min(np.ptp(x), np.ptp(y), np.ptp(z)) > 0


# Masks


@settings(max_examples=40, deadline=None)
@given(grid=grids)
def test_inner_unknown_and_corners_agree_with_each_other(grid):
    cut = np.zeros(grid.shape, dtype=bool)
    cut[grid.inner] = True
    assert np.array_equal(cut, grid.unknown)
    assert grid.unknown.sum() == np.prod([a.nodes - 2 * a.boundary.essential for a in grid.axes])

    times_fixed = np.zeros(grid.shape, dtype=int)
    for place, axis in enumerate(grid.axes):
        if axis.boundary.essential:
            times_fixed += np.isin(np.indices(grid.shape)[place], [0, axis.nodes - 1])
    assert np.array_equal(grid.unknown, times_fixed == 0)
    assert np.array_equal(grid.corners, times_fixed >= 2)


def test_a_square_has_four_corners_and_a_cube_its_edges_too():
    assert Grid.uniform(5).corners.sum() == 4
    assert Grid.uniform(5, dimension=3).corners.sum() == 8 + 12 * 3
    assert not Grid((Axis(5), Axis(5, boundary=Neumann()))).corners.any()


def test_a_mask_and_its_complement_share_the_integral():
    grid = box((Dirichlet(), Neumann()))
    rng = np.random.default_rng(0)
    field, mask = rng.standard_normal((3, *grid.shape)), rng.random(grid.shape) < 0.5
    whole = grid.integrate(field)
    parts = grid.integrate(field, mask=mask), grid.integrate(field, mask=~mask)
    assert sum(parts) == pytest.approx(whole, abs=1e-13)
    assert parts[0] != pytest.approx(whole, abs=1e-3)
    assert grid.norm(field, mask=mask) ** 2 + grid.norm(field, mask=~mask) ** 2 == pytest.approx(grid.norm(field) ** 2)


def test_norm_is_the_root_of_the_integrated_square():
    grid = Grid.uniform(41, dimension=2, length=2.0)
    x, y = grid.coordinates
    # Trapezoids are exact for whole waves: each squared sine integrates to half of its side of length 2.
    assert grid.norm(np.sin(np.pi * x / 2) * np.sin(np.pi * y)) == pytest.approx(1.0, rel=1e-13)
    assert grid.norm(-3 * np.ones((4, *grid.shape))) == pytest.approx(np.full(4, 6.0))


# Nesting


@settings(max_examples=30, deadline=None)
@given(grid=grids, factor=st.integers(1, 4), seed=st.integers(0, 9))
def test_refine_contains_the_old_nodes_and_restrict_finds_them(grid, factor, seed):
    fine = grid.refine(factor)
    assert fine.volume == grid.volume
    for mine, theirs in zip(grid.coordinates, fine.coordinates, strict=True):
        assert fine.restrict(theirs, to=grid) == pytest.approx(mine, abs=1e-12)
    field = np.random.default_rng(seed).standard_normal((2, *grid.shape))
    assert fine.restrict(grid.interpolate(field, to=fine), to=grid) == pytest.approx(field, abs=1e-12)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("kind", [Dirichlet(), Neumann()], ids=lambda kind: kind.name)
def test_interpolation_is_exact_for_multilinear_functions_on_any_grid(dimension, kind):
    def multilinear(grid):
        return np.prod([1 + (place + 2) * x for place, x in enumerate(grid.coordinates)], axis=0)

    grid = Grid.uniform(5, dimension=dimension, length=1.5, boundary=kind)
    for target in (grid.refine(3), Grid.uniform(8, dimension=dimension, length=1.5, boundary=kind)):
        assert grid.interpolate(multilinear(grid), to=target) == pytest.approx(multilinear(target), rel=1e-13)
        curved = grid.interpolate(multilinear(grid) ** 2, to=target)
        assert curved != pytest.approx(multilinear(target) ** 2, rel=1e-3)


def test_interpolation_is_second_order_on_every_boundary():
    def wave(grid):
        x, y, z = grid.coordinates
        return np.sin(2 * np.pi * x) * np.cos(np.pi * y) * np.sin(np.pi * z)

    def error(grid):
        fine = grid.refine(3)
        return np.max(np.abs(grid.interpolate(wave(grid), to=fine) - wave(fine)))

    def mixed(n):
        return Grid((Axis(n, boundary=Periodic()), Axis(n + 1, boundary=Neumann()), Axis(n + 1)))

    assert observed_orders(error, [mixed(12), mixed(24)])[0] == pytest.approx(2.0, abs=0.1)


def test_a_periodic_axis_is_interpolated_across_its_seam():
    coarse = Grid.uniform(4, dimension=1, boundary=Periodic())
    found = coarse.interpolate(np.array([1.0, 2.0, 3.0, 7.0]), to=coarse.refine())
    assert found.tolist() == [1.0, 1.5, 2.0, 2.5, 3.0, 5.0, 7.0, 4.0]  # the last one lies between 7 and 1


# NumPy and torch


@pytest.mark.parametrize("mix", [(Dirichlet(),), (Periodic(), Neumann()), tuple(KINDS)], ids=name_of)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_torch_gives_the_numbers_of_numpy_and_keeps_its_dtype(mix, dtype):
    grid = box(mix)
    fine, close = grid.refine(), 1e-5 if dtype == torch.float32 else 1e-13
    tensor = torch.as_tensor(np.random.default_rng(1).standard_normal((2, 3, *grid.shape))).to(dtype)
    array, mask = tensor.double().numpy(), torch.tensor(grid.unknown)
    for found, expected in (
        (grid.integrate(tensor), grid.integrate(array)),
        (grid.integrate(tensor, mask=mask), grid.integrate(array, mask=grid.unknown)),
        (grid.norm(tensor), grid.norm(array)),
        (grid.interpolate(tensor, to=fine), grid.interpolate(array, to=fine)),
        (fine.restrict(grid.interpolate(tensor, to=fine), to=grid), array),
    ):
        assert isinstance(found, torch.Tensor)
        assert found.dtype == dtype
        assert found.numpy() == pytest.approx(expected, abs=close)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_fields_keep_their_dtype(dtype):
    grid = box((Dirichlet(), Periodic()))
    field = np.ones(grid.shape, dtype=dtype)
    results = grid.integrate(field), grid.norm(field), grid.interpolate(field, to=grid.refine())
    assert {result.dtype for result in results} == {np.dtype(dtype)}


def test_gradients_flow_through_the_quadrature_and_are_its_weights():
    grid = box((Dirichlet(), Neumann()))
    field = torch.ones(grid.shape, dtype=torch.float64, requires_grad=True)
    grid.integrate(field).backward()
    assert field.grad.numpy() == pytest.approx(grid.weights, rel=1e-15)

    field = torch.as_tensor(np.random.default_rng(2).standard_normal(grid.shape)).requires_grad_()
    assert torch.autograd.gradcheck(grid.norm, field)
    assert torch.autograd.gradcheck(lambda f: grid.interpolate(f, to=grid.refine()), field)


# Size


def test_a_grid_of_a_million_nodes_is_quick():
    start = time.perf_counter()
    grid = Grid.uniform(1025)
    field = np.prod([np.sin(np.pi * x) for x in grid.coordinates], axis=0)
    coarse = Grid.uniform(513)
    assert grid.integrate(field) == pytest.approx((2 / np.pi) ** 2, rel=1e-5)
    assert grid.norm(field) == pytest.approx(0.5, rel=1e-12)
    assert grid.unknown.sum() == 1023**2
    halved = grid.restrict(field, to=coarse)
    assert np.max(np.abs(coarse.interpolate(halved, to=grid) - field)) < 1e-5
    assert Grid.uniform(1024).weights.sum() == pytest.approx(1.0, rel=1e-12)
    assert time.perf_counter() - start < 5  # 0.2 s on one free core


# Errors and records


@pytest.mark.parametrize(
    ("build", "got"),
    [
        (lambda: Axis(2), 2),
        (lambda: Axis(5, 0.0), 0.0),
        (lambda: Axis(5, float("inf")), float("inf")),
        (lambda: Grid(()), 0),
        (lambda: Grid.uniform(5, dimension=4), 4),
        (lambda: Grid.uniform([3, 4, 2]), 2),
    ],
)
def test_an_impossible_grid_is_refused_with_a_remedy(build, got):
    with pytest.raises(GridError) as error:
        build()
    assert error.value.got == got
    assert error.value.remedy


def test_a_length_that_is_not_a_number_is_refused():
    with pytest.raises(GridError):
        Axis(5, float("nan"))


@pytest.mark.parametrize("shape", [(5,), (6, 5), (5, 6, 3), ()])
def test_a_field_of_another_shape_is_refused_everywhere(shape):
    grid = box((Dirichlet(), Neumann()))
    field = np.ones(shape)
    for use in (
        grid.check,
        grid.integrate,
        grid.norm,
        lambda f: grid.restrict(f, to=grid),
        lambda f: grid.interpolate(f, to=grid),
    ):
        with pytest.raises(ShapeError) as error:
            use(field)
        assert (error.value.expected, error.value.got) == ("trailing axes (5, 6)", f"shape {shape}")


def test_restricting_to_nodes_that_are_not_there_points_to_interpolate():
    grid = Grid.uniform(11)
    for to, got in ((Grid.uniform(4), 3), (grid.refine(), 20)):  # neither divides 10 intervals
        with pytest.raises(GridError) as error:
            grid.restrict(np.ones(grid.shape), to=to)
        assert error.value.got == got
        assert "interpolate" in error.value.remedy


@pytest.mark.parametrize(
    "other", [Grid.uniform(11, length=2.0), Grid.uniform(11, boundary=Neumann()), Grid.uniform(11, dimension=1)]
)
def test_fields_do_not_move_to_another_box(other):
    grid = Grid.uniform(11)
    for move in (grid.restrict, grid.interpolate):
        with pytest.raises(GridError) as error:
            move(np.ones(grid.shape), to=other)
        assert error.value.got == [(axis.length, axis.boundary) for axis in other.axes]


def test_errors_are_caught_by_their_family_and_survive_a_process_border():
    error = GridError("no", expected=1, got=2, remedy="three")
    assert isinstance(error, NipdeError)
    assert isinstance(error, ValueError)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (GridError, "no, expected 1, got 2: three")


@settings(max_examples=40, deadline=None)
@given(grid=grids)
def test_a_grid_survives_json(grid):
    copy = Grid.from_dict(json.loads(json.dumps(grid.to_dict())))
    assert copy == grid
    assert hash(copy) == hash(grid)
    assert np.array_equal(copy.weights, grid.weights)


def test_grids_of_different_boundary_or_size_are_different():
    assert len({Grid.uniform(5), Grid.uniform(6), Grid.uniform(5, boundary=Neumann()), Grid.uniform(5, length=2)}) == 4
    assert str(Grid.uniform([5, 6], length=2.0)) == "5 × 6 nodes on 2 × 2"


def test_counts_and_flags_are_integrated_as_numbers():
    grid = Grid.uniform(11)
    for ones in (np.ones(grid.shape, int), np.ones(grid.shape, bool), torch.ones(grid.shape, dtype=torch.int64)):
        assert float(grid.integrate(ones)) == pytest.approx(1.0)


def test_shared_arrays_of_a_grid_cannot_be_written():
    grid = Grid.uniform(5)
    for values in (grid.weights, grid.unknown, grid.corners):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0


# Lengths in another unit


@settings(max_examples=40, deadline=None)
@given(grid=grids, factor=st.floats(1e-3, 1e3))
def test_a_stretched_grid_has_the_same_nodes_on_a_larger_box(grid, factor):
    found = grid.stretched(factor)
    assert found.shape == grid.shape
    assert [axis.boundary for axis in found.axes] == [axis.boundary for axis in grid.axes]
    assert found.spacing == pytest.approx([factor * spacing for spacing in grid.spacing])
    assert found.volume == pytest.approx(factor**grid.dimension * grid.volume)
    assert found.weights == pytest.approx(factor**grid.dimension * grid.weights)
    assert np.array_equal(found.unknown, grid.unknown)
    assert grid.ratio(found) == pytest.approx(factor)
    assert found.ratio(grid) == pytest.approx(1 / factor)


def test_a_grid_stretched_by_one_is_the_same_and_by_nothing_is_none():
    grid = Grid.uniform([5, 6], length=2.0)
    assert grid.stretched(1.0) == grid
    assert grid.stretched(4.0).stretched(0.25) == grid
    with pytest.raises(GridError) as error:
        grid.stretched(0.0)
    assert error.value.got == 0.0


def test_the_ratio_of_boxes_that_are_not_similar_is_a_mean():
    wide = Grid((Axis(5, 8.0), Axis(5, 2.0)))
    assert Grid.uniform(5).ratio(wide) == pytest.approx(4.0)


# Lengths


def test_every_axis_has_its_length():
    for lengths in ((2.0, 3.0), [2.0, 3.0], np.array([2.0, 3.0])):
        assert Grid.uniform(5, length=lengths) == Grid((Axis(5, 2.0), Axis(5, 3.0)))
    assert Grid.uniform([5, 6, 7], length=(1, 2, 3)).volume == 6


@pytest.mark.parametrize(("nodes", "length"), [(5, (1.0, 2.0, 3.0)), ([5, 6, 7], (1.0, 2.0)), (5, ())])
def test_as_many_lengths_as_axes(nodes, length):
    with pytest.raises(GridError) as error:
        Grid.uniform(nodes, length=length)
    assert error.value.expected == f"one length, or {2 if nodes == 5 else 3}"
    assert error.value.got == length


@pytest.mark.parametrize("length", ["1", None, (1.0, 2.0), 1j])
def test_a_length_is_a_number(length):
    with pytest.raises(GridError) as error:
        Axis(5, length)
    assert error.value.got == length

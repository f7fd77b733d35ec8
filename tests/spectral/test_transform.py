"""One contract for every form of the transform, on every boundary, dimension, parity and truncation."""

from functools import reduce

import numpy as np
import pytest
import torch

from nipde.boundary import BOUNDARIES, Dirichlet, Neumann, Periodic
from nipde.errors import GridError, ShapeError
from nipde.grid import Axis, Grid
from nipde.spectral.basis import nodal_matrix
from nipde.spectral.transform import DENSE_UP_TO, DenseTransform, FastTransform, transform

FORMS = [DenseTransform, FastTransform]
LENGTHS = (1.0, 2.5, 0.7)


def box(kinds, nodes):
    axes = zip(nodes, LENGTHS, kinds, strict=False)
    return Grid(tuple(Axis(count, length, kind) for count, length, kind in axes))


def label(grid):
    return "-".join(f"{axis.boundary.name}{axis.nodes}" for axis in grid.axes)


D, N, P = Dirichlet(), Neumann(), Periodic()
PURE = [box([kind] * d, [nodes] * d) for kind in BOUNDARIES.values() for d in (1, 2, 3) for nodes in (7, 8)]
MIXED = [box(kinds, (8, 7, 9)) for kinds in ((D, N), (N, P), (P, D), (D, N, P), (P, D, D), (N, P, N))]
GRIDS = PURE + MIXED

every_form = pytest.mark.parametrize("form", FORMS)
every_grid = pytest.mark.parametrize("grid", GRIDS, ids=label)
every_truncation = pytest.mark.parametrize("kept", [None, 4], ids=["full", "truncated"])


def build(form, grid, kept=None):
    return form(grid, modes=None if kept is None else [kept] * grid.dimension)


def normal(shape, *, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).standard_normal(shape))


def zero_on_dirichlet(field, grid):
    return field * torch.tensor(grid.unknown)


def matrix_of(chosen):
    """All modes at all nodes, as columns."""
    modes = int(np.prod(chosen.shape))
    units = torch.eye(modes, dtype=torch.float64).reshape(modes, *chosen.shape)
    return chosen.synthesis(units).reshape(modes, -1).T.numpy()


def largest(values):
    return float(values.abs().max())


# The contract


@every_truncation
@every_grid
@every_form
def test_modes_are_orthonormal_in_the_quadrature(form, grid, kept):
    modes = matrix_of(build(form, grid, kept))
    gram = modes.T @ (grid.weights.reshape(-1, 1) * modes)
    assert np.max(np.abs(gram - np.eye(len(gram)))) < 1e-12


@every_truncation
@every_grid
@every_form
def test_modes_are_the_products_of_the_axes_modes(form, grid, kept):
    # The slow oracle: the whole matrix, written down as one Kronecker product.
    oracle = reduce(np.kron, [nodal_matrix(axis, modes=kept) for axis in grid.axes])
    assert np.max(np.abs(matrix_of(build(form, grid, kept)) - oracle)) < 1e-12


@every_truncation
@every_grid
@every_form
def test_analysis_undoes_synthesis(form, grid, kept):
    chosen = build(form, grid, kept)
    coefficients = normal((3, *chosen.shape))
    assert largest(chosen.analysis(chosen.synthesis(coefficients)) - coefficients) < 1e-12


@every_truncation
@every_grid
@every_form
def test_analysis_is_the_weighted_projection(form, grid, kept):
    chosen, field = build(form, grid, kept), normal(grid.shape)
    projected = matrix_of(chosen).T @ (grid.weights * field.numpy()).reshape(-1)
    assert np.max(np.abs(chosen.analysis(field).numpy().reshape(-1) - projected)) < 1e-12


@every_grid
@every_form
def test_all_modes_keep_the_whole_field_and_its_norm(form, grid):
    chosen, field = build(form, grid), zero_on_dirichlet(normal((3, *grid.shape)), grid)
    coefficients = chosen.analysis(field)
    assert largest(chosen.synthesis(coefficients) - field) < 1e-12
    assert largest(coefficients.flatten(1).norm(dim=1) - grid.norm(field)) < 1e-12


@every_grid
@every_form
def test_fewer_modes_are_the_first_coefficients_and_lose_norm(form, grid):
    few, field = build(form, grid, 4), zero_on_dirichlet(normal(grid.shape), grid)
    head = (slice(4),) * grid.dimension
    assert largest(few.analysis(field) - build(form, grid).analysis(field)[head]) < 1e-12
    assert few.analysis(field).norm() < 0.999 * grid.norm(field)


@every_truncation
@every_grid
def test_dense_and_fast_are_the_same_map(grid, kept):
    dense, fast = build(DenseTransform, grid, kept), build(FastTransform, grid, kept)
    field, coefficients = normal((2, *grid.shape)), normal((2, *dense.shape))
    assert dense.shape == fast.shape
    assert largest(dense.analysis(field) - fast.analysis(field)) < 1e-12
    assert largest(dense.synthesis(coefficients) - fast.synthesis(coefficients)) < 1e-12


@every_grid
@every_form
def test_batch_axes_are_carried_along(form, grid):
    chosen, field = build(form, grid, 4), normal((2, 3, 1, *grid.shape))
    coefficients = chosen.analysis(field)
    assert coefficients.shape == (2, 3, 1, *chosen.shape)
    assert largest(coefficients[1, 2, 0] - chosen.analysis(field[1, 2, 0])) < 1e-14
    back = chosen.synthesis(coefficients)
    assert back.shape == field.shape
    assert largest(back[1, 2, 0] - chosen.synthesis(coefficients[1, 2, 0])) < 1e-14


@every_truncation
@every_grid
@every_form
def test_gradients_are_right(form, grid, kept):
    chosen = build(form, grid, kept)
    fast = grid.dimension > 1  # random directions instead of hundreds of columns
    assert torch.autograd.gradcheck(chosen.analysis, normal(grid.shape).requires_grad_(), fast_mode=fast)
    assert torch.autograd.gradcheck(chosen.synthesis, normal(chosen.shape).requires_grad_(), fast_mode=fast)


# What the modes mean


def smooth_on(axis):
    """A function in the span of the first modes that fits the boundary, and minus its second derivative."""
    x, k = axis.coordinates, np.pi / axis.length
    if isinstance(axis.boundary, Dirichlet):
        terms = [(1.0, k, np.sin(k * x)), (0.5, 2 * k, np.sin(2 * k * x))]
    elif isinstance(axis.boundary, Neumann):
        terms = [(1.0, 0.0, np.ones_like(x)), (1.0, k, np.cos(k * x)), (-0.7, 2 * k, np.cos(2 * k * x))]
    else:
        terms = [(1.0, 0.0, np.ones_like(x)), (0.3, 2 * k, np.cos(2 * k * x)), (2.0, 2 * k, np.sin(2 * k * x))]
    return sum(a * f for a, _, f in terms), sum(a * wave**2 * f for a, wave, f in terms)


@every_truncation
@every_grid
@every_form
def test_squared_wavenumbers_are_the_eigenvalues_of_minus_the_laplacian(form, grid, kept):
    factors = [smooth_on(axis) for axis in grid.axes]
    field = reduce(np.multiply.outer, [value for value, _ in factors])
    minus_laplacian = sum(
        reduce(np.multiply.outer, [factor[int(place == chosen)] for place, factor in enumerate(factors)])
        for chosen in range(grid.dimension)
    )
    spectral = build(form, grid, kept)
    coefficients = spectral.analysis(torch.as_tensor(field))
    found = spectral.synthesis(spectral.squared_wavenumbers(coefficients) * coefficients).numpy()
    assert np.max(np.abs(found - minus_laplacian)) < 1e-12 * np.max(np.abs(minus_laplacian))


@every_form
def test_a_smooth_periodic_function_converges_faster_than_any_power(form):
    def error(nodes):
        grid = Grid.uniform(nodes, dimension=1, boundary=Periodic())
        (x,) = (torch.as_tensor(values) for values in grid.coordinates)
        spectral, angle = form(grid), 2 * torch.pi * x
        coefficients = spectral.analysis(torch.exp(torch.cos(angle)))
        found = spectral.synthesis(spectral.squared_wavenumbers(coefficients) * coefficients)
        return largest(
            found - (2 * torch.pi) ** 2 * (torch.cos(angle) - torch.sin(angle) ** 2) * torch.cos(angle).exp()
        )

    assert error(8) > 1e-2
    assert error(16) < 1e-4 * error(8)  # better than order 13
    assert error(32) < 1e-10


@every_form
def test_a_single_mode_has_a_single_coefficient(form):
    grid = box((D, N, P), (9, 8, 7))
    x, y, z = (torch.as_tensor(values) for values in grid.coordinates)
    mode = torch.sin(3 * torch.pi * x) * torch.cos(2 * torch.pi * y / 2.5) * torch.sin(2 * torch.pi * z / 0.7)
    coefficients = form(grid).analysis(mode)
    expected = torch.zeros_like(coefficients)
    expected[2, 2, 2] = np.sqrt(1.0 * 2.5 * 0.7 / 8)
    assert largest(coefficients - expected) < 1e-13


# Precision


@every_form
@pytest.mark.parametrize("grid", MIXED, ids=label)
def test_float32_stays_float32_and_close(form, grid):
    chosen, field = form(grid), zero_on_dirichlet(normal(grid.shape), grid)
    single = chosen.analysis(field.float())
    assert single.dtype == chosen.synthesis(single).dtype == chosen.squared_wavenumbers(single).dtype == torch.float32
    assert largest(single - chosen.analysis(field)) < 1e-5
    assert largest(chosen.synthesis(single) - field) < 1e-5


@every_form
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_input_is_computed_in_float32(form, half):
    grid = box((D, P), (33, 32))
    chosen, field = form(grid), normal(grid.shape).to(half)
    coefficients = chosen.analysis(field)
    assert coefficients.dtype == torch.float32
    assert torch.equal(coefficients, chosen.analysis(field.float()))
    assert torch.equal(chosen.synthesis(coefficients.to(half)), chosen.synthesis(coefficients.to(half).float()))


@every_form
def test_autocast_does_not_lower_the_precision(form):
    grid = box((D, N), (33, 32))
    chosen, field = form(grid), normal(grid.shape).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (field @ field.T).dtype == torch.bfloat16  # what a plain product suffers here
        coefficients = chosen.analysis(field)
        back = chosen.synthesis(coefficients)
    assert coefficients.dtype == back.dtype == torch.float32
    assert torch.equal(coefficients, chosen.analysis(field))
    assert torch.equal(back, chosen.synthesis(coefficients))


# Choice and refusal


def test_the_form_is_chosen_by_the_number_of_modes():
    assert isinstance(transform(Grid.uniform(DENSE_UP_TO)), DenseTransform)
    assert isinstance(transform(Grid.uniform(DENSE_UP_TO + 1)), FastTransform)
    assert isinstance(transform(Grid.uniform([9, DENSE_UP_TO + 1])), FastTransform)
    assert isinstance(transform(Grid.uniform(1025), modes=[16, 16]), DenseTransform)
    assert transform(Grid.uniform(1025), modes=[16, 17]).shape == (16, 17)


@pytest.mark.parametrize("kinds", [(D, D), (N, N), (P, P), (D, P)], ids=lambda kinds: kinds[0].name + kinds[1].name)
def test_both_forms_agree_on_a_large_grid(kinds):
    grid = box(kinds, (257, 256))
    field = normal(grid.shape)
    dense, fast = DenseTransform(grid, modes=[40, 50]), FastTransform(grid, modes=[40, 50])
    assert largest(dense.analysis(field) - fast.analysis(field)) < 1e-12
    whole = FastTransform(grid)
    zeroed = zero_on_dirichlet(field, grid)
    assert largest(whole.synthesis(whole.analysis(zeroed)) - zeroed) < 1e-12


@every_form
@pytest.mark.parametrize("nodes", [3, 4])
@pytest.mark.parametrize("kind", [D, N, P], ids=lambda kind: kind.name)
def test_the_smallest_grids_work(form, nodes, kind):
    grid = box([kind], [nodes])
    chosen, field = form(grid), zero_on_dirichlet(normal((5, nodes)), grid)
    assert largest(chosen.synthesis(chosen.analysis(field)) - field) < 1e-14


@every_form
def test_more_modes_than_the_grid_resolves_are_refused(form):
    grid = box((D, P), (8, 7))
    assert form(grid, modes=[6, 7]).shape == form(grid).shape == (6, 7)
    for modes in ([7, 7], [6, 8], [0, 7]):
        with pytest.raises(GridError):
            form(grid, modes=modes)


@every_form
def test_arrays_of_another_shape_are_refused(form):
    chosen = form(box((D, P), (8, 7)), modes=[4, 5])
    with pytest.raises(ShapeError) as error:
        chosen.analysis(torch.zeros(2, 7, 8))
    assert "(2, 7, 8)" in error.value.got
    with pytest.raises(ShapeError) as error:
        chosen.synthesis(torch.zeros(2, 8, 7))
    assert "(2, 8, 7)" in error.value.got

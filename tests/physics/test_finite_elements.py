"""Bilinear finite elements: convergence order, reciprocity, layers in series, scikit-fem's assembly."""

import numpy as np
import pytest
import sympy
from trial_fields import normal, relative

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.errors import PhysicsError, ShapeError
from nipde.grid import Axis, Grid
from nipde.physics.darcy import Darcy
from nipde.physics.finite_elements import FiniteElements
from tests.oracles.manufactured import observed_orders, slab_green

D, N, P = Dirichlet(), Neumann(), Periodic()
BOX = Grid((Axis(9, 1.0, D), Axis(7, 1.5, N)))
every_ratio = pytest.mark.parametrize("ratio", [1.0, 5.0], ids=["isotropic", "anisotropic"])


def cells_of(grid):
    return tuple(axis.intervals for axis in grid.axes)


def centres(grid):
    return tuple(x[1::2, 1::2] for x in grid.refine(2).coordinates)


def rough(grid, *, seed=0):
    """A coefficient without relation between neighbouring cells."""
    return np.exp(normal(cells_of(grid), seed=seed))


# Convergence


def manufactured(ratio, boundary):
    """b, p and the load -∂x(√ratio b ∂x p) - ∂y(b/√ratio ∂y p) as functions of x and y; p fits 1 × 1.5."""
    x, y = sympy.symbols("x y", real=True)
    b = 2 + sympy.sin(2 * sympy.pi * x) * sympy.sin(2 * y + 1)
    p = sympy.sin(sympy.pi * x) * (sympy.cos if boundary == N else sympy.sin)(2 * sympy.pi * y)
    along = b * sympy.sqrt(ratio), b / sympy.sqrt(ratio)
    load = -sum(sympy.diff(part * sympy.diff(p, axis), axis) for part, axis in zip(along, (x, y), strict=True))
    return [sympy.lambdify((x, y), formula, "numpy") for formula in (b, p, load)]


@every_ratio
@pytest.mark.parametrize("boundary", [D, N], ids=["dirichlet", "neumann"])
def test_smooth_problems_converge_with_order_two(boundary, ratio):
    b, p, load = manufactured(ratio, boundary)
    grids = [Grid((Axis(17, 1.0, D), Axis(21, 1.5, boundary))).refine(factor) for factor in (1, 2, 4)]

    def error(grid, wrong=1.0):
        law = FiniteElements(grid, b(*centres(grid)), wrong * ratio)
        return grid.norm(law.solve(load(*grid.coordinates)[None])[0] - p(*grid.coordinates))

    assert observed_orders(error, grids)[-1] == pytest.approx(2.0, abs=0.02)
    assert observed_orders(lambda grid: error(grid, wrong=1.2), grids)[-1] < 0.5


def test_control_volumes_are_another_discretisation_of_the_same_equation():
    b, _, load = manufactured(1.0, D)

    def difference(grid):
        elements = FiniteElements(grid, b(*centres(grid))).solve(load(*grid.coordinates)[None])[0]
        volumes = Darcy(grid, b(*grid.coordinates)).solve(load(*grid.coordinates))
        return grid.norm(elements - volumes) / grid.norm(elements)

    grids = [Grid((Axis(17, 1.0), Axis(21, 1.5))).refine(factor) for factor in (1, 2, 4)]
    assert difference(grids[0]) > 1e-3
    assert observed_orders(difference, grids)[-1] == pytest.approx(2.0, abs=0.02)


# Reciprocity and point sources


@every_ratio
def test_the_response_at_one_source_to_another_is_mutual(ratio):
    law, places = FiniteElements(BOX, rough(BOX), ratio), [(2, 1), (6, 4), (4, 0), (1, 6)]
    moments = np.zeros((len(places), *BOX.shape))
    for moment, place in zip(moments, places, strict=True):
        moment[place] = 1.0
    green = law.solve_moments(moments)[(slice(None), *zip(*places, strict=True))]
    assert relative(green, green.T) < 1e-13
    assert np.all(np.linalg.eigvalsh(green) > 0)
    apart = green[np.triu_indices(len(places), 1)]
    assert len(np.unique(apart.round(6))) == apart.size  # reciprocity, not a symmetry of the specimen


def test_moments_of_a_load_sum_to_its_integral_and_superpose():
    law, loads = FiniteElements(BOX, rough(BOX)), normal((3, *BOX.shape))
    moments = law.moments(loads)
    assert moments.sum((1, 2)) == pytest.approx(BOX.integrate(loads), rel=1e-12)
    responses = law.solve(loads)
    assert relative(law.solve(loads[:1] - 2 * loads[1:2])[0], responses[0] - 2 * responses[1]) < 1e-12
    assert not responses[:, [0, -1]].any()  # the Dirichlet sides
    assert np.abs(responses[:, 1:-1, [0, -1]]).min() > 0  # the Neumann sides


def test_residuals_are_small_and_tell_a_wrong_response():
    law, loads = FiniteElements(BOX, rough(BOX)), normal((3, *BOX.shape))
    moments, responses = law.moments(loads), law.solve(loads)
    assert np.max(law.residual(moments, responses)) < 1e-13
    assert law.residual(moments, 1.001 * responses) == pytest.approx(1e-3, rel=1e-6)


# Two layers in series


def two_layers(across, *, jump=8, left=12.0, right=3.0):
    """Flow along axis `across` through b = left, then right beyond node `jump`; no flow through the other sides."""
    axes = [Axis(5, 0.7, N), Axis(5, 0.7, N)]
    axes[across] = Axis(21, 2.0, D)
    grid = Grid(tuple(axes))
    material = np.broadcast_to(grid.along(across, np.where(np.arange(20) < jump, left, right)), cells_of(grid))
    return grid, material, Grid((axes[across],)), axes[across].coordinates[jump]


def scale(across, ratio):
    """b along the axis over the coefficient: √ratio along x, 1/√ratio along y."""
    return ratio ** (0.5 - across)


@every_ratio
@pytest.mark.parametrize("across", [0, 1])
@pytest.mark.parametrize("source", [4, 8, 15])
def test_two_layers_answer_a_plane_source_exactly(across, source, ratio):
    grid, material, line, jump = two_layers(across)
    moments = np.zeros((1, *grid.shape))
    np.moveaxis(moments[0], across, 0)[source] = grid.axes[1 - across].weights  # one unit per unit of area
    found = FiniteElements(grid, material, ratio).solve_moments(moments)[0]
    exact = slab_green(line, source=source, jump=jump, left=12.0, right=3.0) / scale(across, ratio)
    assert relative(found, np.broadcast_to(grid.along(across, exact), grid.shape)) < 1e-12


@every_ratio
@pytest.mark.parametrize("across", [0, 1])
def test_two_layers_answer_an_even_load_exactly(across, ratio):
    # b p' = c - x with p = 0 at both ends: p = c R(x) - M(x), R = ∫ dx/b, M = ∫ x dx/b
    grid, material, line, jump = two_layers(across)
    x = line.axes[0].coordinates
    resistance = np.minimum(x, jump) / 12 + np.maximum(x - jump, 0) / 3
    moment = np.minimum(x, jump) ** 2 / 24 + (np.maximum(x, jump) ** 2 - jump**2) / 6
    exact = (moment[-1] / resistance[-1] * resistance - moment) / scale(across, ratio)
    found = FiniteElements(grid, material, ratio).solve(np.ones((1, *grid.shape)))[0]
    assert relative(found, np.broadcast_to(grid.along(across, exact), grid.shape)) < 1e-12


# scikit-fem


def assembled(grid, coefficient, ratio):
    """Stiffness and mass by scikit-fem's quadrature, rows and columns in the order of the grid's nodes."""
    skfem = pytest.importorskip("skfem")
    from skfem.helpers import grad

    mesh = skfem.MeshQuad.init_tensor(*(axis.coordinates for axis in grid.axes))
    basis = skfem.Basis(mesh, skfem.ElementQuad1(), intorder=3)
    steps = np.array(grid.spacing)

    def stiffness(u, v, w):
        i, j = (w.x / steps[:, None, None]).astype(int)  # quadrature points lie inside their cell
        flux = coefficient[i, j] * np.stack([grad(u)[0] * ratio**0.5, grad(u)[1] / ratio**0.5])
        return (flux * grad(v)).sum(0)

    matrices = [skfem.BilinearForm(form).assemble(basis) for form in (stiffness, lambda u, v, w: u * v)]
    i, j = np.round(basis.doflocs / steps[:, None]).astype(int)
    order = np.argsort(np.ravel_multi_index((i, j), grid.shape))
    return [matrix.toarray()[np.ix_(order, order)] for matrix in matrices]


@every_ratio
@pytest.mark.parametrize("grid", [BOX, Grid((Axis(6, 0.4), Axis(8, 1.0)))], ids=["mixed", "dirichlet"])
def test_matrices_moments_and_responses_are_those_of_scikit_fem(grid, ratio):
    coefficient, loads = rough(grid, seed=1), normal((2, *grid.shape), seed=2)
    stiffness, mass = assembled(grid, coefficient, ratio)
    law, free = FiniteElements(grid, coefficient, ratio), np.flatnonzero(grid.unknown)
    right = loads.reshape(2, -1) @ mass
    expected = np.zeros((2, grid.size))
    expected[:, free] = np.linalg.solve(stiffness[np.ix_(free, free)], right[:, free].T).T
    assert relative(law.matrix.toarray(), stiffness[np.ix_(free, free)]) < 1e-13
    assert relative(law.moments(loads).reshape(2, -1), right) < 1e-13
    assert relative(law.solve(loads).reshape(2, -1), expected) < 1e-11


# Errors


def test_a_coefficient_that_is_not_one_per_cell_is_refused():
    with pytest.raises(ShapeError) as error:
        FiniteElements(BOX, np.ones(BOX.shape))
    assert (error.value.expected, error.value.got) == ((8, 6), (9, 7))


@pytest.mark.parametrize("call", ["solve", "moments", "solve_moments"])
def test_loads_of_another_grid_are_refused(call):
    law = FiniteElements(BOX, np.ones((8, 6)))
    with pytest.raises(ShapeError) as error:
        getattr(law, call)(np.ones((1, 7, 9)))
    assert (error.value.expected, error.value.got) == ("trailing axes (9, 7)", "shape (1, 7, 9)")


@pytest.mark.parametrize(
    "grid",
    [
        Grid((Axis(5), Axis(5, 1.0, P))),
        Grid((Axis(5, 1.0, P), Axis(5))),
        Grid.uniform(5, dimension=1),
        Grid.uniform(5, boundary=Neumann()),
    ],
    ids=["periodic-y", "periodic-x", "line", "free"],
)
def test_periodic_axes_other_dimensions_and_free_bodies_are_refused(grid):
    with pytest.raises(PhysicsError) as error:
        FiniteElements(grid, np.ones(cells_of(grid)))
    assert error.value.expected == "a rectangle or box without periodic axes, one of them Dirichlet"
    assert error.value.got == grid.to_dict()


@pytest.mark.parametrize("ratio", [0.0, -1.0, np.nan, np.inf])
def test_a_ratio_that_is_not_positive_is_refused(ratio):
    with pytest.raises(PhysicsError) as error:
        FiniteElements(BOX, np.ones((8, 6)), ratio)
    assert error.value.got is ratio


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_coefficient_that_is_not_positive_and_finite_is_refused(value):
    coefficient = np.ones((8, 6))
    coefficient[3, 2] = value
    with pytest.raises(PhysicsError) as error:
        FiniteElements(BOX, coefficient)
    assert error.value.got == f"values from {coefficient.min()} to {coefficient.max()}"

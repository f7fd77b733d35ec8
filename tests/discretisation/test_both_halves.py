"""One contract for both halves of the discretisation: the NumPy half and the torch half pass the same tests.

Fields of all cells go in and come out as flat float64 arrays; columns are pairs, zero where the value is given.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.discretisation import operator as operator_module
from nipde.discretisation.checkerboard import checkerboard, fix_checkerboard_gauge, has_checkerboard
from nipde.discretisation.links import Arithmetic, Harmonic, factorised, links_of, solved
from nipde.discretisation.operator import EllipticOperator, TensorSensitivity
from nipde.discretisation.sensitivity import Sensitivity, conductances_of
from nipde.discretisation.tensor_links import tensor_links
from nipde.grid import Axis, Grid

D, N, P = Dirichlet(), Neumann(), Periodic()
GRIDS = [
    Grid(tuple(Axis(5 + place, 1.0 + 0.5 * place, kind) for place, kind in enumerate(kinds)))
    for kinds in [(D,), (D, D), (D, N), (P, D), (D, D, D), (D, N, P)]
]
MEANS = {"harmonic": Harmonic(), "arithmetic": Arithmetic()}


@dataclass(frozen=True)
class NumPyHalf:
    """`links` and `sensitivity`."""

    grid: Grid
    mean: Harmonic | Arithmetic

    def matrix(self, log, drift):
        """A on the unknown cells, in the grid's order, dense."""
        links = links_of(self.grid)
        order = np.argsort(links.unknown)
        return self._sparse(log, drift).toarray()[np.ix_(order, order)]

    def _sparse(self, log, drift):
        links = links_of(self.grid)
        conductance = links.mean(np.exp(log), self.mean) * links.factor
        carried = None if drift is None else links.normal_velocity(drift) * links.area
        return links.assemble(conductance=conductance, transport=carried)

    def apply(self, log, drift, fields):
        return self._everywhere(self._sparse(log, drift) @ self._unknown(fields))

    def solve(self, log, drift, moments, *, transposed):
        factor = factorised(self._sparse(log, drift), symmetric=drift is None)
        return self._everywhere(solved(factor, self._unknown(moments).T, transposed=transposed).T)

    def jvp(self, log, responses, change):
        return self._everywhere(self._sensitivity(log, responses).jvp(change))

    def vjp(self, log, responses, adjoint):
        return self._sensitivity(log, responses).vjp(self._unknown(adjoint))

    def _sensitivity(self, log, responses):
        conductances = conductances_of(self.grid, self.mean)
        drops = conductances.difference @ self._unknown(responses)
        return Sensitivity(conductances.difference, conductances.slopes(log), drops)

    def _unknown(self, fields):
        return fields[links_of(self.grid).unknown]

    def _everywhere(self, values):
        fields = np.zeros((self.grid.size, values.shape[1]))
        fields[links_of(self.grid).unknown] = values
        return fields


@dataclass(frozen=True)
class TorchHalf:
    """`tensor_links` and `operator`."""

    grid: Grid
    mean: Harmonic | Arithmetic

    def matrix(self, log, drift):
        return self._operator(log, drift).matrix()[0].numpy()

    def apply(self, log, drift, fields):
        return self._flat(self._operator(log, drift)(self._tensor(fields)))

    def solve(self, log, drift, moments, *, transposed):
        return self._flat(self._operator(log, drift).solve(self._tensor(moments), transposed=transposed))

    def jvp(self, log, responses, change):
        return self._flat(self._sensitivity(log, responses).jvp(self._tensor(change[:, None])))

    def vjp(self, log, responses, adjoint):
        return self._sensitivity(log, responses).vjp(self._tensor(adjoint))[0, 0].flatten().numpy()

    def _operator(self, log, drift):
        carried = None if drift is None else torch.tensor(drift)[None]
        return EllipticOperator.of(self.grid, self._tensor(log[:, None])[:, 0], carried, self.mean.power)

    def _sensitivity(self, log, responses):
        point, fields = self._tensor(log[:, None]), self._tensor(responses)
        return TensorSensitivity(tensor_links(self.grid, point), point, fields, mean_power=self.mean.power)

    def _tensor(self, columns):
        return torch.tensor(columns.T).reshape(1, -1, *self.grid.shape)

    def _flat(self, fields):
        return fields[0].flatten(1).T.numpy()


class IteratedTorchHalf(TorchHalf):
    """Conjugate gradients and BiCGStab, as on large grids."""

    def solve(self, log, drift, moments, *, transposed):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(operator_module, "DENSE_UNKNOWNS", 0)
            return super().solve(log, drift, moments, transposed=transposed)


@pytest.fixture(params=GRIDS, ids=lambda grid: "-".join(axis.boundary.name for axis in grid.axes))
def grid(request):
    return request.param


@pytest.fixture(params=MEANS)
def mean(request):
    return MEANS[request.param]


@pytest.fixture(params=[NumPyHalf, TorchHalf])
def half(request, grid, mean):
    return request.param(grid, mean)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def log_of(grid, rng):
    return rng.standard_normal(grid.size)


def drift_of(grid, rng):
    return 0.5 * rng.standard_normal((grid.dimension, *grid.shape))


def fields_of(grid, rng, count=3):
    return rng.standard_normal((grid.size, count)) * grid.unknown.reshape(-1, 1)


def matrix_by_hand(grid, mean, log, drift):
    """The slow oracle: one loop over cells and axes, fluxes to the next cell, then the unknown cells."""
    cells, b = np.arange(grid.size).reshape(grid.shape), np.exp(log)
    matrix = np.zeros((grid.size, grid.size))
    for place, axis in enumerate(grid.axes):
        areas = grid.weights / grid.along(place, axis.weights)
        for index in np.ndindex(grid.shape):
            after = list(index)
            after[place] += 1
            if after[place] == axis.nodes:
                if not axis.boundary.periodic:
                    continue
                after[place] = 0
            one, other = cells[index], cells[tuple(after)]
            conductance = mean(b[one], b[other]) * areas[index] / axis.spacing
            half = 0.0
            if drift is not None:
                half = (drift[place][index] + drift[place][tuple(after)]) / 4 * areas[index]
            for cell, sign in ((one, 1), (other, -1)):
                matrix[cell, one] += sign * (conductance + half)
                matrix[cell, other] += sign * (half - conductance)
    unknown = np.flatnonzero(grid.unknown)
    return matrix[np.ix_(unknown, unknown)]


@pytest.mark.parametrize("carried", [False, True], ids=["diffusion", "with transport"])
def test_the_operator_is_the_loop_over_cells(half, grid, mean, rng, carried):
    log, drift = log_of(grid, rng), drift_of(grid, rng) if carried else None
    expected = matrix_by_hand(grid, mean, log, drift)
    np.testing.assert_allclose(half.matrix(log, drift), expected, atol=1e-13 * np.abs(expected).max())
    fields, unknown = fields_of(grid, rng), grid.unknown.reshape(-1)
    image = half.apply(log, drift, fields)
    np.testing.assert_allclose(image[unknown], expected @ fields[unknown], atol=1e-12 * np.abs(image).max())
    assert not image[~unknown].any()


def test_diffusion_is_symmetric_and_positive_and_transport_is_not_symmetric(half, grid, rng):
    log = log_of(grid, rng)
    matrix = half.matrix(log, None)
    assert np.abs(matrix - matrix.T).max() <= 1e-14 * np.abs(matrix).max()
    assert np.linalg.eigvalsh(matrix).min() > 0
    moving = half.matrix(log, drift_of(grid, rng))
    assert np.abs(moving - moving.T).max() > 1e-3 * np.abs(matrix).max()


def test_what_leaves_one_cell_enters_another(half, grid, rng):
    """Columns of A of cells without a given neighbour sum to 0, with transport as well."""
    matrix = half.matrix(log_of(grid, rng), drift_of(grid, rng))
    isolated = grid.interior.reshape(-1)[grid.unknown.reshape(-1)]
    assert isolated.any()
    assert np.abs(matrix.sum(0)[isolated]).max() <= 1e-13 * np.abs(matrix).max()


def test_the_transpose_of_the_derivative_is_its_transpose(half, grid, rng):
    log, change = log_of(grid, rng), rng.standard_normal(grid.size)
    responses, adjoint = fields_of(grid, rng), fields_of(grid, rng)
    forward = np.sum(half.jvp(log, responses, change) * adjoint)
    assert forward == pytest.approx(half.vjp(log, responses, adjoint) @ change, rel=1e-12)


def test_the_derivative_is_that_of_the_operator(half, grid, rng):
    """Second-order differences: a step ten times smaller errs a hundred times less."""
    log, change, responses = log_of(grid, rng), rng.standard_normal(grid.size), fields_of(grid, rng)
    expected = half.jvp(log, responses, change)

    def error(step):
        ahead, behind = (half.apply(log + sign * step * change, None, responses) for sign in (1, -1))
        return np.abs((ahead - behind) / (2 * step) - expected).max() / np.abs(expected).max()

    assert error(1e-3) < 1e-5
    assert error(1e-3) < 0.02 * error(1e-2)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", [NumPyHalf, TorchHalf, IteratedTorchHalf])
@pytest.mark.parametrize("carried", [False, True], ids=["diffusion", "with transport"])
def test_solutions_leave_no_residual(kind, grid, mean, rng, transposed, carried):
    half = kind(grid, mean)
    log, drift = 0.5 * log_of(grid, rng), drift_of(grid, rng) if carried else None
    moments, unknown = fields_of(grid, rng), grid.unknown.reshape(-1)
    responses = half.solve(log, drift, moments, transposed=transposed)
    matrix = half.matrix(log, drift)
    residual = (matrix.T if transposed else matrix) @ responses[unknown] - moments[unknown]
    assert np.linalg.norm(residual) <= 1e-11 * np.linalg.norm(moments)
    assert not responses[~unknown].any()


def test_the_gauge_changes_no_conductance_and_does_not_depend_on_the_checkerboard(half, grid, mean, rng):
    log = log_of(grid, rng)
    values, signs = np.exp(mean.power * log), checkerboard(grid).reshape(-1)
    hidden = np.log(values + 0.2 * values.min() * signs * has_checkerboard(grid)) / mean.power
    fixed, other = (
        fix_checkerboard_gauge(grid, torch.tensor(field).view(1, *grid.shape), mean.power).flatten().numpy()
        for field in (log, hidden)
    )
    expected = half.matrix(log, None)
    for field in (hidden, fixed, other):
        np.testing.assert_allclose(half.matrix(field, None), expected, atol=1e-12 * expected.max())
    if not has_checkerboard(grid):
        np.testing.assert_array_equal(fixed, log)


# The torch half alone


def test_the_derivative_by_drift_is_that_of_the_operator(grid, mean, rng):
    coefficients = torch.tensor(rng.standard_normal((1, 1 + grid.dimension, *grid.shape)))
    change = torch.tensor(rng.standard_normal(coefficients.shape))
    responses, adjoint = (torch.tensor(fields_of(grid, rng).T).reshape(1, -1, *grid.shape) for _ in range(2))

    def image(point):
        return EllipticOperator.of(grid, point[:, 0], point[:, 1:], mean.power)(responses)

    links = tensor_links(grid, coefficients)
    sensitivity = TensorSensitivity(links, coefficients, responses, mean_power=mean.power)
    expected = torch.func.jvp(image, (coefficients,), (change,))[1]
    torch.testing.assert_close(sensitivity.jvp(change), expected, rtol=0, atol=1e-12 * float(expected.abs().max()))
    backward = torch.func.vjp(image, coefficients)[1](adjoint)[0]
    torch.testing.assert_close(sensitivity.vjp(adjoint), backward, rtol=0, atol=1e-12 * float(backward.abs().max()))


@pytest.mark.parametrize("carried", [False, True], ids=["diffusion", "with transport"])
def test_solves_are_differentiable_in_all_their_arguments(grid, mean, rng, carried):
    log = torch.tensor(0.3 * log_of(grid, rng)).reshape(1, *grid.shape).requires_grad_()
    drift = torch.tensor(drift_of(grid, rng))[None].requires_grad_() if carried else None
    moments = torch.tensor(fields_of(grid, rng, 1).T).reshape(1, 1, *grid.shape).requires_grad_()
    probe = torch.tensor(rng.standard_normal(grid.shape))
    inputs = [log, moments] if drift is None else [log, moments, drift]

    def value(log, moments, drift=None):
        return (EllipticOperator.of(grid, log, drift, mean.power).solve(moments) * probe).sum()

    gradients = torch.autograd.grad(value(*inputs), inputs)
    directions = [torch.tensor(rng.standard_normal(one.shape)) for one in inputs]
    expected = sum(float((gradient * way).sum()) for gradient, way in zip(gradients, directions, strict=True))
    step = 1e-5
    ahead, behind = (
        value(*(one.detach() + sign * step * way for one, way in zip(inputs, directions, strict=True)))
        for sign in (1, -1)
    )
    assert float(ahead - behind) / (2 * step) == pytest.approx(expected, rel=1e-6)


def test_the_laplacian_is_the_operator_of_the_coefficient_1(grid, mean, rng):
    fields = torch.tensor(fields_of(grid, rng).T).reshape(1, -1, *grid.shape)
    links = tensor_links(grid, fields)
    operator = EllipticOperator.of(grid, torch.zeros(1, *grid.shape, dtype=torch.float64), None, mean.power)
    found = links.laplacian(fields) * links.is_unknown
    torch.testing.assert_close(found, operator(fields), rtol=0, atol=1e-12 * float(found.abs().max()))

"""Eigenfunctions that fit a boundary: orthonormal, nested, and what their formulas say."""

import numpy as np
import pytest

from nipde.boundary import BOUNDARIES, Dirichlet, Neumann, Periodic
from nipde.errors import GridError
from nipde.grid import Axis
from nipde.spectral.basis import FITTING, Cosine, Fourier, Sine, basis_of, nodal_matrix

BASES = [Sine, Cosine, Fourier]
KINDS = list(BOUNDARIES.values())
LENGTH = 1.7


def named(choice):
    return getattr(choice, "name", None) or getattr(choice, "__name__", None)


def test_every_boundary_has_its_basis():
    assert {kind: type(basis_of(Axis(7, boundary=kind()))) for kind in FITTING} == {
        Dirichlet: Sine,
        Neumann: Cosine,
        Periodic: Fourier,
    }


def test_functions_are_the_ones_in_the_table():
    x, height = np.linspace(0, LENGTH, 13), np.sqrt(2 / LENGTH)
    flat, k = np.full_like(x, 1 / np.sqrt(LENGTH)), np.pi / LENGTH
    expected = {
        Sine: [height * np.sin(k * x), height * np.sin(2 * k * x), height * np.sin(3 * k * x)],
        Cosine: [flat, height * np.cos(k * x), height * np.cos(2 * k * x)],
        Fourier: [flat, height * np.cos(2 * k * x), height * np.sin(2 * k * x)],
    }
    for kind, columns in expected.items():
        assert np.max(np.abs(kind(LENGTH, 3).values(x) - np.stack(columns, axis=1))) < 1e-14


@pytest.mark.parametrize("kind", BASES, ids=named)
def test_functions_are_orthonormal_in_the_exact_integral(kind):
    # Gauss points know nothing of our grids: 60 of them integrate these products to rounding.
    points, weights = np.polynomial.legendre.leggauss(60)
    values = kind(LENGTH, 12).values((points + 1) * LENGTH / 2)
    gram = values.T @ (values * (weights * LENGTH / 2)[:, None])
    assert np.max(np.abs(gram - np.eye(12))) < 1e-12


@pytest.mark.parametrize("kind", BASES, ids=named)
def test_first_derivative_is_the_limit_of_differences(kind):
    basis, step = kind(LENGTH, 9), 1e-5
    x = np.linspace(0.1, LENGTH - 0.1, 23)
    difference = (basis.values(x + step) - basis.values(x - step)) / (2 * step)
    slope = basis.values(x, derivative=1)
    assert np.max(np.abs(slope - difference)) < 1e-6 * np.max(np.abs(slope))
    assert np.max(np.abs(-slope - difference)) > 0.1  # a sign error would be seen


@pytest.mark.parametrize("kind", BASES, ids=named)
def test_functions_are_eigenfunctions_of_the_second_derivative(kind):
    basis, step = kind(LENGTH, 9), 1e-5
    x = np.linspace(0.1, LENGTH - 0.1, 23)
    second = (basis.values(x + step, derivative=1) - basis.values(x - step, derivative=1)) / (2 * step)
    eigen = -(basis.wavenumbers**2) * basis.values(x)
    assert np.max(np.abs(second - eigen)) < 1e-6 * np.max(np.abs(eigen))


def test_functions_obey_their_boundary_at_both_ends():
    ends = np.array([0.0, LENGTH])
    assert np.max(np.abs(Sine(LENGTH, 9).values(ends))) < 1e-13
    assert np.max(np.abs(Cosine(LENGTH, 9).values(ends, derivative=1))) < 1e-11
    for derivative in (0, 1):
        left, right = Fourier(LENGTH, 9).values(ends, derivative=derivative)
        assert np.max(np.abs(left - right)) < 1e-11
    # No basis fits a boundary that is not its own.
    assert np.max(np.abs(Cosine(LENGTH, 9).values(ends))) > 0.1
    assert np.max(np.abs(Sine(LENGTH, 9).values(ends, derivative=1))) > 0.1


@pytest.mark.parametrize("kind", BASES, ids=named)
def test_modes_rise_and_a_shorter_basis_is_the_start_of_a_longer_one(kind):
    short, long = kind(LENGTH, 5), kind(LENGTH, 11)
    assert np.all(np.diff(long.wavenumbers) >= 0)
    assert np.array_equal(short.wavenumbers, long.wavenumbers[:5])
    x = np.linspace(0, LENGTH, 17)
    assert np.array_equal(short.values(x), long.values(x)[:, :5])


@pytest.mark.parametrize("boundary", KINDS, ids=named)
@pytest.mark.parametrize("nodes", [3, 4, 7, 8, 41])
def test_nodal_columns_are_orthonormal_in_the_quadrature(boundary, nodes):
    axis = Axis(nodes, LENGTH, boundary)
    matrix = nodal_matrix(axis)
    assert matrix.shape == (nodes, nodes - 2 * boundary.essential)
    gram = matrix.T @ (axis.weights[:, None] * matrix)
    assert np.max(np.abs(gram - np.eye(len(gram)))) < 1e-12
    # The unit is the quadrature's, not the plain sum's.
    assert np.max(np.abs(matrix.T @ matrix - np.eye(len(gram)))) > 0.1


@pytest.mark.parametrize("boundary", KINDS, ids=named)
def test_only_the_alternating_mode_differs_from_the_function(boundary):
    axis = Axis(8, LENGTH, boundary)
    basis = basis_of(axis)
    ratio = np.linalg.norm(nodal_matrix(axis), axis=0) / np.linalg.norm(basis.values(axis.coordinates), axis=0)
    alternating = np.isclose(basis.wavenumbers * axis.spacing, np.pi)
    assert alternating.sum() == (0 if boundary.essential else 1)
    assert np.max(np.abs(ratio - np.where(alternating, np.sqrt(0.5), 1.0))) < 1e-12


def test_dirichlet_ends_are_zero_to_the_last_bit():
    assert not nodal_matrix(Axis(9, LENGTH, Dirichlet()))[[0, -1]].any()


@pytest.mark.parametrize(("boundary", "resolved"), [(Dirichlet(), 5), (Neumann(), 7), (Periodic(), 7)], ids=named)
def test_more_modes_than_nodes_tell_apart_are_refused(boundary, resolved):
    axis = Axis(7, LENGTH, boundary)
    assert basis_of(axis).modes == basis_of(axis, modes=resolved).modes == resolved
    for modes in (0, -1, resolved + 1):
        with pytest.raises(GridError) as error:
            basis_of(axis, modes=modes)
        assert error.value.got == modes
        with pytest.raises(GridError):
            nodal_matrix(axis, modes=modes)

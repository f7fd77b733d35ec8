"""Kernels in SciPy's hands: the operator is the matrix K W, its transpose is that matrix's, and solvers take it."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import gmres, svds

import nipde
from nipde.boundary import Neumann
from nipde.errors import KernelError
from nipde.grid import Axis, Grid
from nipde.interop.linear_operator import as_linear_operator
from nipde.kernels.dense import DenseKernel
from nipde.kernels.low_rank import LowRankKernel
from nipde.physics.darcy import Darcy

GRID = Grid((Axis(7, 1.3), Axis(6, 2.5, Neumann())))


def some_fields(*leading, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal((*leading, *GRID.shape)))


KERNELS = {
    "dense": DenseKernel(GRID, some_fields(42).reshape(42, 42)),
    "low rank": LowRankKernel(GRID, some_fields(5, 1), some_fields(5, 1)),
    "low rank, 2 to 3": LowRankKernel(GRID, some_fields(5, 3), some_fields(5, 2, seed=1)),
    "conditioned": nipde.load("darcy-two-phase").double()(nipde.Pairs(GRID, some_fields(4, 1), some_fields(4, 1))),
}


def matrix_of(kernel):
    return kernel.dense().numpy() * np.tile(GRID.weights.reshape(-1), kernel.components[1])


@pytest.mark.parametrize("name", KERNELS)
def test_it_is_the_matrix_in_all_four_products(name):
    kernel, rng = KERNELS[name], np.random.default_rng(2)
    operator, matrix = as_linear_operator(kernel), matrix_of(kernel)
    assert operator.shape == matrix.shape
    assert operator.dtype == np.float64
    into, out = rng.standard_normal((matrix.shape[1], 3)), rng.standard_normal((matrix.shape[0], 3))
    for found, expected in (
        (operator.matvec(into[:, 0]), matrix @ into[:, 0]),
        (operator @ into, matrix @ into),
        (operator.rmatvec(out[:, 0]), matrix.T @ out[:, 0]),
        (operator.H @ out, matrix.T @ out),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(matrix).max())


def test_precision_is_the_kernels():
    left = some_fields(5, 1).float()
    assert as_linear_operator(LowRankKernel(GRID, left, left)).dtype == np.float32


def test_svds_finds_the_singular_values_of_the_matrix():
    kernel = KERNELS["low rank"]
    found = np.sort(svds(as_linear_operator(kernel), k=4, return_singular_vectors=False))
    expected = np.sort(np.linalg.svd(matrix_of(kernel), compute_uv=False))[-4:]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_gmres_finds_the_load_behind_a_response():
    """From a response back to its load, through the kernel alone: (α I + K W) f = α f + u."""
    grid = nipde.Grid.uniform(9)
    law = Darcy(grid, np.where(grid.coordinates[0] < 0.5, 12.0, 3.0))
    operator = as_linear_operator(DenseKernel(grid, torch.tensor(law.green())))
    load = np.sin(3 * grid.coordinates[0]) * grid.coordinates[1] * grid.unknown
    response = law.solve(load[None])[0]
    np.testing.assert_allclose(operator @ load.reshape(-1), response.reshape(-1), atol=1e-12)
    shift = 1e-3
    shifted = type(operator)(
        operator.shape, matvec=lambda vector: shift * vector + operator @ vector, dtype=operator.dtype
    )
    given = shift * load.reshape(-1) + response.reshape(-1)
    found, state = gmres(shifted, given, rtol=1e-12, restart=81, maxiter=20)
    assert state == 0
    np.testing.assert_allclose(found.reshape(grid.shape), load, atol=1e-8)


def test_predictors_that_are_not_linear_and_batches_are_refused():
    with pytest.raises(KernelError, match="one system"):
        as_linear_operator(LowRankKernel(GRID, some_fields(2, 5, 1), some_fields(2, 5, 1)))
    model = nipde.NIPSMLP(GRID, pairs=4, channels=2, layers=2).double()
    predictor = model(nipde.Pairs(GRID, some_fields(4, 1), some_fields(4, 1, seed=3)))
    with pytest.raises(KernelError, match="linear in the load"):
        as_linear_operator(predictor)

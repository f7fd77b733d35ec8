"""SciPy's solvers take a kernel as a linear operator."""

import numpy as np
import torch
from scipy.sparse.linalg import gmres, svds

from nipde.boundary import Neumann
from nipde.grid import Axis, Grid
from nipde.kernels.dense import DenseKernel
from nipde.kernels.low_rank import LowRankKernel
from nipde.physics.darcy import Darcy


def test_svds_gives_the_singular_values_of_the_matrix():
    grid = Grid((Axis(7, 1.3), Axis(6, 2.5, Neumann())))
    left, right = torch.tensor(np.random.default_rng(0).standard_normal((2, 5, 1, *grid.shape)))
    kernel = LowRankKernel(grid, left, right)
    values = np.sort(svds(kernel.as_linear_operator(), k=4, return_singular_vectors=False))
    expected = np.sort(np.linalg.svd(kernel.dense().numpy() * grid.weights.reshape(-1), compute_uv=False))[-4:]
    np.testing.assert_allclose(values, expected, rtol=1e-8)


def test_gmres_gives_the_load_of_a_response():
    """From a response back to its load, through the kernel alone: (α I + K W) f = α f + u."""
    grid = Grid.uniform(9)
    law = Darcy(grid, np.where(grid.coordinates[0] < 0.5, 12.0, 3.0))
    operator = DenseKernel(grid, torch.tensor(law.green())).as_linear_operator()
    load = np.sin(3 * grid.coordinates[0]) * grid.coordinates[1] * grid.unknown
    response = law.solve(load[None])[0]
    np.testing.assert_allclose(operator @ load.reshape(-1), response.reshape(-1), atol=1e-12)
    shift = 1e-3
    shifted = type(operator)(
        operator.shape, matvec=lambda vector: shift * vector + operator @ vector, dtype=operator.dtype
    )
    known = shift * load.reshape(-1) + response.reshape(-1)
    solution, state = gmres(shifted, known, rtol=1e-12, restart=81, maxiter=20)
    assert state == 0
    np.testing.assert_allclose(solution.reshape(grid.shape), load, atol=1e-8)

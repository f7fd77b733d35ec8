"""The kernel of a law: the same numbers as its Green's matrix, by sparse solves, with exact derivatives."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.errors import KernelError
from nipde.grid import Axis, Grid
from nipde.kernels.dense import DenseKernel
from nipde.kernels.law import LawKernel
from nipde.kernels.low_rank import LowRankKernel
from nipde.physics.advection import AdvectionDiffusion
from nipde.physics.darcy import Darcy

GRIDS = [
    Grid.uniform(9, dimension=1, length=2.0),
    Grid((Axis(6, 1.0, Dirichlet()), Axis(5, 2.0, Neumann()))),
    Grid((Axis(3, 1.0, Periodic()), Axis(4, 0.5, Dirichlet()), Axis(3, 1.0, Neumann()))),
]
every_grid = pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: "x".join(map(str, grid.shape)))


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def darcy(grid, *, seed=0):
    return Darcy(grid, normal(*grid.shape, seed=seed).exp().numpy())


def stirred(grid, *, seed=0):
    velocity = 0.3 * normal(grid.dimension, *grid.shape, seed=seed).clamp(-2, 2)
    return AdvectionDiffusion(grid, np.ones(grid.shape), velocity.numpy())


both_laws = pytest.mark.parametrize("law_of", [darcy, stirred])


def assert_close(found, expected, *, within=1e-12):
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) <= within * float(expected.abs().max())


@every_grid
@both_laws
def test_solves_are_the_greens_matrix(grid, law_of):
    law, loads = law_of(grid), normal(3, 1, *grid.shape, seed=1)
    kernel, matrix = LawKernel.of(law), DenseKernel(grid, torch.tensor(law.green()))
    assert kernel.batch == ()
    assert kernel.components == (1, 1)
    assert_close(kernel @ loads, matrix @ loads)
    assert_close(kernel @ loads, torch.tensor(law.solve(loads.numpy())))
    assert_close(kernel.T @ loads, matrix.T @ loads)
    assert_close(kernel.dense(), matrix.dense())
    assert_close(kernel.T.dense(), matrix.T.dense())
    assert_close(kernel.diagonal(), matrix.diagonal())
    assert_close(kernel.row_integral(), matrix.row_integral())
    assert_close((kernel * -2.5) @ loads, -2.5 * (matrix @ loads))


def test_the_transpose_of_a_stirred_medium_is_another_kernel():
    kernel, load = LawKernel.of(stirred(GRIDS[1])), normal(1, 1, *GRIDS[1].shape, seed=1)
    difference = (kernel.T @ load - kernel @ load).norm() / (kernel @ load).norm()
    assert difference > 1e-2
    assert_close(kernel.T.T @ load, kernel @ load)


@every_grid
@both_laws
def test_adjoint(grid, law_of):
    kernel = LawKernel.of(law_of(grid))
    first, second = normal(2, 1, 1, *grid.shape, seed=3)
    left = grid.integrate(second * (kernel @ first[None])[0])
    right = grid.integrate(first * (kernel.T @ second[None])[0])
    assert_close(left, right)


@every_grid
@both_laws
def test_derivatives_are_exact(grid, law_of):
    laws = [law_of(grid, seed=seed) for seed in range(2)]
    loads, factor = normal(2, 1, 1, *grid.shape, seed=1).requires_grad_(), normal(2, seed=2).requires_grad_()

    def answer(loads, factor):
        return LawKernel(grid, tuple(laws), factor) @ loads

    assert gradcheck(answer, (loads, factor))
    assert gradgradcheck(answer, (loads, factor))


def test_a_batch_is_its_systems():
    grid = GRIDS[1]
    laws = [darcy(grid, seed=seed) for seed in range(3)]
    kernel = LawKernel.of(laws) * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    for batch in [(), (3,), (2, 3)]:
        loads = normal(*batch, 4, 1, *grid.shape, seed=5)
        alone = [factor * (LawKernel.of(law) @ loads) for factor, law in zip((1, 2, 3), laws, strict=True)]
        expected = (
            torch.stack(alone, -5) if batch == () else torch.stack([alone[i][..., i, :, :, :, :] for i in range(3)], -5)
        )
        assert_close(kernel @ loads, expected)
    assert kernel.batch == (3,)
    assert kernel.dense().shape == (3, grid.size, grid.size)
    assert kernel.diagonal().shape == (3, 1, *grid.shape)


def test_composition_is_the_product_of_the_matrices():
    grid = GRIDS[1]
    kernel, other = LawKernel.of(stirred(grid)), LawKernel.of([darcy(grid, seed=seed) for seed in range(2)])
    thin = LowRankKernel(grid, normal(3, 1, *grid.shape, seed=1), normal(3, 1, *grid.shape, seed=2))
    weights = torch.tensor(grid.weights.reshape(-1))
    for outer, inner in [(kernel, other), (other, kernel), (kernel, thin), (other, thin), (thin, kernel)]:
        assert_close((outer @ inner).dense(), (outer.dense() * weights) @ inner.dense())
    assert isinstance(kernel @ thin, LowRankKernel)


def test_scipy_sees_the_same_operator():
    grid = GRIDS[1]
    kernel = LawKernel.of(stirred(grid))
    operator, vector = kernel.as_linear_operator(), normal(grid.size, seed=7).numpy()
    expected = kernel.dense().numpy() * grid.weights.reshape(-1)
    np.testing.assert_allclose(operator @ vector, expected @ vector, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(operator.T @ vector, expected.T @ vector, rtol=1e-10, atol=1e-14)


def test_precision_follows_the_factor():
    kernel = LawKernel.of(darcy(GRIDS[1]), dtype=torch.float32)
    assert (kernel @ normal(1, 1, *GRIDS[1].shape).float()).dtype == torch.float32
    assert kernel.dense().dtype == kernel.diagonal().dtype == torch.float32


def test_a_large_grid_needs_no_matrix():
    grid = Grid.uniform(201)
    kernel = LawKernel.of(darcy(grid))
    load = normal(*grid.shape)
    assert float(kernel.laws[0].residual(load[None].numpy(), (kernel @ load)[None].numpy())[0]) < 1e-12


def test_laws_that_do_not_fit_are_refused():
    laws = [darcy(grid) for grid in GRIDS[:2]]
    for build in (lambda: LawKernel.of(laws), lambda: LawKernel(laws[0].grid, (laws[0],), torch.ones(2))):
        with pytest.raises(KernelError) as error:
            build()
        assert error.value.expected == f"2 on {laws[0].grid}"
    with pytest.raises(KernelError) as error:
        LawKernel.of([])
    assert error.value.got == "none"

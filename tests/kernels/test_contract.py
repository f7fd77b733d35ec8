"""One contract for every kernel: whatever its form, it acts as its matrix of values times the quadrature."""

from functools import partial

import numpy as np
import pytest
import torch

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.errors import KernelError, ShapeError
from nipde.grid import Axis, Grid
from nipde.kernels.conditioned import ConditionedKernel
from nipde.kernels.dense import DenseKernel
from nipde.kernels.elliptic import EllipticKernel
from nipde.kernels.gated import GatedKernel
from nipde.kernels.law import LawKernel
from nipde.kernels.low_rank import LowRankKernel
from nipde.physics.advection import AdvectionDiffusion
from nipde.physics.darcy import Darcy
from nipde.spectral.transform import transform
from nipde.testing import check_kernel
from nipde.testing.check import expect_close
from nipde.testing.kernels import changed, loads_for, slow_action


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def dense(grid, batch, components, generator):
    rows, columns = (count * grid.size for count in components)
    return DenseKernel(grid, normal(generator, *batch, rows, columns))


def low_rank(grid, batch, components, generator, *, rank=4):
    factors = [normal(generator, *batch, rank, count, *grid.shape) for count in components]
    return LowRankKernel(grid, *factors)


def law(grid, batch, components, generator, *, stirred=False):
    if components != (1, 1):
        pytest.skip("balance laws are scalar")

    def one():
        coefficient = normal(generator, *grid.shape).exp().numpy()
        if not stirred:
            return Darcy(grid, coefficient)
        return AdvectionDiffusion(grid, coefficient + 1, 0.1 * normal(generator, grid.dimension, *grid.shape).numpy())

    laws = tuple(one() for _ in range(int(np.prod(batch))))
    return LawKernel(grid, laws, torch.ones(batch, dtype=torch.float64))


def elliptic(grid, batch, components, generator, *, stirred=False):
    if components != (1, 1):
        pytest.skip("balance laws are scalar")
    log = normal(generator, *batch, *grid.shape)
    drift = normal(generator, *batch, grid.dimension, *grid.shape) if stirred else None
    return EllipticKernel(
        grid, log, torch.ones(batch, dtype=torch.float64), drift, torch.tensor(-0.7, dtype=torch.float64)
    )


def gated(grid, batch, components, generator, *, terms=3):
    gates = [normal(generator, *batch, terms, count, *grid.shape) for count in components]
    return GatedKernel(grid, *gates, normal(generator, terms, *transform(grid).shape))


def conditioned(grid, batch, components, generator):
    prior = gated(grid, batch, components, generator)
    return ConditionedKernel(grid, prior, low_rank(grid, batch, components, generator))


#: Every form of a kernel: a new one is one more line here.
KERNELS = {
    "law": law,
    "stirred_law": partial(law, stirred=True),
    "elliptic_law": elliptic,
    "stirred_elliptic_law": partial(elliptic, stirred=True),
    "gated": gated,
    "conditioned": conditioned,
    "dense": dense,
    "low_rank": low_rank,
    "rank_one": partial(low_rank, rank=1),
}


def box(kinds, nodes):
    axes = zip(nodes, (1.3, 2.5, 0.7), kinds, strict=False)
    return Grid(tuple(Axis(count, length, kind) for count, length, kind in axes))


D, N, P = Dirichlet(), Neumann(), Periodic()
GRIDS = [box((D,), (7,)), box((D, P), (5, 4)), box((P, D, N), (4, 3, 5))]
BATCHES = [(), (3,)]
COMPONENTS = [(1, 1), (2, 2), (2, 3)]


def build(name, grid, batch=(), components=(1, 1), *, seed=0):
    return KERNELS[name](grid, batch, components, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("components", COMPONENTS, ids=str)
@pytest.mark.parametrize("batch", BATCHES, ids=["one", "batch"])
@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: "x".join(map(str, grid.shape)))
@pytest.mark.parametrize("name", KERNELS)
def test_it_keeps_the_contract(name, grid, batch, components):
    kernel = build(name, grid, batch, components)
    assert (kernel.batch, kernel.components) == (batch, components)
    check_kernel(kernel)


@pytest.mark.parametrize("inner_name", KERNELS)
@pytest.mark.parametrize(
    "batches", [((), (3,)), ((3,), ()), ((3,), (3,))], ids=["one_after_many", "many_after_one", "many"]
)
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_composes_with_every_other(name, inner_name, batches):
    kernel, inner = build(name, GRIDS[1], batches[0]), build(inner_name, GRIDS[1], batches[1], seed=3)
    composed, loads = kernel @ inner, loads_for(inner)
    assert composed.batch == (3,)
    expect_close(composed @ loads, kernel @ (inner @ loads), "responses", within=1e-11)
    expect_close(composed @ loads, slow_action(composed, loads), "responses", within=1e-11)


@pytest.mark.parametrize("batch", [(2, 3)], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_every_system_of_several_axes_has_its_own_unit(name, batch):
    kernel = build(name, GRIDS[1], batch)
    factors = 10.0 ** torch.arange(-3, 3).reshape(batch).double()
    scaled = (kernel * factors).dense()
    assert scaled.shape[:2] == batch
    expect_close(scaled, kernel.dense() * factors[..., None, None], "values", within=1e-14)


@pytest.mark.parametrize("components", COMPONENTS, ids=str)
@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: "x".join(map(str, grid.shape)))
@pytest.mark.parametrize("name", KERNELS)
def test_scipy_applies_it_and_its_transpose(name, grid, components):
    with pytest.raises(KernelError):
        build(name, grid, (3,), components).as_linear_operator()
    kernel = build(name, grid, (), components)
    matrix = kernel.dense().detach().numpy() * np.tile(grid.weights.reshape(-1), components[1])
    operator, rng = kernel.as_linear_operator(), np.random.default_rng(0)
    f, g = (rng.standard_normal((count, 3)) for count in matrix.shape[::-1])
    results = {
        "A f": (operator.matvec(f[:, 0]), matrix @ f[:, 0]), "A F": (operator @ f, matrix @ f),
        "Aᵀ g": (operator.rmatvec(g[:, 0]), matrix.T @ g[:, 0]), "Aᵀ G": (operator.T @ g, matrix.T @ g),
        "A f, f complex": (operator @ (f[:, 0] + 1j * f[:, 1]), matrix @ (f[:, 0] + 1j * f[:, 1])),
    }  # fmt: skip
    for what, (got, expected) in results.items():
        expect_close(got, expected, what, within=1e-12)
    single = changed(kernel, torch.Tensor.float).as_linear_operator()
    assert single.matvec(f[:, 0].astype(np.float32)).dtype == np.float32


# What one form promises alone


@pytest.mark.parametrize("shape", [(6, 7), (7, 8), (3, 7, 10)], ids=str)
def test_values_that_do_not_fit_the_grid_are_refused(shape):
    with pytest.raises(ShapeError) as error:
        DenseKernel(GRIDS[0], torch.zeros(shape))
    assert error.value.got == f"{shape[-2]} × {shape[-1]}"


@pytest.mark.parametrize(("left", "right"), [
    ((4, 1, 7), (3, 1, 7)), ((2, 4, 1, 7), (4, 1, 7)), ((4, 1, 7), (4, 7, 1)), ((1, 7), (1, 7))
], ids=["rank", "batch", "space", "no_rank"])  # fmt: skip
def test_factors_that_do_not_fit_are_refused(left, right):
    with pytest.raises(ShapeError):
        LowRankKernel(GRIDS[0], torch.zeros(left), torch.zeros(right))


def test_a_low_rank_kernel_is_the_sum_of_its_products():
    grid = GRIDS[2]
    kernel = build("low_rank", grid, (3,), (2, 3))
    left, right = kernel.left[2, :, 1].flatten(1), kernel.right[2, :, 0].flatten(1)
    block = kernel.dense()[2, grid.size :, : grid.size]  # second component of the response, first of the load
    expect_close(block, sum(torch.outer(a, b) for a, b in zip(left, right, strict=True)), "block", within=1e-12)


@pytest.mark.parametrize("batch", BATCHES, ids=["one", "batch"])
def test_the_rank_never_grows_under_composition(batch):
    thin, thick = build("rank_one", GRIDS[1], batch), build("low_rank", GRIDS[1], batch)
    assert [(a @ b).rank for a in (thin, thick) for b in (thin, thick)] == [1, 1, 1, 4]
    assert (thick @ build("dense", GRIDS[1], batch)).rank == 4

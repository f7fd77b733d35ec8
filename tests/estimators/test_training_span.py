"""The span of training kernels: exact inside it, regularised outside; shared loads as a special case."""

import torch

from nipde.context.pairs import Pairs
from nipde.estimators.regression.ridge import MinimumNorm
from nipde.estimators.regression.training_span import TrainingSpan
from nipde.grid import Grid
from nipde.kernels.dense import DenseKernel

GRID = Grid.uniform((4, 5))


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def training(systems=6, seed=0):
    kernels = DenseKernel(GRID, 1 + 0.3 * normal(systems, GRID.size, GRID.size, seed=seed))
    loads = normal(systems, 15, 1, *GRID.shape, seed=seed + 1)
    return Pairs(GRID, loads, kernels @ loads), kernels


def relative(found, expected):
    return float((found - expected).norm() / expected.norm())


def test_any_mixture_of_training_kernels_is_found_from_a_few_pairs():
    pairs, kernels = training()
    truth = DenseKernel(GRID, torch.tensordot(normal(3, 6, seed=5), kernels.values, dims=1))
    loads = normal(3, 4, 1, *GRID.shape, seed=7)
    found = TrainingSpan.fit(pairs, kernels)(Pairs(GRID, loads, truth @ loads))
    assert relative(found.dense(), truth.values) < 1e-6


def test_a_training_system_is_recognised_exactly():
    pairs, kernels = training()
    found = TrainingSpan.fit(pairs, kernels)(pairs)
    assert relative(found.dense(), kernels.values) < 1e-8


def test_holes_in_the_responses_are_left_out():
    pairs, kernels = training()
    mask = normal(*pairs.responses.shape, seed=4) > 0
    holes = Pairs(GRID, pairs.loads, torch.where(mask, pairs.responses, torch.nan), mask)
    found = TrainingSpan.fit(pairs, kernels)(holes)
    assert relative(found.dense(), kernels.values) < 1e-6


def test_noise_is_damped_by_cross_validation():
    pairs, kernels = training()
    span = TrainingSpan.fit(pairs, kernels)
    error = 0.3 * pairs.responses.square().mean().sqrt() * normal(*pairs.responses.shape, seed=8)
    noisy = Pairs(GRID, pairs.loads, pairs.responses + error)
    assert relative(span(noisy).dense(), kernels.values) < 0.5 * relative(MinimumNorm()(noisy).dense(), kernels.values)


def test_shared_loads_need_no_training_kernel():
    """Minimum-norm kernels of training systems: held-out loads of the pool are answered by mixing their responses."""
    _, kernels = training(systems=8)
    pool = normal(12, 1, *GRID.shape, seed=9)
    shared = pool.expand(8, *pool.shape)
    pairs = Pairs(GRID, shared, kernels @ shared)
    span = TrainingSpan.fit(pairs.take(slice(0, 4)), DenseKernel(pairs.grid, MinimumNorm()(pairs).dense()))
    found = span(pairs.take(slice(0, 4))) @ shared[:, 4:]
    assert relative(found, pairs.responses[:, 4:]) < 1e-6

"""What every classical estimator owes: indifference to order, mixing and units of the pairs, to batch and precision."""

import math

import pytest
import torch

from nipde.context.pairs import Pairs
from nipde.errors import KernelError, PairsError
from nipde.estimators.regression.empirical_bayes import EmpiricalBayes
from nipde.estimators.regression.ridge import MinimumNorm, Ridge
from nipde.estimators.regression.training_span import TrainingSpan
from nipde.grid import Grid
from nipde.kernels.dense import DenseKernel
from nipde.testing import estimator_checks
from nipde.testing.estimators import PLACES, family, fitted, measured
from nipde.testing.kernels import normal

ESTIMATORS = {
    "minimum norm": MinimumNorm(),
    "ridge": Ridge(),
    "ridge, given penalty": Ridge(0.1),
    "training span": TrainingSpan,
    "empirical Bayes": EmpiricalBayes,
}


@pytest.mark.parametrize("check", estimator_checks())
@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_keeps_the_contract(name, check):
    check(ESTIMATORS[name])


def apart(one, other):
    return float((one.dense() - other.dense()).abs().max() / other.dense().abs().max())


def test_noise_free_pairs_of_a_family_are_answered_beyond_the_context():
    grid, components = PLACES["2D"]
    truth = family(grid, components, 3, seed=5)
    pairs, queries = measured(truth, pairs=6), normal(3, 30, 1, *grid.shape, seed=9)

    def error(name):
        found = fitted(ESTIMATORS[name], grid, components)(pairs) @ queries
        return float((found - truth @ queries).norm() / (truth @ queries).norm())

    errors = {name: error(name) for name in ESTIMATORS}
    assert errors["training span"] < 0.3 * errors["minimum norm"]
    assert errors["empirical Bayes"] < errors["training span"]


@pytest.mark.parametrize("place", PLACES)
def test_the_minimum_norm_kernel_reproduces_the_context_and_is_the_smallest_to_do_so(place):
    grid, components = PLACES[place]
    pairs = measured(family(grid, components, 3, seed=5), pairs=6)
    kernel = MinimumNorm()(pairs)
    assert float((kernel @ pairs.loads - pairs.responses).norm() / pairs.responses.norm()) < 1e-12
    # a change that keeps the context must be orthogonal to K in L²(Ω×Ω)
    rows, columns = (torch.tensor(grid.weights).flatten().repeat(count) for count in components)
    weighted = pairs.loads.flatten(-grid.dimension - 1) * columns
    change = normal(3, len(rows), len(columns), seed=4)
    change = change - change @ weighted.mT @ torch.linalg.pinv(weighted).mT
    inner = (kernel.dense() * change * rows[:, None] * columns).sum((-2, -1))
    assert float(inner.abs().max()) < 1e-10 * float(kernel.dense().norm() * change.norm())


def test_a_load_given_twice_does_not_disturb_the_minimum_norm():
    grid, components = PLACES["1D"]
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        pairs = measured(family(grid, components, 2, seed=5), pairs=4).to(dtype=dtype)
        assert apart(MinimumNorm()(pairs.take([0, 1, 1, 2, 3, 3])), MinimumNorm()(pairs)) < tolerance


@pytest.mark.parametrize(
    ("estimator", "masked"),
    [(MinimumNorm(), False), (Ridge(0.1), False), (Ridge(0.1), True), (Ridge(0.0), False), (Ridge(0.0), True)],
    ids=str,
)
def test_gradients_reach_the_responses(estimator, masked):
    grid = Grid.uniform(4, dimension=1)
    pairs = measured(family(grid, (1, 1), 2, seed=5), pairs=3)
    mask = normal(*pairs.responses.shape, seed=6) > -0.7 if masked else None

    def kernel(responses):
        return estimator(Pairs(grid, pairs.loads, responses, mask)).dense()

    assert torch.autograd.gradcheck(kernel, pairs.responses.requires_grad_())


@pytest.mark.parametrize("kind", [TrainingSpan, EmpiricalBayes])
def test_what_was_learned_on_one_grid_refuses_another(kind):
    estimator = fitted(kind, Grid.uniform(9, dimension=1), (1, 1))
    other = Grid.uniform(7, dimension=1)
    with pytest.raises(KernelError) as error:
        estimator(measured(family(other, (1, 1), 2), pairs=4))
    assert "(1, 1)" in error.value.got
    with pytest.raises(KernelError) as error:
        estimator(measured(family(Grid.uniform(9, dimension=1), (2, 1), 2), pairs=4))
    assert "(2, 1)" in error.value.got


@pytest.mark.parametrize("kind", [TrainingSpan, EmpiricalBayes])
def test_training_kernels_must_belong_to_the_training_pairs(kind):
    grid = Grid.uniform(5, dimension=1)
    kernels = family(grid, (1, 1), 4)
    pairs = measured(kernels, pairs=3)
    with pytest.raises(KernelError) as error:
        kind.fit(pairs, DenseKernel(grid, kernels.values[:3]))
    assert "(1, 1)" in error.value.got
    one = measured(DenseKernel(grid, kernels.values[:1]), pairs=3)
    with pytest.raises(KernelError) as error:
        kind.fit(one, DenseKernel(grid, kernels.values[:1]))
    assert error.value.got == 1


@pytest.mark.parametrize("name", ["minimum norm", "empirical Bayes"])
def test_partly_measured_responses_are_refused_by_name(name):
    grid, components = PLACES["1D"]
    pairs = measured(family(grid, components, 2), pairs=3)
    holes = Pairs(grid, pairs.loads, pairs.responses, normal(*pairs.responses.shape) > 0)
    with pytest.raises(PairsError) as error:
        fitted(ESTIMATORS[name], grid, components)(holes)
    assert error.value.got == "42.6% measured"


@pytest.mark.parametrize("penalty", [-1.0, math.inf, math.nan])
def test_a_penalty_is_a_number(penalty):
    with pytest.raises(PairsError):
        Ridge(penalty)

"""What every classical estimator owes: indifference to order, mixing and units of the pairs, to batch and precision."""

import math
from dataclasses import replace

import pytest
import torch

from nipde.boundary import Neumann
from nipde.context.pairs import Pairs
from nipde.errors import KernelError, PairsError
from nipde.estimators.empirical_bayes import EmpiricalBayes
from nipde.estimators.minimum_norm import MinimumNorm
from nipde.estimators.ridge import Ridge
from nipde.estimators.training_span import TrainingSpan
from nipde.grid import Axis, Grid
from nipde.kernels.dense import DenseKernel

PLACES = {
    "1D": (Grid.uniform(9, dimension=1), (1, 1)),
    "2D": (Grid((Axis(5), Axis(4, 2.0, Neumann()))), (1, 1)),
    "2D, 2 components": (Grid.uniform(4), (2, 2)),
    "3D, 2 to 1": (Grid.uniform(3, dimension=3), (1, 2)),
}
TRAINING = 12


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def family(grid, components, systems, *, seed=1, modes=6):
    """Kernels of related systems: fixed modes, amplitudes and a little of everything else by system."""
    rows, columns = (count * grid.size for count in components)
    left, right = normal(rows, modes, seed=7), normal(columns, modes, seed=8)
    amplitude = (0.5 * normal(systems, 1, modes, seed=seed)).exp()
    return DenseKernel(grid, (left * amplitude) @ right.mT + 0.1 * normal(systems, rows, columns, seed=seed + 100))


def measured(kernel, *, pairs, noise=0.0, seed=2):
    loads = normal(*kernel.batch, pairs, kernel.components[1], *kernel.grid.shape, seed=seed)
    responses = kernel @ loads
    error = noise * responses.square().mean().sqrt()
    return Pairs(kernel.grid, loads, responses + error * normal(*responses.shape, seed=seed + 1))


def trained(kind, grid, components):
    kernels = family(grid, components, TRAINING)
    return kind.fit(measured(kernels, pairs=20), kernels)


ESTIMATORS = {
    "minimum norm": lambda grid, components: MinimumNorm(),
    "ridge": lambda grid, components: Ridge(),
    "ridge, given penalty": lambda grid, components: Ridge(0.1),
    "training span": lambda grid, components: trained(TrainingSpan, grid, components),
    "empirical Bayes": lambda grid, components: trained(EmpiricalBayes, grid, components),
}


@pytest.fixture(params=[(name, place) for name in ESTIMATORS for place in PLACES], ids=lambda case: ", ".join(case))
def case(request):
    """An estimator and noisy pairs of three systems that it was not trained on."""
    name, place = request.param
    grid, components = PLACES[place]
    pairs = measured(family(grid, components, 3, seed=5), pairs=6, noise=0.05)
    return ESTIMATORS[name](grid, components), pairs


def apart(one, other):
    return float((one.dense() - other.dense()).abs().max() / other.dense().abs().max())


def test_order_and_orthogonal_mixing_of_pairs_change_nothing(case):
    estimator, pairs = case
    kernel = estimator(pairs)
    assert apart(estimator(pairs.take([3, 1, 5, 0, 4, 2])), kernel) < 1e-8
    rotation = torch.linalg.qr(normal(pairs.count, pairs.count, seed=3)).Q
    assert apart(estimator(pairs.mixed(rotation)), kernel) < 1e-8


def test_units_pass_through(case):
    estimator, pairs = case
    scaled = estimator(pairs.scaled(load=1000.0, response=0.001))
    assert apart(scaled * 1e6, estimator(pairs)) < 1e-6


def test_a_unit_of_length_does_not_change_the_answers(case):
    # An estimator that forgets the weights of the integral answers ten times as much, or a thousand.
    estimator, pairs = case
    axes = (replace(axis, length=10 * axis.length) for axis in pairs.grid.axes)
    try:
        kernel = estimator(Pairs(Grid(tuple(axes)), pairs.loads, pairs.responses))
    except KernelError:
        pytest.skip("what was learned on one grid knows no other")
    torch.testing.assert_close(kernel @ pairs.loads, estimator(pairs) @ pairs.loads, rtol=1e-6, atol=1e-9)


def test_a_batch_is_its_systems_one_by_one(case):
    estimator, pairs = case
    kernel = estimator(pairs)
    assert kernel.batch == (3,)
    assert kernel.components == pairs.components
    for place in range(3):
        one = Pairs(pairs.grid, pairs.loads[place], pairs.responses[place])
        assert apart(estimator(one), DenseKernel(pairs.grid, kernel.dense()[place])) < 1e-10
    two_axes = Pairs(pairs.grid, pairs.loads[None], pairs.responses[None])
    assert torch.equal(estimator(two_axes).dense(), kernel.dense()[None])


def test_precision_follows_the_data(case):
    estimator, pairs = case
    kernel = estimator(pairs.to(dtype=torch.float32))
    assert kernel.dense().dtype == torch.float32
    assert apart(kernel, estimator(pairs)) < 1e-3


def test_noise_free_pairs_of_a_family_are_answered_beyond_the_context():
    grid, components = PLACES["2D"]
    truth = family(grid, components, 3, seed=5)
    pairs, queries = measured(truth, pairs=6), normal(3, 30, 1, *grid.shape, seed=9)

    def error(name):
        found = ESTIMATORS[name](grid, components)(pairs) @ queries
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
    estimator = trained(kind, Grid.uniform(9, dimension=1), (1, 1))
    other = Grid.uniform(7, dimension=1)
    with pytest.raises(KernelError, match=r"components \(1, 1\) on 9 nodes on 1, got \(1, 1\) on 7 .*: fit on kernels"):
        estimator(measured(family(other, (1, 1), 2), pairs=4))
    with pytest.raises(KernelError, match=r"got \(2, 1\) on 9 nodes"):
        estimator(measured(family(Grid.uniform(9, dimension=1), (2, 1), 2), pairs=4))


@pytest.mark.parametrize("kind", [TrainingSpan, EmpiricalBayes])
def test_training_kernels_must_belong_to_the_training_pairs(kind):
    grid = Grid.uniform(5, dimension=1)
    kernels = family(grid, (1, 1), 4)
    pairs = measured(kernels, pairs=3)
    with pytest.raises(KernelError, match=r"kernels \(4,\) .* got \(3,\) .*: give one kernel per system"):
        kind.fit(pairs, DenseKernel(grid, kernels.values[:3]))
    one = measured(DenseKernel(grid, kernels.values[:1]), pairs=3)
    with pytest.raises(KernelError, match="expected at least 2 training systems, got 1: give more"):
        kind.fit(one, DenseKernel(grid, kernels.values[:1]))


@pytest.mark.parametrize("name", ["minimum norm", "empirical Bayes"])
def test_partly_measured_responses_are_refused_by_name(name):
    grid, components = PLACES["1D"]
    pairs = measured(family(grid, components, 2), pairs=3)
    holes = Pairs(grid, pairs.loads, pairs.responses, normal(*pairs.responses.shape) > 0)
    with pytest.raises(PairsError, match="cannot use partly measured responses, expected every node measured"):
        ESTIMATORS[name](grid, components)(holes)


@pytest.mark.parametrize("penalty", [-1.0, math.inf, math.nan])
def test_a_penalty_is_a_number(penalty):
    with pytest.raises(PairsError, match="expected a penalty >= 0, got"):
        Ridge(penalty)

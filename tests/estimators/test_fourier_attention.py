"""The layer with its backward written out, against the five lines that define it."""

import numpy as np
import pytest
import torch

from nipde.estimators.paper.attention import Projections, coupling, quadratic_attention
from nipde.estimators.paper.fourier_attention import fourier_attention, fourier_factors
from nipde.grid import Grid
from nipde.spectral.filter import SpectralFilter
from nipde.spectral.partition import Partition
from tests.oracles.transcription import plain_fourier_attention

CASES = [
    ((9,), None), ((8,), None), ((8,), (3,)),
    ((9, 7), None), ((8, 6), None), ((9, 8), (3, 4)), ((6, 7), (3, 1)),
    ((5, 3, 7), None), ((4, 5, 6), None), ((4, 5, 6), (2, 2, 3)),
]  # fmt: skip
every_case = pytest.mark.parametrize(("shape", "modes"), CASES, ids=str)
components = pytest.mark.parametrize("components", [1, 2])
TINY = pytest.mark.parametrize("shape", [(3,), (4,), (3, 4), (3, 3, 3)], ids=str)
SCALE = 0.3


def normal(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape)).requires_grad_()


class Problem:
    """Leaves of one layer: tokens, blocks of a filter, weights; a seed for what stands above."""

    def __init__(self, shape, modes=None, *, components=1, samples=3, pairs=4, channels=3):
        self.filter = SpectralFilter(shape, fields=2 * components, modes=modes).double()
        self.filter.weight = torch.nn.Parameter(normal(*self.filter.weight.shape, seed=7).detach())
        self.tokens = normal(2 * components, *shape, samples, pairs)
        self.blocks = self.filter.blocks().detach().requires_grad_()
        shapes = [(channels, pairs), (channels,), (channels, pairs), (channels,)]
        self.weights = Projections(*(normal(*one, seed=seed) for seed, one in enumerate(shapes, 1)))
        self.matrices = self.filter.matrices(self.tokens)
        self.partition = Partition(Grid.uniform(shape))

    @property
    def leaves(self):
        return [self.tokens, self.blocks, *self.weights]

    def attended(self):
        together = coupling(self.weights, SCALE)
        return fourier_attention(self.tokens, self.blocks, together, matrices=self.matrices, partition=self.partition)

    def plainly_attended(self):
        return plain_fourier_attention(self.tokens, self.blocks, self.weights, scale=SCALE, matrices=self.matrices)

    def factors(self):
        """Queries and keys, side by side."""
        return torch.cat(
            fourier_factors(self.tokens, self.blocks, self.weights, matrices=self.matrices, partition=self.partition)
        )

    def plain_factors(self):
        loads, responses = self.filter(self.tokens.flatten(-2)).view_as(self.tokens).chunk(2)
        queries = (loads + responses) @ self.weights.query.T + self.weights.query_bias
        return torch.cat([queries, self.tokens.chunk(2)[0] @ self.weights.key.T + self.weights.key_bias])


def apart(one, other):
    return float((one - other).detach().abs().max() / other.detach().abs().max())


def gradients(found, leaves, *, above=None):
    above = normal(*found.shape, seed=9).detach() if above is None else above
    return torch.autograd.grad((found * above).sum(), leaves)


def assert_same(one, other, leaves, *, tolerance=1e-12):
    assert one.shape == other.shape
    assert apart(one, other) < tolerance
    for mine, definition in zip(gradients(one, leaves), gradients(other, leaves), strict=True):
        assert float(definition.abs().max()) > 1e-6  # every input matters
        assert apart(mine, definition) < tolerance


# Attention


@components
@every_case
def test_fast_attention_is_the_definition(shape, modes, components):
    problem = Problem(shape, modes, components=components)
    assert_same(problem.attended(), problem.plainly_attended(), problem.leaves)


@pytest.mark.parametrize(("samples", "pairs", "channels"), [(1, 4, 3), (5, 2, 6), (2, 1, 1)])
def test_any_number_of_samples_pairs_and_channels(samples, pairs, channels):
    problem = Problem((5, 6), samples=samples, pairs=pairs, channels=channels)
    assert_same(problem.attended(), problem.plainly_attended(), problem.leaves)


@components
@every_case
def test_the_definition_is_attention_of_convolved_queries(shape, modes, components):
    # The paper's words: tokens × tokens scores, the queries' tokens seen through the filter.
    problem = Problem(shape, modes, components=components)
    convolved = problem.filter(problem.tokens.flatten(-2)).view_as(problem.tokens)
    asking, tokens = (part.flatten(0, -3).transpose(0, 1) for part in (convolved, problem.tokens))
    expected = quadratic_attention(asking, tokens, problem.weights, SCALE).transpose(0, 1).view_as(problem.tokens)
    assert_same(problem.attended(), expected, [problem.tokens, *problem.weights])


@every_case
def test_tracers_get_the_same_attention(shape, modes, monkeypatch):
    problem = Problem(shape, modes)
    fast = problem.attended()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert_same(problem.attended(), fast, problem.leaves)


@TINY
def test_gradients_of_attention_are_right(shape):
    problem = Problem(shape, samples=2, pairs=2, channels=2)

    def applied(tokens, blocks, *weights):
        together = coupling(Projections(*weights), SCALE)
        return fourier_attention(tokens, blocks, together, matrices=problem.matrices, partition=problem.partition)

    assert torch.autograd.gradcheck(applied, tuple(problem.leaves), fast_mode=len(shape) > 1)


def test_samples_do_not_see_each_other():
    problem = Problem((5, 6), samples=3)
    found = problem.attended()
    for sample in range(3):
        alone = fourier_attention(
            problem.tokens[..., sample : sample + 1, :], problem.blocks, coupling(problem.weights, SCALE),
            matrices=problem.matrices, partition=problem.partition,
        )  # fmt: skip
        assert apart(alone, found[..., sample : sample + 1, :]) < 1e-12


@pytest.mark.parametrize("part", ["attended", "factors"])
def test_memory_order_does_not_matter(part):
    problem, other = Problem((5, 6)), Problem((5, 6))
    strided = other.tokens.detach().transpose(0, 2).contiguous().transpose(0, 2)
    assert not strided.is_contiguous()
    other.tokens = strided.requires_grad_()
    expected, found = getattr(problem, part)(), getattr(other, part)()
    assert apart(found, expected) < 1e-12
    mine = torch.autograd.grad(found.sum(), other.leaves)  # what comes from above is one number, spread out
    wanted = gradients(expected, problem.leaves, above=torch.ones_like(expected))
    assert all(apart(one, another) < 1e-12 for one, another in zip(mine, wanted, strict=True))


def test_inputs_are_left_as_they_were():
    problem = Problem((5, 6))
    before = [leaf.detach().clone() for leaf in problem.leaves]
    gradients(problem.attended(), problem.leaves)
    gradients(problem.factors(), problem.leaves)
    assert all(torch.equal(leaf, kept) for leaf, kept in zip(problem.leaves, before, strict=True))


# The last layer's factors


@components
@every_case
def test_fast_factors_are_the_definition(shape, modes, components):
    problem = Problem(shape, modes, components=components)
    assert problem.factors().shape == (2 * components, *shape, 3, 3)
    assert_same(problem.factors(), problem.plain_factors(), [problem.tokens, *problem.weights])


@components
@every_case
def test_tracers_get_the_same_factors(shape, modes, components, monkeypatch):
    # The traced form is plain autograd: it is the oracle of the gradient with respect to the blocks too.
    problem = Problem(shape, modes, components=components)
    fast = problem.factors()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert_same(fast, problem.factors(), problem.leaves)


@pytest.mark.parametrize("used", [0, 1], ids=["queries", "keys"])
def test_one_factor_may_be_left_unused(used):
    problem = Problem((5, 6))
    fast, plain = (both().chunk(2)[used] for both in (problem.factors, problem.plain_factors))
    weights = problem.weights[2 * used : 2 * used + 2]
    assert_same(fast, plain, [problem.tokens, *weights])


@TINY
def test_gradients_of_factors_are_right(shape):
    problem = Problem(shape, components=2 if len(shape) == 1 else 1, samples=2, pairs=2, channels=2)

    def applied(tokens, blocks, *weights):
        return fourier_factors(
            tokens, blocks, Projections(*weights), matrices=problem.matrices, partition=problem.partition
        )

    assert torch.autograd.gradcheck(applied, tuple(problem.leaves), fast_mode=len(shape) > 1)


# Twice


@pytest.mark.parametrize("part", ["attended", "factors"])
def test_second_derivatives_are_right_or_refused(part, monkeypatch):
    problem = Problem((4, 3), samples=1, pairs=2)

    def second():
        (first,) = torch.autograd.grad((getattr(problem, part)() ** 2).sum(), problem.blocks, create_graph=True)
        return torch.autograd.grad((first**2).sum(), problem.tokens)[0]

    with monkeypatch.context() as traced:
        traced.setattr(torch.compiler, "is_compiling", lambda: True)
        wanted = second()  # plain autograd
    try:
        found = second()
    except RuntimeError:
        return
    assert apart(found, wanted) < 1e-10

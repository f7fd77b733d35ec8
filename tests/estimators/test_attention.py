"""Three orders of one product: the same numbers and the same gradients."""

import numpy as np
import pytest
import torch

from nipde.estimators.paper.attention import (
    Projections,
    QueryKey,
    coupling,
    gram_attention,
    linear_attention,
    quadratic_attention,
)

FORMS = [quadratic_attention, linear_attention, gram_attention]
every_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
every_batch = pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 3)], ids=str)
SIZES = [(12, 4, 3), (12, 3, 5), (2, 5, 4), (1, 1, 1)]  # tokens, pairs, channels
every_size = pytest.mark.parametrize(("tokens", "pairs", "channels"), SIZES, ids=str)


def normal(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape)).requires_grad_()


def problem(batch, tokens, pairs, channels):
    asking, values = normal(*batch, tokens + 2, pairs, seed=0), normal(*batch, tokens, pairs, seed=1)
    shapes = [(channels, pairs), (channels,), (channels, pairs), (channels,)]
    weights = Projections(*(normal(*shape, seed=seed) for seed, shape in enumerate(shapes, 2)))
    return asking, values, weights


def apart(one, other):
    return float((one - other).detach().abs().max() / other.detach().abs().max())


def sums(asking, tokens, weights, scale):
    """Token by token, for one sample."""
    found = torch.zeros_like(asking)
    for x, query in enumerate(asking):
        for token in tokens:
            asked, key = weights.query @ query + weights.query_bias, weights.key @ token + weights.key_bias
            found[x] += scale * (asked @ key) * token
    return found


@every_form
def test_every_form_is_the_double_sum(form):
    with torch.no_grad():
        asking, tokens, weights = problem((2,), 5, 4, 3)
        found = form(asking, tokens, weights, 0.3)
        for sample in range(2):
            assert apart(found[sample], sums(asking[sample], tokens[sample], weights, 0.3)) < 1e-12


@every_size
@every_batch
def test_outputs_and_all_gradients_agree(batch, tokens, pairs, channels):
    asking, values, weights = problem(batch, tokens, pairs, channels)
    above = normal(*asking.shape, seed=9).detach()
    found = [form(asking, values, weights, 0.7) for form in FORMS]
    gradients = [torch.autograd.grad((one * above).sum(), [asking, values, *weights]) for one in found]
    for one, gradient in zip(found[1:], gradients[1:], strict=True):
        assert one.shape == asking.shape
        assert apart(one, found[0]) < 1e-10
        for mine, definition in zip(gradient, gradients[0], strict=True):
            assert float(definition.abs().max()) > 1e-6  # every input matters
            assert apart(mine, definition) < 1e-10


@every_form
def test_tokens_may_ask_themselves(form):
    _, tokens, weights = problem((2,), 6, 4, 3)
    apart_from = form(tokens.detach().clone(), tokens, weights, 0.3)
    assert torch.equal(form(tokens, tokens, weights, 0.3), apart_from)


@every_form
def test_samples_do_not_see_each_other(form):
    asking, tokens, weights = problem((3,), 6, 4, 3)
    found = form(asking, tokens, weights, 0.3)
    for sample in range(3):
        assert apart(form(asking[sample], tokens[sample], weights, 0.3), found[sample]) < 1e-12


@every_form
def test_the_scale_is_a_factor_and_the_order_of_tokens_does_not_matter(form):
    asking, tokens, weights = problem((2,), 6, 4, 3)
    found, turned = form(asking, tokens, weights, 0.3), torch.tensor([3, 0, 5, 1, 4, 2])
    assert apart(form(asking, tokens, weights, 0.6), 2 * found) < 1e-12
    assert apart(form(asking, tokens[:, turned], weights, 0.3), found) < 1e-12


@every_form
def test_gradients_are_right(form):
    asking, tokens, weights = problem((2,), 3, 3, 2)

    def applied(asking, tokens, *weights):
        return form(asking, tokens, Projections(*weights), 0.3)

    assert torch.autograd.gradcheck(applied, (asking, tokens, *weights), fast_mode=True)


def test_query_key_hands_out_its_linear_maps():
    maps, values = QueryKey(4, 3), torch.randn(5, 4)
    weights = maps.projections()
    assert [tuple(part.shape) for part in weights] == [(3, 4), (3,), (3, 4), (3,)]
    assert torch.allclose(maps.query(values), values @ weights.query.T + weights.query_bias)
    assert torch.allclose(maps.key(values), values @ weights.key.T + weights.key_bias)
    assert sum(part.numel() for part in maps.parameters()) == 2 * (4 * 3 + 3)


def test_coupling_is_the_score_of_two_tokens_with_a_one_at_their_end():
    _, tokens, weights = problem((), 6, 4, 3)
    with torch.no_grad():
        one, other = tokens[0], tokens[1]
        score = (weights.query @ one + weights.query_bias) @ (weights.key @ other + weights.key_bias)
        longer = [torch.cat([token, torch.ones(1).double()]) for token in (one, other)]
        assert apart(longer[0] @ coupling(weights, 0.3) @ longer[1], 0.3 * score) < 1e-12

"""The paper's scaling, kept for reproduction: affine in the load, and honest about it."""

from dataclasses import replace

import pytest
import torch

from nipde.context.pairs import Pairs
from nipde.errors import KernelError
from nipde.estimators.paper.nips import NIPS
from nipde.estimators.paper.standardised import Standardisation, Standardised
from nipde.grid import Grid


@pytest.fixture
def made():
    torch.manual_seed(0)
    grid = Grid.uniform((6, 5))
    pairs = Pairs(grid, 3 * torch.randn(4, 7, 1, 6, 5).double() + 2, 0.1 * torch.randn(4, 7, 1, 6, 5).double() - 1)
    return NIPS(grid, pairs=7, channels=3, layers=2).double(), pairs


def test_training_fields_become_standard(made):
    _, pairs = made
    standard = Standardisation.of(pairs).standardised(pairs)
    for field in (standard.loads, standard.responses):
        assert abs(float(field.mean())) < 1e-12
        assert float(field.std()) == pytest.approx(1, rel=1e-12)


def test_noise_of_loads_and_responses_is_scaled_with_them(made):
    _, pairs = made
    known = Standardisation.of(pairs)
    standard = known.standardised(replace(pairs, noise=0.2, load_noise=0.3))
    assert standard.noise == pytest.approx(0.2 / known.response_std)
    assert standard.load_noise == pytest.approx(0.3 / known.load_std)


def test_the_predictor_is_the_papers_formula(made):
    model, pairs = made
    known = Standardisation.of(pairs)
    queries = torch.randn(4, 3, 1, 6, 5).double()
    inner = model.kernel_of(known.standardised(pairs))
    expected = known.response_std * (inner @ ((queries - known.load_mean) / known.load_std)) + known.response_mean
    predictor = Standardised(model, known)(pairs)
    torch.testing.assert_close(predictor @ queries, expected, rtol=1e-10, atol=1e-12)
    assert predictor.components == (1, 1)


def test_it_is_not_linear_and_says_so(made):
    model, pairs = made
    predictor = Standardised(model, Standardisation.of(pairs))(pairs)
    load = torch.randn(4, 1, 1, 6, 5).double()
    assert not predictor.linear
    assert float((predictor @ (2 * load) - 2 * (predictor @ load)).detach().abs().max()) > 1e-3
    with pytest.raises(KernelError):
        predictor @ predictor


def test_a_change_of_units_changes_it_unlike_our_scaling(made):
    model, pairs = made
    other = pairs.scaled(load=1000.0, response=0.001)
    statistics = Standardisation.of(pairs)
    load = torch.randn(4, 1, 1, 6, 5).double()
    before, after = (Standardised(model, statistics)(which) @ load for which in (pairs, other))
    assert float((1e6 * after - before).detach().norm() / before.detach().norm()) > 0.1
    ours = [model(which) @ load for which in (pairs, other)]
    torch.testing.assert_close(1e6 * ours[1], ours[0], rtol=1e-9, atol=0)

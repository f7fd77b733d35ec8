import pytest
import torch

from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.grid import Grid


@pytest.fixture
def pairs():
    generator = torch.Generator().manual_seed(0)
    return Pairs(Grid.uniform(21), *torch.randn(2, 40, 1, 21, 21, generator=generator, dtype=torch.float64))


def test_errors_have_the_stated_size_and_the_pairs_know_it(pairs):
    noisy = with_white_noise(pairs.scaled(response=7.0), share=0.1, seed=1)
    errors = noisy.responses - 7 * pairs.responses
    assert float(errors.std()) == pytest.approx(noisy.noise, rel=0.02)
    assert noisy.noise == pytest.approx(0.1 * float((7 * pairs.responses).square().mean().sqrt()), rel=1e-12)
    neighbours = (errors[..., 1:] * errors[..., :-1]).mean() / errors.square().mean()
    assert abs(float(neighbours)) < 0.03  # white


def test_loads_stay_and_the_seed_decides(pairs):
    one, same, other = (with_white_noise(pairs, share=0.1, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.loads, pairs.loads)
    assert torch.equal(one.responses, same.responses)
    assert not torch.equal(one.responses, other.responses)
    assert torch.equal(with_white_noise(pairs, share=0.0, seed=1).responses, pairs.responses)

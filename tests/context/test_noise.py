from dataclasses import replace

import pytest
import torch

import nipde
from nipde.context.noise import level_like, with_white_noise, with_white_noise_each
from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.grid import Grid
from tests.golden.answers import _noisy


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


# Several systems


@pytest.fixture
def systems():
    generator = torch.Generator().manual_seed(1)
    sizes = torch.tensor([1.0, 30.0, 0.02, 5.0], dtype=torch.float64).view(4, 1, 1, 1, 1)
    fields = torch.randn(2, 4, 30, 1, 21, 21, generator=generator, dtype=torch.float64)
    return Pairs(Grid.uniform(21), *(fields * sizes))


SEEDS = [11, 7, 2**62 - 1, 0]


def some_of(systems, places):
    return replace(systems, loads=systems.loads[places], responses=systems.responses[places])


def test_noise_of_a_system_does_not_depend_on_what_stands_beside_it(systems):
    options = {"share": 0.1, "load_share": 0.2}
    together = with_white_noise_each(systems, seeds=SEEDS, **options)
    for places in ([2], [3, 1], [0, 3, 2], [3, 2, 1, 0]):
        apart = with_white_noise_each(some_of(systems, places), seeds=[SEEDS[place] for place in places], **options)
        assert torch.equal(apart.responses, together.responses[places])
        assert torch.equal(apart.loads, together.loads[places])
        assert torch.equal(apart.noise, together.noise[places])


def test_every_system_has_its_own_level_and_errors(systems):
    noisy = with_white_noise_each(systems, share=0.1, seeds=SEEDS)
    errors = (noisy.responses - systems.responses).flatten(1)
    size = systems.responses.flatten(1).square().mean(1).sqrt()
    torch.testing.assert_close(noisy.noise, 0.1 * size, rtol=1e-12, atol=0)
    torch.testing.assert_close(errors.std(1), noisy.noise, rtol=0.03, atol=0)
    scaled = errors / noisy.noise[:, None]
    assert float(abs(torch.corrcoef(scaled) - torch.eye(4, dtype=torch.float64)).max()) < 0.05
    alike = with_white_noise_each(systems, share=0.1, seeds=[5, 5, 5, 5])
    repeated = (alike.responses - systems.responses).flatten(1) / alike.noise[:, None]
    torch.testing.assert_close(repeated, repeated[:1].expand(4, -1), rtol=0, atol=1e-9)  # the seed alone decides


def test_one_system_is_treated_alike_by_both_functions(systems):
    each = with_white_noise_each(some_of(systems, [1]), share=0.1, seeds=[3])
    one = with_white_noise(replace(systems, loads=systems.loads[1], responses=systems.responses[1]), share=0.1, seed=3)
    torch.testing.assert_close(each.responses[0], one.responses, rtol=1e-14, atol=0)
    assert float(each.noise[0]) == pytest.approx(one.noise, rel=1e-14)


def test_a_share_of_the_loads_acts_on_loads_only(systems):
    noisy = with_white_noise_each(systems, share=0.0, seeds=SEEDS, load_share=0.2)
    assert torch.equal(noisy.responses, systems.responses)
    assert not bool(noisy.noise.any())  # it tells of the responses
    errors = (noisy.loads - systems.loads).flatten(1)
    torch.testing.assert_close(errors.std(1), 0.2 * systems.loads.flatten(1).square().mean(1).sqrt(), rtol=0.03, atol=0)
    both = with_white_noise_each(systems, share=0.2, seeds=SEEDS, load_share=0.2)
    assert torch.equal(both.loads, noisy.loads)
    other = (both.responses - systems.responses).flatten(1)
    together = torch.stack([torch.corrcoef(torch.stack(two))[0, 1] for two in zip(errors, other, strict=True)])
    assert float(abs(together).max()) < 0.05  # errors of loads and responses have nothing to do with each other


def test_no_share_changes_nothing(systems):
    same = with_white_noise_each(systems, share=0.0, seeds=SEEDS)
    assert torch.equal(same.responses, systems.responses)
    assert torch.equal(same.loads, systems.loads)
    assert same.noise.tolist() == [0.0] * 4


def test_a_seed_is_missing_or_too_many(systems):
    for seeds in (SEEDS[:3], [*SEEDS, 1]):
        with pytest.raises(ValueError, match="zip"):
            with_white_noise_each(systems, share=0.1, seeds=seeds)


@pytest.mark.parametrize("share", [-0.01, float("nan"), float("inf")])
def test_a_share_that_is_none_is_refused(share):
    pairs = Pairs(Grid.uniform(5), *torch.ones(2, 1, 3, 1, 5, 5))
    with pytest.raises(PairsError):
        with_white_noise_each(pairs, share=share, seeds=[0])
    with pytest.raises(PairsError):
        with_white_noise(pairs.system(0), share=share, seed=0)


# Digits of a level

#: Not a number of single precision.
LEVEL = 0.1


def test_a_number_keeps_its_digits(pairs):
    assert float(level_like(LEVEL, pairs.loads)) == LEVEL
    assert float(level_like(LEVEL, pairs.loads.float())) == float(torch.tensor(LEVEL))
    assert torch.equal(level_like(torch.tensor([1.0, 2.0]), pairs.loads), pairs.loads.new_tensor([1.0, 2.0]))


@pytest.mark.parametrize("noise", [-LEVEL, float("nan")])
def test_a_negative_level_is_said_as_it_was_given(pairs, noise):
    with pytest.raises(PairsError) as error:
        replace(pairs, noise=noise)
    assert repr(error.value.got) == repr(noise)


@pytest.mark.parametrize("noise", [1e-3, 1.0])
@pytest.mark.parametrize("make", [lambda: nipde.load("darcy").double(), lambda: nipde.load("advection-gated").double()])
def test_estimators_take_a_number_like_a_tensor_of_double_precision(make, noise):
    """A number was rounded to single precision on its way."""
    given, loads = _noisy(9)
    given, level, model = given.take(range(6)), noise * float(given.noise), make()
    with torch.no_grad():
        by_number = model(replace(given, noise=level)).predict(loads)
        by_tensor = model(replace(given, noise=torch.tensor(level, dtype=torch.float64))).predict(loads)
    assert torch.equal(by_number, by_tensor)

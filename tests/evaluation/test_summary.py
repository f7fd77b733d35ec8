import numpy as np
import pytest

from nipde.evaluation.evaluate import Mean, mean, worst_decile


def test_values_by_hand():
    found = mean([1.0, 2.0, 6.0])
    assert found.mean == pytest.approx(3)
    assert found.spread == pytest.approx(np.sqrt((4 + 1 + 9) / 3))
    assert 1 <= found.low < 3 < found.high <= 6


def test_the_worst_tenth_is_at_least_one_system():
    values = np.random.default_rng(0).permutation(20).astype(float)
    assert worst_decile(values).mean == 18.5
    assert worst_decile(values).low < 18.5 <= worst_decile(values).high <= 19
    assert worst_decile(values[:5]).mean == values[:5].max()


def test_one_system_tells_nothing_about_others():
    assert mean([0.3]) == Mean(0.3, 0.3, 0.3, 0.0)


def test_the_seed_decides():
    values = np.random.default_rng(1).random(30)
    assert mean(values) == mean(values)
    assert mean(values).low != mean(values, seed=1).low


@pytest.mark.parametrize("draw", ["normal", "exponential"])
def test_nine_intervals_of_ten_hold_the_true_mean(draw):
    rng = np.random.default_rng(2)
    trials = [mean(getattr(rng, draw)(size=60), seed=trial) for trial in range(300)]
    truth = {"normal": 0.0, "exponential": 1.0}[draw]
    covered = np.mean([found.low <= truth <= found.high for found in trials])
    assert 0.84 < covered < 0.95
    # neither side takes all the misses: the interval is where it should be
    assert np.mean([truth < found.low for found in trials]) > 0.005
    assert np.mean([truth > found.high for found in trials]) > 0.005


def test_the_interval_shrinks_like_the_root_of_the_number_of_systems():
    rng = np.random.default_rng(3)
    few, many = (mean(rng.normal(size=count)) for count in (50, 5000))
    assert (few.high - few.low) / (many.high - many.low) == pytest.approx(10, rel=0.25)

"""Factors of bands from calibration systems: few of them only widen."""

import numpy as np
import pytest

from benchmarks.band_factors import MANY, factor, factors_of
from nipde.estimators.inverse.band_factors import LEVELS

SHARES = np.append(np.round(np.arange(0.05, 1, 0.05), 2), 0.99)


def quantiles(scale, *, count, spread=0.0, seed=0):
    """Of errors over deviations that are normal, times a scale that differs between systems."""
    rng = np.random.default_rng(seed)
    ratios = np.abs(rng.standard_normal((count, 4000))) * scale * np.exp(spread * rng.standard_normal((count, 1)))
    return np.quantile(ratios, SHARES, axis=1).T.tolist()


def test_errors_as_large_as_the_deviations_have_normal_factors():
    np.testing.assert_allclose(
        factors_of(quantiles(1.0, count=200), SHARES, floor=False), [0.674, 1.28, 1.65, 1.96], rtol=0.05
    )


@pytest.mark.parametrize("count", [MANY - 1, MANY])
def test_larger_errors_widen_bands_whatever_their_number(count):
    found = factors_of(quantiles(2.0, count=count), SHARES, floor=True)
    assert found[LEVELS.index(0.9)] == pytest.approx(3.29, rel=0.05)


def test_smaller_errors_narrow_bands_if_there_are_many_systems():
    few, many, held = (
        factors_of(quantiles(0.5, count=count), SHARES, floor=floor)[LEVELS.index(0.9)]
        for count, floor in ((MANY - 1, False), (MANY, False), (MANY, True))
    )
    assert few == held == pytest.approx(1.645, abs=1e-3)
    assert many == pytest.approx(0.82, rel=0.1)


def test_of_many_systems_that_differ_the_mean_share_is_above_the_level():
    known = quantiles(1.0, count=MANY, spread=0.7)
    at = factor(known, SHARES, 0.9)
    held = np.mean([np.interp(at, [0, *one], [0, *SHARES]) for one in known])
    assert 0.905 < held < 0.96

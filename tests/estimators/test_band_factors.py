"""Which fits of solids have calibrated bands, why others have none, and that few specimens narrow nothing."""

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.band_factors import FEWEST_SOLIDS, of_solids
from benchmarks.reference import SHARES
from nipde.estimators.inverse.band_factors import LEVELS, SolidCase, solid_factors

USUAL = SolidCase("2 phases", 800, 0.01)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (SolidCase("2 phases", 100, 0.01), "fewer than 180 readings of displacements"),
        (SolidCase("2 phases", 800, 0.001), "noise not within 0.3 to 5 % of the displacements"),
        (SolidCase("2 phases", 800, np.nan), "noise not within 0.3 to 5 % of the displacements"),
        (SolidCase("smooth", 800, 0.01), "no solids of this kind, smooth, were calibrated"),
        (SolidCase("tikhonov", 800, 0.01), "no solids of this kind, tikhonov, were calibrated"),
    ],
)
def test_what_was_not_calibrated_has_a_reason_and_no_factors(case, reason):
    assert case.outside == (reason,)
    assert solid_factors(case) is None


def test_phases_have_factors_that_rise_with_the_level():
    assert USUAL.outside == ()
    factors = solid_factors(USUAL)
    assert tuple(factors) == LEVELS
    assert all(np.diff(list(factors.values())) > 0)
    assert factors == solid_factors(SolidCase("3 phases", 800, 0.01))


def specimens(count, scale):
    """Errors of a normal distribution, `scale` deviations wide."""
    ratios = (scale * norm.ppf((1 + np.array(SHARES)) / 2)).tolist()
    return [{"model": "2 phases", "readings": 800, "noise": 0.01, "size": 1.0, "ratios": ratios}] * count


def test_factors_widen_bands_that_were_too_narrow_and_narrow_none():
    usual = norm.ppf((1 + np.array(LEVELS)) / 2)
    wide, narrow = (of_solids(specimens(FEWEST_SOLIDS, scale), SHARES)["phases, solid"] for scale in (2.0, 0.5))
    assert np.allclose(wide["material"], 2 * usual, rtol=0.03)
    assert np.allclose(narrow["material"], usual, atol=1e-3)
    assert wide["systems"] == FEWEST_SOLIDS
    assert of_solids(specimens(FEWEST_SOLIDS - 1, 2.0), SHARES) == {}

"""Which fits have calibrated bands, why others have none, and that few specimens narrow nothing."""

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.band_factors import FEWEST_SOLIDS, of_solids
from benchmarks.reference import SHARES
from nipde.estimators.inverse.band_factors import LEVELS, Case, SolidCase, factors_of, solid_factors


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (SolidCase("2 phases", 100, 0.01), "fewer than 180 readings of displacements"),
        (SolidCase("2 phases", 800, 0.001), "noise not within 0.3 to 5 % of the displacements"),
        (SolidCase("2 phases", 800, np.nan), "noise not within 0.3 to 5 % of the displacements"),
        (SolidCase("tikhonov", 800, 0.01), "no solids of this kind, tikhonov, were calibrated"),
    ],
)
def test_what_was_not_calibrated_has_a_reason_and_no_factors(case, reason):
    assert case.outside == (reason,)
    assert solid_factors(case) is None


@pytest.mark.parametrize("model", ["2 phases", "3 phases", "smooth", "homogeneous"])
def test_factors_rise_with_the_level_and_narrow_smooth_solids_only(model):
    case = SolidCase(model, 800, 0.01)
    assert case.outside == ()
    factors = solid_factors(case)
    assert tuple(factors) == LEVELS
    assert all(np.diff(list(factors.values())) > 0)
    narrowed = [factor < norm.ppf((1 + level) / 2) - 1e-3 for level, factor in factors.items()]
    assert narrowed == [model == "smooth"] * len(LEVELS)


def test_two_and_three_phases_are_one_kind():
    assert solid_factors(SolidCase("2 phases", 800, 0.01)) == solid_factors(SolidCase("3 phases", 800, 0.01))


@pytest.mark.parametrize("sensors", [30, 361])
@pytest.mark.parametrize("model", ["2 phases", "3 phases", "smooth", "layers"])
def test_noise_of_calibrated_cases_is_low_usual_or_high(model, sensors):
    for noise in (0.0, 0.01, 0.05):
        assert Case(model, 10, sensors, noise).outside == ()
    names = [Case(model, 10, sensors, noise).stratum for noise in (0.0, 0.01, 0.05)]
    assert len(set(names)) == {"smooth": 2, "layers": 1}.get(model, 3)


def test_interfaces_seen_through_much_noise_have_wider_bands_than_the_posterior():
    usual, much = (factors_of(Case("2 phases", 50, 361, noise))[1] for noise in (0.01, 0.05))
    assert (much >= usual).all()
    assert much[LEVELS.index(0.9)] > usual[LEVELS.index(0.9)]


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

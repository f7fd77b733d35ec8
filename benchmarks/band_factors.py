"""Factors of the sensor inversion's bands by stratum, from the `calibration` of campaigns.

Every system counts alike. A factor is the smallest with which the mean share of values within bands is the level. A few
systems widen bands, they do not make them narrower than those of a normal distribution. Many do, but the mean share is
then above the level by its own standard error.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks.record import commit, now, read_record
from nipde.atomic import write_bytes
from nipde.estimators.inverse.band_factors import LEVELS, Case, SolidCase

TARGET = Path(__file__).resolve().parent.parent / "src/nipde/estimators/inverse/band_factors.json"
#: A stratum with fewer systems than this has no factors.
FEWEST = 6
#: Nor has one of solids with fewer than this.
FEWEST_SOLIDS = 20
#: With fewer systems factors are those of a normal distribution at least. So are those of the coefficient, and of
#: solids that are not smooth, as phases have two or three levels that bands hold or miss; and those on shapes: one
#: stratum has loads inside, on the outline and of wells there, of which bands hold different shares.
MANY = 20
#: What calibrated bands hold, and of which quantiles and factors.
HELD = {"within_calibrated": ("ratios", "response"), "material_within_calibrated": ("material_ratios", "material")}


def write(results: Path, records: Sequence[str]) -> Path:
    """From records of the campaigns to the file of the package."""
    found: dict[str, Any] = {}
    for record in records:
        found |= read_record(results, record)["measured"]["factors"]
    content = {"records": list(records), "commit": commit(), "time": now(), "strata": found}
    write_bytes(TARGET, (json.dumps(content, indent=1) + "\n").encode())
    return TARGET


def strata(systems: Sequence[dict[str, Any]], shares: Sequence[float]) -> dict[str, dict[str, Any]]:
    """Factors of responses and of log b by the name of a stratum, from systems of the calibration."""
    grouped = defaultdict(list)
    for one in systems:
        grouped[case_of(one).stratum].append(one)
    return {
        name: {
            "systems": len(each),
            **{
                quantity: factors_of(
                    [one[key] for one in each], shares, floor="shape" in name or quantity == "material"
                )
                for quantity, key in (("response", "ratios"), ("material", "material_ratios"))
            },
        }
        for name, each in sorted(grouped.items())
        if len(each) >= FEWEST
    }


def held(one: dict[str, Any], factors: dict[str, dict[str, Any]] | None, shares: Sequence[float]) -> dict[str, Any]:
    """Shares of responses and of the coefficient within calibrated bands of 90 %; None where there are none."""
    stratum = factors.get(case_of(one).stratum) if factors is not None else None
    if stratum is None:
        return dict.fromkeys(HELD)
    at = LEVELS.index(0.9)
    return {
        name: float(share_below(one[ratios], shares, np.array(stratum[quantity][at])))
        for name, (ratios, quantity) in HELD.items()
    }


def of_solids(systems: Sequence[dict[str, Any]], shares: Sequence[float]) -> dict[str, dict[str, Any]]:
    """Factors of log E by stratum, from specimens of the calibration."""
    grouped = defaultdict(list)
    for one in systems:
        grouped[solid_case(one).stratum].append(one["ratios"])
    return {
        name: {"systems": len(each), "material": factors_of(each, shares, floor="smooth" not in name)}
        for name, each in sorted(grouped.items()) if len(each) >= FEWEST_SOLIDS
    }  # fmt: skip


def held_of_solid(one: dict[str, Any], factors: dict[str, Any], shares: Sequence[float]) -> dict[str, Any]:
    """Share of the modulus within calibrated bands of 90 %; None where there are none."""
    stratum = factors.get(solid_case(one).stratum)
    if stratum is None:
        return {"within_calibrated": None}
    at = np.array(stratum["material"][LEVELS.index(0.9)])
    return {"within_calibrated": float(share_below(one["ratios"], shares, at))}


def solid_case(one: dict[str, Any]) -> SolidCase:
    """What was known of the fit of a solid."""
    return SolidCase(one["model"], one["readings"], one["noise"] / one["size"])


def mean_of(name: str, each: Sequence[dict[str, Any]]) -> float | None:
    """Over the systems that have calibrated bands."""
    known = [one[name] for one in each if one[name] is not None]
    return float(np.mean(known)) if known else None


def case_of(one: dict[str, Any]) -> Case:
    """What was known of a fit."""
    pairs = one["pairs"]
    return Case(one["model"], pairs, one["readings"] // pairs, one["noise"] / one["size"], shape="sensors" in one)


def factors_of(quantiles: list[list[float]], shares: Sequence[float], *, floor: bool) -> list[float]:
    """By level; of few systems or with a floor those of a normal distribution at least."""
    least = 1.0 if floor or len(quantiles) < MANY else 0.0
    normal = norm.ppf((1 + np.array(LEVELS)) / 2).tolist()
    return [
        round(max(factor(quantiles, shares, level), least * one), 3) for level, one in zip(LEVELS, normal, strict=True)
    ]


def factor(quantiles: list[list[float]], shares: Sequence[float], level: float) -> float:
    """The smallest factor for which the mean over systems of the share of ratios below it is the level."""
    candidates = np.unique(np.concatenate([np.array(quantiles).ravel(), np.geomspace(1e-3, 100, 400)]))
    within = np.array([share_below(one, shares, candidates) for one in quantiles])
    error = within.std(axis=0, ddof=1) / np.sqrt(len(within)) if len(within) >= MANY else 0.0
    too_low = np.flatnonzero(within.mean(axis=0) - error < level)
    return float(candidates[min(too_low[-1] + 1 if len(too_low) else 0, len(candidates) - 1)])


def share_below(quantiles: list[float], shares: Sequence[float], at: np.ndarray) -> np.ndarray:
    """Share of ratios below numbers, from quantiles of the ratios."""
    return np.interp(
        at, np.maximum.accumulate([0.0, *quantiles]) + 1e-9 * np.arange(len(quantiles) + 1), [0.0, *shares]
    )

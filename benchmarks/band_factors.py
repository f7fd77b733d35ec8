"""Factors of the sensor inversion's bands by stratum, from the table `calibration` of the campaign `reference`.

Every system counts alike. A factor is the smallest with which the mean share of values within bands is the level.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import commit, now, read_record
from nipde.atomic import write_bytes
from nipde.estimators.inverse.band_factors import LEVELS, Case

TARGET = Path(__file__).resolve().parent.parent / "src/nipde/estimators/inverse/band_factors.json"
#: A stratum with fewer systems than this has no factors.
FEWEST = 6


def write(results: Path, record: str) -> Path:
    """From a record of the campaign to the file of the package."""
    measured = read_record(results, record)["measured"]
    content = {"record": record, "commit": commit(), "time": now(), "strata": measured["factors"]}
    write_bytes(TARGET, (json.dumps(content, indent=1) + "\n").encode())
    return TARGET


def strata(measured: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Factors of responses and of log b by the name of a stratum."""
    pairs = {row["name"]: row["pairs"] for row in measured["rows"] if row["table"] == "calibration"}
    grouped = defaultdict(list)
    for one in measured["systems"]:
        if one["table"] == "calibration":
            grouped[case_of(pairs[one["row"]], one).stratum].append(one)
    return {
        name: {
            "systems": len(each),
            **{
                quantity: [round(factor([one[key] for one in each], measured["shares"], level), 3) for level in LEVELS]
                for quantity, key in (("response", "ratios"), ("material", "material_ratios"))
            },
        }
        for name, each in sorted(grouped.items())
        if len(each) >= FEWEST
    }


def held(
    pairs: int, one: dict[str, Any], factors: dict[str, dict[str, Any]], shares: Sequence[float]
) -> dict[str, Any]:
    """Shares of responses and of the coefficient within calibrated bands of 90 %; None where there are none."""
    stratum = factors.get(case_of(pairs, one).stratum)
    names = {"within_calibrated": ("ratios", "response"), "material_within_calibrated": ("material_ratios", "material")}
    if stratum is None or one["table"] == "calibration":
        return dict.fromkeys(names)
    at = LEVELS.index(0.9)
    return {
        name: float(share_below(one[ratios], shares, np.array(stratum[quantity][at])))
        for name, (ratios, quantity) in names.items()
    }


def case_of(pairs: int, one: dict[str, Any]) -> Case:
    """What was known of a fit."""
    return Case(one["model"], pairs, one["readings"] // pairs, one["noise"] / one["size"])


def factor(quantiles: list[list[float]], shares: Sequence[float], level: float) -> float:
    """The smallest factor for which the mean over systems of the share of ratios below it is the level."""
    candidates = np.unique(np.concatenate([np.array(quantiles).ravel(), np.geomspace(1e-3, 100, 400)]))
    within = np.mean([share_below(one, shares, candidates) for one in quantiles], axis=0)
    return float(candidates[min(int(np.searchsorted(within, level)), len(candidates) - 1)])


def share_below(quantiles: list[float], shares: Sequence[float], at: np.ndarray) -> np.ndarray:
    """Share of ratios below numbers, from quantiles of the ratios."""
    return np.interp(
        at, np.maximum.accumulate([0.0, *quantiles]) + 1e-9 * np.arange(len(quantiles) + 1), [0.0, *shares]
    )

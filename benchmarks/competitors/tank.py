"""Bodies in the measured tank: pyEIT's linear images beside `ElectrodeInversion`, by the score of the challenge.

Images become three classes by thresholds: Otsu's, or a share of the largest change. Method, weight and threshold are
those of the best total over the four training phantoms, masked to every level; the evaluation set is judged once.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from skimage.filters import threshold_multiotsu

from benchmarks import tank
from benchmarks.competitors.environment import Environment
from benchmarks.competitors.exchange import found_by

#: Size of pyEIT's triangles, as it comes; the radius is 1.
SIZE = 0.1
#: (method, p, λ); p 0.2 and the first λ of a method are what pyEIT comes with, p 0.5 and 0.01 those of its examples.
TRIED = (("jac", 0.2, 1e-3), ("jac", 0.5, 1e-3), ("jac", 0.5, 1e-2), ("jac", 0.5, 1e-1), ("greit", 0.2, 1e-2),
         ("greit", 0.2, 1e-3))  # fmt: skip
SETTINGS: list[dict[str, Any]] = [
    {"method": "bp", "options": {}, "normalize": True},
    *({"method": method, "options": {"p": power, "lamb": weight, "jac_normalized": False}, "normalize": False}
      for method, power, weight in TRIED),
]  # fmt: skip
#: Level of the short version.
QUICK = 4
#: None: Otsu's.
THRESHOLDS: tuple[float | None, ...] = (None, 0.3, 0.4, 0.5, 0.6)
Finished = Callable[[str, Callable[[], dict[str, Any]]], dict[str, Any] | None]


def compared(place: Environment, result: Finished, *, data: Path, quick: bool) -> dict[str, Any]:
    """pyEIT's best of every method on all phantoms, and nipde; with `quick` nipde on those of one level only."""
    cases = tank.evaluation(data)
    own = [case for case in cases if not quick or case[0] == QUICK]
    by_nipde = result(f"tank nipde {len(own)}", lambda: summary([tank.judged(*case) for case in own]))
    rows = [{"package": "nipde", "method": "ElectrodeInversion", **by_nipde}] if by_nipde else []
    training = result("tank pyeit training", lambda: {"tried": chosen_from(place, data)}) if place.python else None
    tried = training["tried"] if training else []
    for method in ("bp", "greit", "jac") if tried else ():
        best = max((one for one in tried if one["setting"]["method"] == method), key=lambda one: one["total"])
        found = result(f"tank pyeit {method}", partial(by_pyeit, place, best, cases))
        if found:
            rows.append({"package": "pyeit", "method": method, "setting": best["setting"], "share": best["threshold"],
                         "training": best["total"], **found})  # fmt: skip
    return {"rows": rows}


def chosen_from(place: Environment, data: Path) -> list[dict[str, Any]]:
    """Total over the training phantoms at every level, of every setting and threshold."""
    cases = tank.training(data)
    found = images_of(place, SETTINGS, cases)
    return [
        {"setting": setting, "threshold": share, "total": sum(
            tank.score(known, segmented(image, share=share))
            for image, (_, _, _, known) in zip(images, cases, strict=True)
        )}
        for setting, images in zip(SETTINGS, found["images"], strict=True) for share in THRESHOLDS
    ]  # fmt: skip


def by_pyeit(place: Environment, best: dict[str, Any], cases: list[Any]) -> dict[str, Any]:
    """One setting on all phantoms."""
    found = images_of(place, [best["setting"]], cases)
    each = [
        {"name": name, "level": level, "seconds": float(seconds),
         "score": tank.score(known, segmented(image, share=best["threshold"]))}
        for (level, name, _, known), image, seconds in zip(cases, found["images"][0], found["seconds"][0], strict=True)
    ]  # fmt: skip
    return {**summary(each), "version": str(found["version"]), "elements": int(found["elements"])}


def images_of(place: Environment, settings: list[dict[str, Any]], cases: list[Any]) -> dict[str, Any]:
    """By pyEIT, of the voltages of the cases."""
    assert place.python is not None
    tests = [one for _, _, one, _ in cases]
    assert all(np.array_equal(one.currents, tests[0].currents) for one in tests)
    return found_by(place.python, "pyeit_tank.py", {
        "voltages": np.array([one.voltages for one in tests]), "references": np.array([one.reference for one in tests]),
        "currents": tests[0].currents, "patterns": tests[0].patterns, "pixels": tank.PIXELS, "size": SIZE,
        "settings": [json.dumps(one) for one in settings],
    })  # fmt: skip


def segmented(image: np.ndarray, *, share: float | None) -> np.ndarray:
    """Labels of the pixels; those that are NaN are outside."""
    inside = np.isfinite(image)
    if share is None:
        low, high = threshold_multiotsu(image[inside], classes=3)
    else:
        high = share * float(np.abs(image[inside]).max())
        low = -high
    labels = np.zeros(image.shape, dtype=int)
    labels[inside] = np.where(
        image[inside] > high, tank.CONDUCTIVE, np.where(image[inside] < low, tank.RESISTIVE, 0)
    )  # fmt: skip
    return labels


def summary(each: list[dict[str, Any]]) -> dict[str, Any]:
    """Total, by level, and processor time."""
    levels = sorted({one["level"] for one in each})
    return {
        "total": float(sum(one["score"] for one in each)), "phantoms": each,
        "levels": {str(level): float(sum(one["score"] for one in each if one["level"] == level)) for level in levels},
        "seconds": float(np.mean([one["seconds"] for one in each])),
    }  # fmt: skip

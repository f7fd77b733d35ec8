"""Plane solids on a test bench: displacements at camera points to E(x), truth by scikit-fem on a finer mesh.

Rows are tests × materials × noise: tension; tension, shear and bending; three-point bending; two directions at once; a
plate with a hole. Two phases 1 : 3, a smooth field, one value. Noise in pixels at a field of view of 1,000; the largest
displacement is 0.5 % of it. The rows `calibration` are drawn at random, with other seeds: contrasts, shares,
inclusions, noise, camera points, what is unknown. From them come the factors of bands.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import band_factors, campaign
from benchmarks.reference import NORMAL, SHARES
from benchmarks.tension_truth import ONE, PIXELS, POISSON, STRAIN, TRIANGLES, Experiment, Row, experiment_of
from benchmarks.tension_truth import SEED as SEED
from nipde.atomic import write_bytes
from nipde.estimators.inverse.solid_inversion import SolidInversion, SolidLaw
from nipde.estimators.inverse.virtual_fields import VirtualFields
from nipde.shape import Shape

#: Specimens that bands are calibrated on are in no row.
CALIBRATION_SEED, CALIBRATION = 7103, "calibration"
#: By budget: specimens of every row, of those with a penalty, and that bands are calibrated on.
BUDGETS = {"quick": (1, 0, 0), "standard": (12, 2, 100), "long": (30, 10, 200)}
#: Points closer to the outline are not judged.
RIM = 0.02
TESTS = ("tension", "three loads", "bending", "two directions", "plate with hole")
ROWS = (
    *(Row(test, "two phases", noise) for test, noise in product(TESTS, (0.01, 0.05))),
    *(Row(test, "smooth") for test in TESTS),
    *(Row("tension", "one value", noise, ("ratio", "motion")) for noise in (0.01, 0.05)),
    *(Row("tension", "two phases", 0.01, (one,)) for one in ("ratio", "motion", "traction", "support", "correlated")),
    Row("plate with hole", "two phases", 0.01, ("ratio", "motion", "traction")),
    Row("two directions", "two phases", 0.01, ("ratio",)),
)  # fmt: skip
PENALTIES = tuple(
    replace(row, penalty=penalty) for row in ROWS if not row.unknown and row.noise == 0.01
    for penalty in ("tikhonov", "total-variation")
)  # fmt: skip


def drawn_row(number: int) -> Row:
    """For the calibration: materials in turn, the rest at random."""
    rng = np.random.default_rng([CALIBRATION_SEED, number])
    material, test = (
        ("two phases", "smooth", "inclusions", "two phases", "one value")[number % 5],
        str(rng.choice(TESTS)),
    )
    off = [
        "ratio",
        "motion",
        "correlated",
        *(("traction", "support") if test in ("tension", "plate with hole") else ()),
    ]
    unknown = tuple(one for one in off if rng.uniform() < (0.7 if material == "one value" else 0.25))
    return Row(
        test, material, float(0.005 * 10 ** rng.uniform()), unknown, lattice=int(rng.integers(15, 26)),
        seed=CALIBRATION_SEED, drawn=True,
    )  # fmt: skip


def measure(
    *, budget: str, before: Any = None, work: Path, only: list[str] | None = None, workers: int = 1,
    progress: Any = lambda finished: None,
) -> dict[str, Any]:  # fmt: skip
    """Every row over the specimens of the budget, or over those finished; `only` names rows."""
    folder = work / "tension"
    folder.mkdir(parents=True, exist_ok=True)
    of_rows, of_penalties, calibrated = BUDGETS[budget]
    rows = [(row, of_penalties if row.penalty else of_rows) for row in (*ROWS, *PENALTIES)]
    jobs = [(drawn_row(number), number) for number in range(calibrated)]
    jobs += [(row, number) for number in range(max(of_rows, of_penalties)) for row, count in rows if number < count]
    jobs = [(row, number) for row, number in jobs if not only or _row(row) in only]
    before = {name: one for name, one in (before or {}).items() if "virtual_fields" in one and _is_current(one)}
    if only:  # of rows asked for by name, the folder alone
        before = {name: one for name, one in before.items() if one["row"] not in only}
    known = campaign.measured_systems(
        jobs, judged, name=_name, path=_path, folder=folder, before=before, count=workers, progress=progress
    )
    known = [{"virtual_fields": None, **one} for one in known]
    factors = band_factors.of_solids([one for one in known if one["row"] == CALIBRATION], SHARES)
    known = [{**one, **band_factors.held_of_solid(one, factors, SHARES)} for one in known]
    each = {row: [one for one in known if one["row"] == row.name] for row in (*ROWS, *PENALTIES)}
    return {
        "strain": STRAIN, "pixels": PIXELS, "triangles": TRIANGLES, "factors": factors, "systems": known,
        "rows": [summary(row, found) for row, found in each.items() if found],
    }  # fmt: skip


def judged(row: Row, number: int, folder: Path) -> str:
    """One specimen."""
    torch.set_num_threads(1)
    experiment = experiment_of(row, number)
    start = time.process_time()
    law = SolidInversion(penalty=row.penalty)(experiment.tests)
    seconds = time.process_time() - start
    found = {
        "name": _name(row, number), "row": _row(row), "seconds": round(seconds, 2), "graded": True,
        **assessed(law, experiment),
    }  # fmt: skip
    write_bytes(_path(folder, row, number), json.dumps(found).encode())
    return str(found["name"])


def assessed(law: SolidLaw, experiment: Experiment) -> dict[str, Any]:
    """Errors, and what the law says of them."""
    mesh, truth = experiment.mesh, np.log(experiment.modulus)
    inside = law.tests.specimen.shape.region.buffer(-RIM)
    kept = Shape.of(inside).contains(mesh.centres)
    log, middle = law.log_modulus_at(mesh.centres[kept]), float(truth.min() + truth.max()) / 2
    ratios = np.abs(log - truth[kept])[::7] / law.log_deviation_at(mesh.centres[kept][::7])
    scores = {name: round(float(value), 2) for name, value in law.outlier_test.scores.items()}
    homogeneous = np.ptp(truth) == 0
    by_fields = VirtualFields()(law.tests) if homogeneous else None
    return {
        "virtual_fields": by_fields, "log_mean": float(np.abs(log - truth[kept]).mean()),
        "level": float((log - truth[kept]).mean()),
        "phases_inside": float(np.mean((log > middle) == (truth[kept] > middle))),
        "within": float(np.mean(ratios <= NORMAL)), "ratios": np.quantile(ratios, SHARES).round(3).tolist(),
        "rings": bool(law.outlier_test.is_outlier), "scores": scores,
        **{name: value for name, value in law.summary.items() if name != "criteria"},
    }  # fmt: skip


def summary(row: Row, each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the specimens."""
    names = ("log_mean", "phases_inside", "within", "chi_square", "rings", "seconds")
    ratio = [abs(one["poisson"] - POISSON) for one in each]
    held = [abs(one["poisson"] - POISSON) <= NORMAL * one["poisson_deviation"] for one in each]
    return {
        "row": row.name, **asdict(row), "systems": len(each), "models": dict(Counter(one["model"] for one in each)),
        **{name: float(np.mean([one[name] for one in each])) for name in names},
        "within_calibrated": band_factors.mean_of("within_calibrated", each),
        "log_worst": max(one["log_mean"] for one in each), "ratio_error": float(np.mean(ratio)),
        "ratio_within": float(np.mean(held)) if "ratio" in row.unknown else None,
        "virtual_fields": _mean_errors([one["virtual_fields"] for one in each if one["virtual_fields"]]),
    }  # fmt: skip


def _mean_errors(each: Sequence[tuple[float, float]]) -> list[float] | None:
    """Of log E and of ν."""
    if not each:
        return None
    return [
        float(np.mean([abs(np.log(e / ONE)) for e, _ in each])),
        float(np.mean([abs(v - POISSON) for _, v in each])),
    ]


def _row(row: Row) -> str:
    return CALIBRATION if row.drawn else row.name


def _name(row: Row, number: int) -> str:
    return f"{_row(row)} {number}"


def _is_current(one: dict[str, Any]) -> bool:
    """What was measured before triangles were smaller at ends of supports stands, but for rows with short supports.

    Errors of penalties are several times those of the mesh.
    """
    short = one["row"].startswith("bending") and not one["row"].endswith(("tikhonov", "total-variation"))
    return "graded" in one or not short


def _path(folder: Path, row: Row, number: int) -> Path:
    return folder / f"{_name(row, number).replace(', ', '-').replace(' ', '-')}.json"

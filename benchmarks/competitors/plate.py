"""A plate in tension, two phases 1 : 3, seen by a camera: torch-fem beside nipde.

Clamped on the left, a traction on the right; displacements at a lattice of 21² points with noise of 0.01 px of 1,000.
Truth: quadratic triangles of scikit-fem, 100 along the side (`benchmarks.tension`), whose error this is: mean |log E|
but for a rim.
"""

import time
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.competitors.environment import Environment
from benchmarks.competitors.exchange import found_by
from benchmarks.tension import RIM
from benchmarks.tension_truth import POISSON, Experiment, Row, experiment_of
from nipde.estimators.inverse.solid_inversion import SolidInversion
from nipde.shape import Shape

#: Its settings are chosen on this specimen, which is in no table.
VALIDATION = 100
#: Weights of the penalties on log E that are tried on it; cells along a side; steps of L-BFGS.
CELLS, STEPS = 40, 120
TRIED: dict[str, list[dict[str, Any]]] = {
    penalty: [{"cells": CELLS, "steps": STEPS, "penalty": penalty, "weight": weight} for weight in weights]
    for penalty, weights in {"smooth": (10.0, 1.0, 100.0), "total variation": (100.0, 10.0, 1000.0)}.items()
}


@lru_cache(maxsize=1)
def experiment(number: int) -> Experiment:
    """One specimen."""
    return experiment_of(Row("tension"), number)


def by_nipde(number: int) -> dict[str, Any]:
    """As it comes."""
    case = experiment(number)
    start = time.process_time()
    law = SolidInversion()(case.tests)
    seconds = time.process_time() - start
    error = errors(case, law.log_modulus_at(judged_centres(case)))
    return {**error, "seconds": seconds, "chi_square": float(law.summary["chi_square"])}


def by_package(place: Environment, setting: dict[str, Any], number: int) -> dict[str, Any]:
    """torch-fem with a setting."""
    case = experiment(number)
    assert place.python is not None
    found = found_by(place.python, "torchfem_plate.py", given(case), setting=setting)
    return {**errors(case, found["log_modulus"]), **{name: float(found[name]) for name in ("seconds", "chi_square")},
            "version": str(found["version"])}  # fmt: skip


def given(case: Experiment) -> dict[str, Any]:
    """What a package is told: never the truth."""
    (load,) = case.tests.loads
    return {
        "points": case.tests.points, "readings": case.tests.readings[0], "noise": case.tests.noise,
        "traction": np.array(load.tractions["right"]), "poisson": POISSON, "centres": judged_centres(case),
    }  # fmt: skip


def judged_centres(case: Experiment) -> np.ndarray:
    """Triangles away from the rim."""
    return case.mesh.centres[_judged(case)]


def errors(case: Experiment, log_modulus: np.ndarray) -> dict[str, float]:
    """Mean abs error of log E."""
    return {"log_mean": float(np.abs(log_modulus - np.log(case.modulus[_judged(case)])).mean())}


def _judged(case: Experiment) -> np.ndarray:
    return Shape.of(case.tests.specimen.shape.region.buffer(-RIM)).contains(case.mesh.centres)

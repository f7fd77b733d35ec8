"""An aquifer of known heads on its rim: 20 wells one after the other, 40 sensors, 1 % noise; SimPEG, pyGIMLi, nipde.

-∇·(b∇u) = δ(x - well), u = 0 on the outline of a square. Truth: triangles 180 along the side, each solved in four parts
(`benchmarks.specimens`). Errors as there: mean |log b| in the triangles but for a rim, held-out wells at the lattice.
"""

import time
from functools import lru_cache
from typing import Any

import numpy as np
import shapely

from benchmarks.competitors.environment import Environment
from benchmarks.competitors.exchange import found_by
from benchmarks.specimens import GRID, RIM, Experiment, Row, experiment_of
from nipde.context.sensors import Sensors
from nipde.estimators.inverse.sensor_inversion import SensorInversion

MATERIALS = ("two phases", "log-normal")
#: Its settings are chosen on this system, which is in no table.
VALIDATION = 100
SPACING = 0.025
#: Settings tried, by package and kind of penalty; the weight itself follows from the noise (discrepancy principle).
TRIED: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("simpeg", "smooth"): [{"spacing": SPACING, "steps": 40, "norms": None, "alpha_s": weight}
                           for weight in (0.01, 1.0)],
    ("simpeg", "sparse"): [{"spacing": SPACING, "steps": 60, "norms": norms, "alpha_s": 0.01}
                           for norms in ([2, 1, 1], [2, 0, 0])],
    ("pygimli", "smooth"): [{"spacing": SPACING, "steps": 30, "blocky": False, "start": 100.0, "factor": factor}
                            for factor in (0.7, 0.9)],
    ("pygimli", "blocky"): [{"spacing": SPACING, "steps": 30, "blocky": True, "start": 100.0, "factor": factor}
                            for factor in (0.7, 0.9)],
}  # fmt: skip
SCRIPTS = {"simpeg": "simpeg_aquifer.py", "pygimli": "pygimli_aquifer.py"}


@lru_cache(maxsize=1)
def experiment(material: str, number: int) -> Experiment:
    """One system."""
    return experiment_of(Row("square", "wells", 40, material=material), number)


def by_nipde(material: str, number: int) -> dict[str, Any]:
    """As it comes."""
    case = experiment(material, number)
    start = time.process_time()
    law = SensorInversion()(case.pairs).laws[0]
    seconds = time.process_time() - start
    responses = law.readings(case.loads, Sensors.at(case.lattice).matrix, case.outline)
    found = {"log_b": law.log_coefficient_at(judged_centres(case)), "responses": responses}
    return {**errors(case, found), "seconds": seconds, "chi_square": law.summary["chi_square"]}


def by_package(package: str, place: Environment, setting: dict[str, Any], material: str, number: int) -> dict[str, Any]:
    """With a setting of its own."""
    case = experiment(material, number)
    assert place.python is not None
    found = found_by(place.python, SCRIPTS[package], given(case), setting=setting)
    return {**errors(case, found), **{name: float(found[name]) for name in ("seconds", "chi_square")},
            "version": str(found["version"])}  # fmt: skip


def given(case: Experiment) -> dict[str, Any]:
    """What a package is told: never the truth."""
    assert case.pairs.specimen is not None
    low, _, high, _ = case.pairs.specimen.shape.region.bounds
    return {
        "wells": wells(np.asarray(case.pairs.loads)[:, 0]), "readings": np.asarray(case.pairs.readings),
        "sensors": case.pairs.sensors.points, "noise": case.pairs.noise, "low": low, "high": high,
        "queries": wells(case.loads), "lattice": case.lattice, "centres": judged_centres(case),
    }  # fmt: skip


def wells(loads: np.ndarray) -> np.ndarray:
    """Where the one node of every load is that has a source."""
    nodes = np.stack(GRID.coordinates, axis=-1).reshape(-1, 2)
    flat = loads.reshape(len(loads), -1) != 0
    assert (flat.sum(1) == 1).all()
    return nodes[flat.argmax(1)]


def judged_centres(case: Experiment) -> np.ndarray:
    """Triangles away from the rim."""
    return case.mesh.centres[_judged(case)]


def errors(case: Experiment, found: dict[str, Any]) -> dict[str, float]:
    """Mean abs error of log b, and of the responses to held-out wells."""
    known = np.isfinite(case.exact)
    off, exact = (np.where(known, field, 0.0) for field in (found["responses"] - case.exact, case.exact))
    return {
        "log_mean": float(np.abs(found["log_b"] - np.log(case.truth[_judged(case)])).mean()),
        "held_out": float(np.mean(np.linalg.norm(off, axis=1) / np.linalg.norm(exact, axis=1))),
    }


def _judged(case: Experiment) -> np.ndarray:
    assert case.pairs.specimen is not None
    return np.asarray(shapely.contains_xy(case.pairs.specimen.shape.region.buffer(-RIM), *case.mesh.centres.T))

"""Output error in a cube, from 60 sensors with 1 % noise, on data of finite elements on a mesh twice as fine.

Held-out errors are those of whole fields. A system that is finished leaves a file.
"""

from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.resumed import FOLDER, resumed
from benchmarks.timing import seconds
from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.data.archive import Archive
from nipde.data.conduction_3d import Conduction3DRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.kernels.refined import RefinedLaw

SEED, SENSORS, NOISE, LEVEL, FACTOR = 7402, 60, 0.01, 0.9, 1.645
NODES, PAIRS, HELD_OUT = 17, 10, 5
CUBES = 12
KINDS = ("two phases", "log-normal")


def measure(*, quick: bool) -> dict[str, Any]:
    """All systems; `quick` sees one."""
    cubes = 1 if quick else CUBES
    recipe = Conduction3DRecipe(nodes=NODES, pairs=PAIRS + HELD_OUT)
    archive = generate(
        Plan(recipe, systems=cubes, seed=SEED, shard_systems=1), FOLDER / "sensors-3d" / f"data-{cubes}", workers=1
    )
    each = [resumed("sensors-3d", f"cube-{number}", partial(cube, archive, number)) for number in range(cubes)]
    return {
        "sensors": SENSORS, "noise": NOISE, "level": LEVEL, "pairs": {"cube": PAIRS}, "digest": archive.digest,
        "rows": [summary(each, kind) for kind in KINDS], "each": each,
    }  # fmt: skip


def summary(each: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Means over the systems of a kind."""
    own = [one for one in each if one["kind"] == kind]
    numbers = [name for name, value in own[0].items() if isinstance(value, float)] if own else []
    return {
        "kind": kind, "systems": len(own), "models": sorted({one["model"] for one in own}),
        **{name: float(np.mean([one[name] for one in own])) for name in numbers},
    }  # fmt: skip


def cube(archive: Archive, number: int) -> dict[str, Any]:
    """Of a recipe; sensors at nodes."""
    torch.set_num_threads(1)
    system, grid, rng = archive[number], archive.grid, np.random.default_rng([SEED, number])
    nodes = np.argwhere(grid.unknown)
    chosen = nodes[rng.choice(len(nodes), SENSORS, replace=False)]
    sensors = Sensors.at(chosen * np.array(grid.spacing))
    responses = np.asarray(system.responses[:, 0], dtype=np.float64)
    exact = responses[:PAIRS][:, *chosen.T]
    noise = NOISE * float(np.sqrt(np.mean(exact**2)))
    readings = exact + noise * rng.standard_normal(exact.shape)
    loads = np.asarray(system.loads[:, 0], dtype=np.float64)
    pairs = SensorPairs.from_arrays(loads[:PAIRS], readings, grid=grid, sensors=sensors, noise=noise)
    law, taken = fitted(pairs)
    found, truth, inside = law.solve(loads[PAIRS:]), responses[PAIRS:], grid.unknown
    deviation = law.posterior.response_deviation(loads[PAIRS:])
    error = np.abs(law.log_coefficient - np.log(system.hidden[0]))[inside]
    kind = KINDS[int(system.parameters["log_normal"])]
    return judged(kind, law, taken) | {
        "held_out": float(np.mean(np.linalg.norm((found - truth).reshape(len(truth), -1), axis=1)
                                  / np.linalg.norm(truth.reshape(len(truth), -1), axis=1))),
        "responses_within": float(np.mean((np.abs(found - truth) <= FACTOR * deviation)[:, inside])),
        "log_error": float(error.mean()), "log_median": float(np.median(error)),
        "material_within": float(np.mean(error <= FACTOR * law.posterior.log_deviation()[inside])),
    }  # fmt: skip


def fitted(pairs: SensorPairs) -> tuple[RefinedLaw, float]:
    """The law, and seconds of the processor."""
    laws: list[RefinedLaw] = []
    taken = seconds(lambda: laws.append(SensorInversion()(pairs).laws[0]))
    return laws[0], taken


def judged(kind: str, law: RefinedLaw, taken: float) -> dict[str, Any]:
    """What is kept of a fit."""
    known = {name: law.summary[name] for name in ("model", "chi_square", "effective_dof")}
    share = law.summary["discretisation"] / law.summary["size"]
    return {"kind": kind, "seconds": taken, "discretisation": share, **known}

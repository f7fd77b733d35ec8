"""Output error over three axes, from 60 sensors with 1 % noise: a cube, and a core heated at its rim.

Data of the cube come from finite elements on a mesh twice as fine, those of the core from a mesh that follows its rim,
with the means of the conductivity that interfaces ask for.
Held-out errors of the cube are those of whole fields, of the core those at the sensors. A system that is finished
leaves a file.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool

from benchmarks.heated_core import (
    CENTRE,
    ELEMENTS,
    HEIGHT,
    KINDS,
    LOW,
    RADIUS,
    Heater,
    material,
    points_inside,
    temperatures,
)  # fmt: skip
from benchmarks.resumed import FOLDER, resumed
from benchmarks.timing import seconds
from nipde.boundary import Neumann
from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.data.archive import Archive
from nipde.data.conduction_3d import Conduction3DRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, Specimen
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Axis, Grid
from nipde.kernels.refined import RefinedLaw
from nipde.prism import Prism
from nipde.shape import Shape

SEED, SENSORS, NOISE, LEVEL, FACTOR = 7402, 60, 0.01, 0.9, 1.645
NODES, PAIRS, HELD_OUT = 17, 10, 5
#: Systems of every kind.
CUBES, CORES = 12, 5
#: Elements of a second mesh of cores, which tells the error of the data.
COARSER = (28, 40)
KINDS_OF_CUBES = ("two phases", "log-normal")


def measure(*, quick: bool) -> dict[str, Any]:
    """All systems; `quick` sees one cube and one core."""
    cubes, kinds = (1, KINDS[:1]) if quick else (CUBES, KINDS)
    recipe = Conduction3DRecipe(nodes=NODES, pairs=PAIRS + HELD_OUT)
    archive = generate(
        Plan(recipe, systems=cubes, seed=SEED, shard_systems=1), FOLDER / "sensors-3d" / f"data-{cubes}", workers=1
    )
    judged = [resumed("sensors-3d", f"cube-{number}", partial(cube, archive, number)) for number in range(cubes)]
    judged += [
        resumed("sensors-3d", f"{kind}-{number}", partial(core, kind, number))
        for kind in kinds for number in range(1 if quick else CORES)
    ]  # fmt: skip
    named = [*(("cube", kind) for kind in KINDS_OF_CUBES), *(("core", kind) for kind in KINDS)]
    return {
        "sensors": SENSORS, "noise": NOISE, "level": LEVEL, "pairs": {"cube": PAIRS, "core": 12},
        "digest": archive.digest, "rows": [summary(judged, *name) for name in named], "each": judged,
    }  # fmt: skip


def summary(judged: list[dict[str, Any]], shape: str, kind: str) -> dict[str, Any]:
    """Means over the systems of a row."""
    own = [one for one in judged if (one["shape"], one["kind"]) == (shape, kind)]
    names = (
        "data_error",
        "held_out",
        "log_error",
        "log_median",
        "responses_within",
        "material_within",
        "chi_square",
        "seconds",
    )
    row: dict[str, Any] = {"shape": shape, "kind": kind, "systems": len(own)}
    row |= {name: float(np.mean([one[name] for one in own])) if own and name in own[0] else None for name in names}
    return row | {"models": sorted({one["model"] for one in own})}


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
    law, taken = _fitted(pairs)
    found, truth, inside = law.solve(loads[PAIRS:]), responses[PAIRS:], grid.unknown
    deviation = law.posterior.response_deviation(loads[PAIRS:])
    error = np.abs(law.log_coefficient - np.log(system.hidden[0]))[inside]
    kind = KINDS_OF_CUBES[int(system.parameters["log_normal"])]
    return _judged("cube", kind, law, taken) | {
        "held_out": float(np.mean(np.linalg.norm((found - truth).reshape(len(truth), -1), axis=1)
                                  / np.linalg.norm(truth.reshape(len(truth), -1), axis=1))),
        "responses_within": float(np.mean((np.abs(found - truth) <= FACTOR * deviation)[:, inside])),
        "log_error": float(error.mean()), "log_median": float(np.median(error)),
        "material_within": float(np.mean(error <= FACTOR * law.posterior.log_deviation()[inside])),
    }  # fmt: skip


def core(kind: str, number: int) -> dict[str, Any]:
    """Twelve heaters, and three that are held out."""
    torch.set_num_threads(1)
    rng = np.random.default_rng([SEED, KINDS.index(kind), number])
    conductivity, points = material(kind, rng), points_inside(rng, SENSORS, rim=0.95)
    heaters = [Heater(float(angle), height) for height in (0.03, 0.06, 0.09) for angle in rng.uniform(0, 6.28, 4)]
    held_out = [Heater(*rng.uniform((0, 0.02), (6.28, 0.1)).tolist()) for _ in range(3)]
    lengths = (2 * CENTRE, 2 * CENTRE, HEIGHT + 2 * LOW)
    grid = Grid(tuple(Axis(nodes, length, Neumann()) for nodes, length in zip((11, 11, 15), lengths, strict=True)))
    inside = _within(grid)
    nodes = np.stack([x[inside] for x in grid.coordinates], axis=-1)
    exact = temperatures(conductivity, heaters + held_out, np.concatenate([points, nodes]))
    coarser = temperatures(conductivity, heaters, points, COARSER)
    readings, (truth, at_nodes) = exact[: len(heaters), :SENSORS], np.hsplit(exact[len(heaters) :], [SENSORS])
    noise = NOISE * float(np.sqrt(np.mean(readings**2)))
    shape = Prism.over(Shape.disc((CENTRE, CENTRE), RADIUS), low=LOW, high=LOW + HEIGHT)
    sensors, specimen = Sensors.at(points), Specimen(shape, {"back": DirichletPart()})
    pairs = SensorPairs.from_cases(
        _cases(heaters), readings + noise * rng.standard_normal(readings.shape), grid=grid, sensors=sensors,
        specimen=specimen, noise=noise,
    )  # fmt: skip
    law, taken = _fitted(pairs)
    nothing, cases = np.zeros((len(held_out), *grid.shape)), _cases(held_out)
    found = law.readings(nothing, sensors.matrix, cases)
    fields, deviation = law.solve(nothing, cases), law.posterior.response_deviation(nothing, cases)
    places = points_inside(rng, 4000)
    fine = np.abs(law.log_coefficient_at(places) - np.log(conductivity(*places.T)))
    error = np.abs(law.log_coefficient[inside] - np.log(conductivity(*nodes.T)))
    within = np.abs(fields[:, inside] - at_nodes)
    change = float(np.linalg.norm(readings - coarser) / np.linalg.norm(readings))
    return _judged("core", kind, law, taken) | {
        "data_error": change / ((ELEMENTS[0] / COARSER[0]) ** 2 - 1),
        "held_out": float(np.linalg.norm(found - truth) / np.linalg.norm(truth)),
        "responses_within": float(np.mean(within <= FACTOR * deviation[:, inside])),
        "log_error": float(fine.mean()), "log_median": float(np.median(fine)),
        "material_within": float(np.mean(error <= FACTOR * law.posterior.log_deviation()[inside])),
    }  # fmt: skip


def _within(grid: Grid) -> Bool[np.ndarray, "x y z"]:
    """Nodes that are not on the surface: the mesh of the truth has a polygon for a rim."""
    x, y, z = grid.coordinates
    slack = 0.01 * RADIUS
    return (np.hypot(x - CENTRE, y - CENTRE) < RADIUS - slack) & (np.abs(z - LOW - HEIGHT / 2) < HEIGHT / 2 - slack)


def _cases(heaters: list[Heater]) -> list[LoadCase]:
    return [LoadCase(fluxes={"rim": heater}) for heater in heaters]


def _fitted(pairs: SensorPairs) -> tuple[RefinedLaw, float]:
    laws: list[RefinedLaw] = []
    taken = seconds(lambda: laws.append(SensorInversion()(pairs).laws[0]))
    return laws[0], taken


def _judged(shape: str, kind: str, law: RefinedLaw, taken: float) -> dict[str, Any]:
    known = {name: law.summary[name] for name in ("model", "chi_square", "effective_dof")}
    share = law.summary["discretisation"] / law.summary["size"]
    return {"shape": shape, "kind": kind, "seconds": taken, "discretisation": share, **known}

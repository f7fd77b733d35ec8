"""Output error in a core heated at its rim, from 60 sensors with 1 % noise, on data of a mesh that follows the rim.

Held-out errors are those at the sensors. A specimen that is finished leaves a file.
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
from benchmarks.resumed import resumed
from benchmarks.sensors_3d import FACTOR, LEVEL, NOISE, SEED, SENSORS, fitted, judged, summary
from nipde.boundary import Neumann
from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, Specimen
from nipde.grid import Axis, Grid
from nipde.prism import Prism
from nipde.shape import Shape

#: Specimens of every kind.
CORES, HEATERS = 5, 12
#: Elements of a second mesh, which tells the error of the data.
COARSER = (28, 40)


def measure(*, quick: bool) -> dict[str, Any]:
    """All specimens; `quick` sees one."""
    kinds, count = (KINDS[:1], 1) if quick else (KINDS, CORES)
    each = [resumed("cores", f"{kind}-{number}", partial(core, kind, number))
            for number in range(count) for kind in kinds]  # fmt: skip
    return {
        "sensors": SENSORS, "noise": NOISE, "level": LEVEL, "heaters": HEATERS,
        "rows": [summary(each, kind) for kind in kinds], "each": each,
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
    exact = temperatures(conductivity, heaters + held_out, np.concatenate([points, nodes]), ELEMENTS)
    coarser = temperatures(conductivity, heaters, points, COARSER)
    readings, (truth, at_nodes) = exact[: len(heaters), :SENSORS], np.hsplit(exact[len(heaters) :], [SENSORS])
    noise = NOISE * float(np.sqrt(np.mean(readings**2)))
    shape = Prism.over(Shape.disc((CENTRE, CENTRE), RADIUS), low=LOW, high=LOW + HEIGHT)
    sensors, specimen = Sensors.at(points), Specimen(shape, {"back": DirichletPart()})
    pairs = SensorPairs.from_cases(
        _cases(heaters), readings + noise * rng.standard_normal(readings.shape), grid=grid, sensors=sensors,
        specimen=specimen, noise=noise,
    )  # fmt: skip
    law, taken = fitted(pairs)
    nothing, cases = np.zeros((len(held_out), *grid.shape)), _cases(held_out)
    found = law.readings(nothing, sensors.matrix, cases)
    fields, deviation = law.solve(nothing, cases), law.posterior.response_deviation(nothing, cases)
    places = points_inside(rng, 4000)
    fine = np.abs(law.log_coefficient_at(places) - np.log(conductivity(*places.T)))
    error = np.abs(law.log_coefficient[inside] - np.log(conductivity(*nodes.T)))
    within = np.abs(fields[:, inside] - at_nodes)
    change = float(np.linalg.norm(readings - coarser) / np.linalg.norm(readings))
    return judged(kind, law, taken) | {
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

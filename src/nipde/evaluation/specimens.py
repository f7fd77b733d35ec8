"""Errors of an estimator on specimens with an outline: from readings at nodes inside, some or all of them.

Errors are those of `evaluate`: of responses over the nodes inside, of the coefficient over the cells of the finer mesh.
Next to a well, where responses have no limit on finer meshes, nothing is read or judged.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool
from scipy.ndimage import binary_dilation

from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.data.archive import Archive
from nipde.data.system import System
from nipde.discretisation.interpolation import isolated
from nipde.discretisation.parts import Specimen
from nipde.errors import ArchiveError, PairsError
from nipde.estimators.base import Estimator
from nipde.evaluation.evaluate import Evaluation, mean, worst_decile
from nipde.evaluation.protocol import USUAL, choose
from nipde.kernels.refined import RefinedLaw


def readings_of(
    archive: Archive, system: int, *, pairs: Sequence[int] | None = None, sensors: int | None = None,
    noise: float = 0.0, seed: int = 0,
) -> SensorPairs:  # fmt: skip
    """What sensors at nodes of one specimen read: so many of them at random or, without a number, all inside.

    `noise` is a share of the readings' root mean square. What acts on the outline is part of the result.
    """
    _check_on_shapes(archive)
    return _readings(archive, archive[system], pairs, sensors, noise, np.random.default_rng(seed))


def evaluate_specimens(
    estimator: Estimator,
    archive: Archive,
    *,
    part: str = "test",
    context: int = USUAL,
    noise: float = 0.0,
    sensors: int | None = None,
    systems: int | None = None,
    seed: int = 0,
    progress: Callable[[int], None] = lambda finished: None,
) -> Evaluation:
    """Means over specimens with their intervals, from estimators that take readings of sensors."""
    _check_on_shapes(archive)
    if not getattr(estimator, "from_sensors", False):
        raise PairsError(
            expected="an estimator that takes readings of sensors: output-error", got="one for fields on a whole box",
            remedy="evaluate output-error on specimens",
        )  # fmt: skip
    draw = choose(archive, part=part, context=context, systems=systems, seed=seed)
    scores: dict[str, list[float]] = {
        name: [] for name in ("seconds", "held_out", "in_context", "microstructure", "phase_accuracy")
    }
    for place, number in enumerate(draw.systems.tolist()):
        one = archive[number]
        rng = np.random.default_rng(draw.seeds[place])
        readings = _readings(archive, one, draw.contexts[place].tolist(), sensors, noise, rng)
        start = time.process_time()
        answer: Any = estimator(readings)  # type: ignore[arg-type]
        scores["seconds"].append(time.process_time() - start)
        for name, pairs in (("in_context", draw.contexts[place]), ("held_out", draw.queries[place])):
            scores[name].append(_response_error(archive, one, answer.laws[0], pairs.tolist()))
        for name, value in _material_scores(one, answer.laws[0]).items():
            scores[name].append(value)
        progress(1)
    return Evaluation(
        held_out=mean(scores["held_out"]), in_context=mean(scores["in_context"]), held_out_interior=None,
        held_out_edge=None, kernel=None, microstructure=mean(scores["microstructure"]),
        phase_accuracy=mean(scores["phase_accuracy"]), phase_accuracy_inside=None, phase_accuracy_edge=None,
        worst_decile=worst_decile(scores["held_out"]), microstructure_failed=0, systems=len(draw.systems),
        pairs=context, noise=noise, load_noise=0.0, queries=draw.queries.shape[1], loads="own", part=part, seed=seed,
        seconds_per_system=sum(scores["seconds"]) / len(draw.systems), archive=archive.digest,
        per_system={"system": draw.systems.tolist(), **{name: scores[name] for name in ("held_out", "in_context")}},
    )  # fmt: skip


def _check_on_shapes(archive: Archive) -> None:
    if not archive.plan.recipe.on_shapes:
        raise ArchiveError(
            expected="an archive of specimens with an outline", got=archive.plan.recipe.problem,
            remedy="generate darcy-shapes, or use nipde.evaluate",
        )  # fmt: skip


def _readings(
    archive: Archive, system: System, pairs: Sequence[int] | None, sensors: int | None, noise: float,
    rng: np.random.Generator,
) -> SensorPairs:  # fmt: skip
    grid, specimen, outline = _of(archive, system)
    chosen = list(range(system.pairs)) if pairs is None else list(pairs)
    loads, responses = (field[chosen, 0].astype(np.float64) for field in (system.loads, system.responses))
    known = np.isfinite(responses) & ~beside_wells(loads, archive)
    places = np.flatnonzero(known.any(0))
    if sensors is not None:
        if not 1 <= sensors <= len(places):
            raise PairsError(
                expected=f"1 to {len(places)} sensors", got=sensors, remedy="that many nodes are inside the specimen"
            )
        places = np.sort(rng.choice(places, sensors, replace=False))
    known, responses = (field.reshape(len(chosen), -1)[:, places] for field in (known, responses))
    deviation = noise * float(np.sqrt(np.mean(responses[known] ** 2)))
    readings = np.where(known, responses + deviation * rng.standard_normal(responses.shape), np.nan)
    points = np.stack([x.ravel()[places] for x in grid.coordinates], axis=-1)
    return SensorPairs.from_arrays(
        loads, readings, grid=grid, sensors=Sensors.at(points), noise=deviation, specimen=specimen,
        outline=[outline[pair] for pair in chosen] if outline else (),
    )  # fmt: skip


def _response_error(archive: Archive, system: System, law: RefinedLaw, pairs: list[int]) -> float:
    """Mean over loads of the relative error at nodes inside."""
    grid, _, outline = _of(archive, system)
    loads, truth = (field[pairs, 0].astype(np.float64) for field in (system.loads, system.responses))
    inside = np.isfinite(truth[0])
    at = Sensors.at(np.stack([x[inside] for x in grid.coordinates], axis=-1))
    answers = law.readings(loads, at.matrix, [outline[pair] for pair in pairs] if outline else ())
    judged = ~beside_wells(loads, archive)[:, inside]
    off, size = (np.where(judged, field, 0.0) for field in (answers - truth[:, inside], truth[:, inside]))
    return float(np.mean(np.linalg.norm(off, axis=1) / np.linalg.norm(size, axis=1)))


def _material_scores(system: System, law: RefinedLaw) -> dict[str, float]:
    """Relative error of the coefficient, and share of the right phase, over the cells that it was solved on."""
    assert system.fine is not None
    truth = system.fine[0].astype(np.float64)
    inside = np.isfinite(truth)
    truth, estimate = truth[inside], law.map_of(truth.shape)[inside]
    border = np.sqrt(truth.min() * truth.max())
    return {
        "microstructure": float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth)),
        "phase_accuracy": float(np.mean((estimate > border) == (truth > border))),
    }


def _of(archive: Archive, system: System) -> tuple[Any, Specimen | None, Any]:
    recipe, seed = archive.plan.recipe, np.uint64(system.seed)
    return archive.grid, recipe.specimen_of(seed), recipe.outline_of(seed)


def beside_wells(loads: np.ndarray, archive: Archive) -> Bool[np.ndarray, "pair *space"]:
    """Nodes of point sources and their neighbours, of every pair."""
    wells = isolated(loads, archive.grid)
    return np.stack([binary_dilation(one, np.ones((3,) * archive.grid.dimension, dtype=bool)) for one in wells])

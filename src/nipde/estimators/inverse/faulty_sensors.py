"""Faulty sensors: dead, stuck, exchanged, misplaced, or with a wrong gain or sign. All others contradict them.

A fit in which outliers count little shows which they may be. They are left out if they are few and apart from each
other, and if the material that explains the others predicts readings that are far from theirs in most pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from nipde.context.sensor_pairs import SensorPairs
from nipde.estimators.inverse.candidate import Candidate
from nipde.kernels.refined import RefinedLaw

Values = Float[np.ndarray, "sensor pair"]
Fault = Literal["stuck", "exchanged", "gain", "offset", "unknown"]
Numbers = Int[np.ndarray, " sensor"]
#: Of fewer sensors none is left out; of more at most this share, or two.
FEWEST, SHARE = 10, 0.05
#: Residuals of a sensor over those of a usual one, medians over the pairs, that are worth a closer look.
MARKED = 5.0
#: Deviations that readings are off from what the other sensors predict, in the median over the pairs.
CONTRADICTED = 5.0
#: Faulty sensors are no larger group of neighbours: these are the other sign of a wrong law.
GROUP, NEIGHBOURS = 2, 4
#: A cause is named if it brings readings within so many deviations of the prediction, in the median over the pairs.
EXPLAINED = 2.5
#: Readings vary by less than this share of what they should: they are stuck.
STUCK = 0.02
#: Median of the size of a normal variable of deviation 1.
MEDIAN = 0.6745


@dataclass(frozen=True)
class FaultySensor:
    """One that was left out."""

    #: From 0, and the position from the first node of the grid.
    number: int
    position: tuple[float, ...]
    #: Of its readings from what the others predict, in deviations of noise and prediction, median over the pairs.
    deviations: float
    #: The first simple cause that explains its readings: they are all one number, those of another sensor, or in
    #: proportion to what they should be, or all off by one number.
    fault: Fault
    #: That number, that sensor's, the gain, or the shift.
    amount: float | None


def misfits(best: Candidate) -> Float[np.ndarray, " sensor"]:
    """Size of every sensor's residuals over the noise, from their median over the pairs."""
    problem = best.problem
    residual = problem.residual(best.fit.model, best.fit.parameters)
    noise = problem.usual_deviation if problem.stated is None else problem.stated
    deviation = np.maximum(np.hypot(noise, problem.discretisation), 1e-12 * problem.size)
    return np.nanmedian(np.where(problem.measured, np.abs(residual) / deviation, np.nan), axis=1) / MEDIAN


def marked(best: Candidate) -> Bool[np.ndarray, " sensor"]:
    """Sensors that a fit explains much worse than most of the others."""
    found = misfits(best)
    return found > MARKED * max(float(np.nanmedian(found)), 1 / MARKED)


def suspects(robust: Candidate) -> Numbers:
    """Those that a fit in which outliers count little does not explain; none if they are many or side by side."""
    numbers, points = np.flatnonzero(marked(robust)), robust.problem.places
    if len(points) < FEWEST or len(numbers) > max(GROUP, int(SHARE * len(points))):
        return numbers[:0]
    return numbers if largest_group(points, numbers) <= GROUP else numbers[:0]


def largest_group(points: Float[np.ndarray, "sensor axis"], numbers: Numbers) -> int:
    """How many of these sensors stand side by side, at most."""
    if not len(numbers):
        return 0
    near = np.asarray(cKDTree(points).query(points[numbers], k=NEIGHBOURS + 1)[1])
    place = {int(number): row for row, number in enumerate(numbers)}
    links = [(row, place[other]) for row, others in enumerate(near.tolist()) for other in others if other in place]
    rows, columns = np.array(links).T
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(numbers),) * 2)
    return int(np.bincount(connected_components(graph, directed=False)[1]).max())


def contradicted(law: RefinedLaw, pairs: SensorPairs, numbers: Sequence[int] | Numbers) -> tuple[FaultySensor, ...]:
    """Those of these sensors whose readings are far from what a law predicts that was fitted without them."""
    if not len(numbers):
        return ()
    chosen, loads = np.asarray(numbers, dtype=int), pairs.loads[:, 0].numpy()
    sensors = pairs.sensors
    predicted = law.readings(loads, lambda grid: sensors.matrix(grid)[chosen], pairs.outline).T
    deviation = law.posterior.reading_deviation(loads, lambda grid: sensors.matrix(grid)[chosen], pairs.outline).T
    noise = law.summary["noise"] if pairs.noise is None else pairs.noise
    noises = np.broadcast_to(np.asarray(noise, dtype=np.float64), pairs.readings.shape).T[chosen]
    deviation = np.hypot(deviation, np.maximum(noises, law.summary["discretisation"]))
    readings = pairs.readings.numpy().T[chosen]
    off = np.nanmedian(np.abs(readings - predicted) / deviation, axis=1)
    return tuple(
        FaultySensor(
            int(number), tuple(float(x) for x in sensors.points[number]), float(off[row]),
            *_cause(row, readings, predicted, deviation, chosen),
        )
        for row, number in enumerate(chosen) if off[row] > CONTRADICTED
    )  # fmt: skip


def _cause(
    row: int, readings: Values, predicted: Values, deviation: Values, numbers: Numbers
) -> tuple[Fault, float | None]:
    """The fault and its amount; with few pairs there is no telling."""
    known = np.isfinite(readings[row])
    if np.count_nonzero(known) < 3:
        return "unknown", None
    reads, should, width = readings[row, known], predicted[row, known], deviation[row, known]

    def explain(values: Float[np.ndarray, " pair"]) -> bool:
        return float(np.median(np.abs(reads - values) / width)) < EXPLAINED

    if np.ptp(reads) <= STUCK * np.ptp(should):
        return "stuck", float(np.median(reads))
    for other, number in enumerate(numbers):
        if other != row and explain(predicted[other, known]):
            return "exchanged", float(number)
    gain = float(np.sum(reads * should / width**2) / np.sum((should / width) ** 2))
    if explain(gain * should):
        return "gain", gain
    shift = float(np.median(reads - should))
    return ("offset", shift) if explain(should + shift) else ("unknown", None)

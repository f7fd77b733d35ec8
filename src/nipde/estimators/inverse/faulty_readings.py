"""Faulty sensors (dead, stuck, exchanged, misplaced, of a wrong gain or sign) and faulty pairs (a wrong load, two
exchanged): what all others contradict.

A fit in which outliers count little shows which they may be. They are left out if they are few, sensors also apart from
each other, and if the material that explains the others predicts readings that are far from most of theirs.
"""

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from nipde.context.sensor_pairs import SensorPairs
from nipde.estimators.inverse.candidate import Candidate
from nipde.kernels.refined import RefinedLaw

#: A row of a faulty sensor has its readings in all pairs, that of a faulty pair its readings at all sensors.
Rows = Float[np.ndarray, "row reading"]
Values = Float[np.ndarray, "sensor pair"]
Numbers = Int[np.ndarray, " number"]
Fault = Literal["stuck", "exchanged", "gain", "offset", "unknown"]
#: Of fewer sensors none is left out; of more at most this share, or two. The same of pairs, of few of them one.
FEWEST_SENSORS, SHARE_OF_SENSORS = 10, 0.05
FEWEST_PAIRS, SEVERAL_PAIRS, SHARE_OF_PAIRS = 5, 8, 0.1
#: Median size of the residuals of a sensor or a pair over that of a usual one that is worth a closer look.
MARKED = 5.0
#: Errors below this share of the readings' size are no faults: smooth materials blur interfaces by as much.
TOLERATED = 5e-3
#: Mean square of residuals over noise and tolerated errors that is more than a blurred material leaves.
FAR = 4.0
#: Deviations that readings are off from what the others predict, in the median.
CONTRADICTED = 5.0
#: Faulty sensors are no larger group of neighbours: these are the other sign of a wrong law.
GROUP, NEIGHBOURS = 2, 4
#: A cause is named if it brings readings within so many deviations of the prediction, in the median.
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


@dataclass(frozen=True)
class FaultyPair:
    """One that was left out; as of a sensor, with pairs for sensors."""

    number: int
    deviations: float
    fault: Fault
    amount: float | None


@dataclass(frozen=True, eq=False)
class Suspects:
    """Sensors and pairs that may be faulty."""

    sensors: Numbers
    pairs: Numbers

    @property
    def count(self) -> int:
        """Of both."""
        return len(self.sensors) + len(self.pairs)

    def others_of(self, pairs: SensorPairs) -> SensorPairs:
        """Readings of the other sensors in the other pairs."""
        return pairs.without_sensors(self.sensors).without_pairs(self.pairs)

    def joined(self, law: RefinedLaw, pairs: SensorPairs) -> "Suspects":
        """With those that a law by the others left out."""
        rest = np.setdiff1d(np.arange(pairs.count), self.pairs)
        sensors = pairs.numbers_at(law.faulty_positions)
        return Suspects(np.union1d(self.sensors, sensors), np.union1d(self.pairs, rest[list(law.faulty_pairs)]))

    def are_few_of(self, pairs: SensorPairs) -> bool:
        """Few sensors, apart from each other, and few pairs."""
        few = len(self.pairs) <= most_pairs(pairs.count) and len(self.sensors) <= most_sensors(len(pairs.sensors))
        return few and largest_group(pairs.sensors.points, self.sensors) <= GROUP


def sizes(best: Candidate) -> tuple[Float[np.ndarray, " sensor"], Float[np.ndarray, " pair"]]:
    """Of residuals, by their median: of sensors over the pairs, of pairs over the sensors."""
    off = np.where(best.problem.measured, np.abs(_scaled(best)), np.nan)
    return _size(off), _size(off.T)


def _size(off: Rows) -> Float[np.ndarray, " row"]:
    """Of every row, NaN where nothing was read: 1 of a normal variable of deviation 1."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        return np.asarray(np.nanmedian(off, axis=1)) / MEDIAN


def _scaled(best: Candidate) -> Values:
    """Residuals over noise and tolerated errors."""
    problem = best.problem
    residual = problem.residual(best.fit.model, best.fit.parameters)
    noise = problem.usual_deviation if problem.stated is None else problem.stated
    return residual / np.hypot(np.hypot(noise, problem.discretisation), TOLERATED * problem.size)


def marked(sizes: Float[np.ndarray, " number"]) -> Numbers:
    """Numbers of those that a fit explains much worse than most."""
    return np.flatnonzero(sizes > MARKED * max(float(np.nanmedian(sizes)), 1 / MARKED))


def any_marked(best: Candidate) -> bool:
    """Whether any sensor or pair is."""
    return any(len(marked(one)) for one in sizes(best))


def is_doubtful(best: Candidate) -> bool:
    """Whether any is, or readings are so far from a fit that something else must be wrong."""
    return any_marked(best) or float(np.sum(_scaled(best) ** 2)) > FAR * best.problem.count


def suspects(robust: Candidate) -> Suspects:
    """What a fit in which outliers count little explains worst: as many as may be left out; no sensors side by side."""
    points, count = robust.problem.places, robust.problem.pairs.count
    of_sensors, of_pairs = sizes(robust)
    sensors = _worst(of_sensors, most_sensors(len(points)))
    return Suspects(
        sensors if largest_group(points, sensors) <= GROUP else sensors[:0], _worst(of_pairs, most_pairs(count))
    )


def _worst(sizes: Float[np.ndarray, " number"], most: int) -> Numbers:
    """Of those that are marked."""
    numbers = marked(sizes)
    return np.sort(numbers[np.argsort(-sizes[numbers])][:most])


def most_sensors(count: int) -> int:
    """That may be left out of so many."""
    return 0 if count < FEWEST_SENSORS else max(GROUP, int(SHARE_OF_SENSORS * count))


def most_pairs(count: int) -> int:
    """That may be left out of so many."""
    return 0 if count < FEWEST_PAIRS else max(1 + (count >= SEVERAL_PAIRS), int(SHARE_OF_PAIRS * count))


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


def contradicted_sensors(law: RefinedLaw, pairs: SensorPairs, numbers: Numbers) -> tuple[FaultySensor, ...]:
    """Those of these sensors whose readings are far from what a law predicts that was fitted without them."""
    if not len(numbers):
        return ()
    reads, should, width = _compared(law, pairs.at_sensors(numbers))
    rows = reads.T, should.T, width.T
    points = pairs.sensors.points
    return tuple(
        FaultySensor(int(number), tuple(float(x) for x in points[number]), *_judged(row, rows, numbers))
        for row, number in enumerate(numbers) if _off(row, rows) > CONTRADICTED
    )  # fmt: skip


def contradicted_pairs(law: RefinedLaw, pairs: SensorPairs, numbers: Numbers) -> tuple[FaultyPair, ...]:
    """The same of pairs."""
    if not len(numbers):
        return ()
    rows = _compared(law, pairs.take(numbers.tolist()))
    return tuple(
        FaultyPair(int(number), *_judged(row, rows, numbers))
        for row, number in enumerate(numbers) if _off(row, rows) > CONTRADICTED
    )  # fmt: skip


def doubtful_pairs(law: RefinedLaw, pairs: SensorPairs) -> Numbers:
    """Pairs that a law does not predict by far, its own uncertainty aside; none where they are many."""
    predicted = law.readings(pairs.loads[:, 0].numpy(), pairs.sensors.matrix, pairs.outline)
    numbers = marked(_size(np.abs(pairs.readings.numpy() - predicted) / _noise(law, pairs)))
    return numbers if len(numbers) <= most_pairs(pairs.count) else numbers[:0]


def _noise(law: RefinedLaw, pairs: SensorPairs) -> Float[np.ndarray, "pair sensor"]:
    noise = law.summary["noise"] if pairs.noise is None else pairs.noise
    stated = np.broadcast_to(np.asarray(noise, dtype=np.float64), pairs.readings.shape)
    return np.maximum(stated, max(law.summary["discretisation"], 1e-12 * law.summary["size"]))


def _compared(law: RefinedLaw, pairs: SensorPairs) -> tuple[Rows, Rows, Rows]:
    """Readings, predictions, and the deviation of their difference, by pair and sensor."""
    loads, matrix = pairs.loads[:, 0].numpy(), pairs.sensors.matrix
    deviation = law.posterior.reading_deviation(loads, matrix, pairs.outline)
    predicted = law.readings(loads, matrix, pairs.outline)
    return pairs.readings.numpy(), predicted, np.hypot(deviation, _noise(law, pairs))


def _off(row: int, rows: tuple[Rows, Rows, Rows]) -> float:
    reads, should, width = (one[row] for one in rows)
    return float(np.nanmedian(np.abs(reads - should) / width))


def _judged(row: int, rows: tuple[Rows, Rows, Rows], numbers: Numbers) -> tuple[float, Fault, float | None]:
    """Deviations, the fault and its amount; with few readings there is no telling."""
    off, known = _off(row, rows), np.isfinite(rows[0][row])
    reads, should, width = (one[row, known] for one in rows)
    if len(reads) < 3:
        return off, "unknown", None

    def explain(values: Float[np.ndarray, " reading"]) -> bool:
        return float(np.median(np.abs(reads - values) / width)) < EXPLAINED

    if np.ptp(reads) <= STUCK * np.ptp(should):
        return off, "stuck", float(np.median(reads))
    for other, number in enumerate(numbers):
        if other != row and explain(rows[1][other, known]):
            return off, "exchanged", float(number)
    gain = float(np.sum(reads * should / width**2) / np.sum((should / width) ** 2))
    if explain(gain * should):
        return off, "gain", gain
    shift = float(np.median(reads - should))
    return (off, "offset", shift) if explain(should + shift) else (off, "unknown", None)

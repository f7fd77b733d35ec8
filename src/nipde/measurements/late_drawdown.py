"""Drawdowns at late times, s(t) = level + slope · ln(t / T): the slope is that of all wells, levels differ.

For r²S/4Tt below about 0.03 the drawdown of a confined aquifer is Q/4πT (ln t + constant of the place): everywhere it
grows by the same slope, also where the aquifer is not homogeneous, and differences between wells are those of steady
flow. A well has not reached this where its own slope differs from the common one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.errors import MeasurementError

#: Readings that a line needs; deviations that its slope may differ from the common one, beside this share of it.
FEWEST, ALIKE, SHARE = 4, 2.0, 0.1


@dataclass(frozen=True, eq=False)
class Drawdown:
    """Of one well: times since pumping began, drawdowns positive downwards."""

    time: Float[np.ndarray, " reading"]
    drawdown: Float[np.ndarray, " reading"]

    def __post_init__(self) -> None:
        if self.time.ndim != 1 or self.time.shape != self.drawdown.shape:
            raise MeasurementError(
                expected="one drawdown for every time", got=(self.time.shape, self.drawdown.shape), remedy="check both"
            )
        if not (np.isfinite(self.time).all() and np.isfinite(self.drawdown).all()):
            raise MeasurementError(expected="numbers", got="others", remedy="leave out readings that are missing")


@dataclass(frozen=True, eq=False)
class LateDrawdown:
    """Of one well in one test: its level with the slope of all wells, its own slope, and their deviations."""

    #: At the time `middle`.
    level: float
    #: From the scatter in time, and what differences to it still change until the end.
    deviation: float
    slope: float
    slope_deviation: float
    #: Of all wells of the test.
    common_slope: float
    middle: float
    readings: int

    def at(self, time: float) -> float:
        """The drawdown at a late time, by the common slope."""
        return self.level + self.common_slope * float(np.log(time / self.middle))

    @property
    def steady(self) -> bool:
        """Whether the well has reached the common slope, as far as the scatter tells."""
        allowed = np.hypot(ALIKE * self.slope_deviation, SHARE * self.common_slope)
        return bool(abs(self.slope - self.common_slope) <= allowed)


def late_drawdown(drawdowns: Mapping[str, Drawdown], *, since: float) -> dict[str, LateDrawdown]:
    """Levels at one time for all wells, the geometric middle from `since` to the last reading, and the slopes."""
    last = max((float(one.time.max(initial=0.0)) for one in drawdowns.values()), default=0.0)
    if not 0 < since < last:
        raise MeasurementError(
            expected=f"a time from 0 to the last reading, {last:g} s", got=since, remedy="start earlier"
        )
    middle = float(np.sqrt(since * last))
    lines = {well: _line(well, one, since=since, middle=middle) for well, one in drawdowns.items()}
    precision = np.array([1 / line.slope_deviation**2 for line in lines.values()])
    common = float(np.sum(precision * [line.slope for line in lines.values()]) / np.sum(precision))
    return {well: line.with_slope(common, middle=middle, last=last) for well, line in lines.items()}


@dataclass(frozen=True, eq=False)
class _Line:
    """Of one well: mean of ln(t / T) and of the drawdowns, slope, scatter."""

    place: float
    mean: float
    slope: float
    slope_deviation: float
    scatter: float
    readings: int

    def with_slope(self, common: float, *, middle: float, last: float) -> LateDrawdown:
        """The level at the middle; until the last time, differences may change by the difference of the slopes."""
        unsteady = (self.slope - common) * np.log(last / middle)
        deviation = float(np.hypot(self.scatter / np.sqrt(self.readings), unsteady))
        level = self.mean - common * self.place
        return LateDrawdown(level, deviation, self.slope, self.slope_deviation, common, middle, self.readings)


def _line(well: str, given: Drawdown, *, since: float, middle: float) -> _Line:
    late = given.time >= since
    times, values = np.log(given.time[late] / middle), given.drawdown[late]
    if len(np.unique(times)) < FEWEST:
        raise MeasurementError(
            f"well {well}", expected=f"{FEWEST} readings or more after {since:g} s", got=len(times),
            remedy="start earlier, or leave out the well",
        )  # fmt: skip
    place, mean = float(times.mean()), float(values.mean())
    spread = float(np.sum((times - place) ** 2))
    slope = float(np.sum((times - place) * (values - mean)) / spread)
    left = values - mean - slope * (times - place)
    scatter = float(np.sqrt(np.sum(left**2) / (len(times) - 2)))
    # Rounded readings that do not scatter still have the error of their last digit.
    scatter = max(scatter, _last_digit(given.drawdown) / np.sqrt(12), 1e-9 * abs(mean), 1e-300)
    return _Line(place, mean, slope, scatter / np.sqrt(spread), scatter, len(times))


def _last_digit(values: Float[np.ndarray, " reading"]) -> float:
    """The step that all differences are multiples of; 0 if there is none."""
    changes = np.abs(np.diff(values))
    step = float(changes[changes > 0].min(initial=np.inf))
    return step if np.isfinite(step) and np.abs(changes / step - np.round(changes / step)).max() < 0.05 else 0.0

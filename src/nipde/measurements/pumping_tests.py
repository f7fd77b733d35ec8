"""Pumping tests: rates at wells, drawdowns of wells in time; read from a campaign of welltestpy.

In a confined aquifer drawdowns grow as long as pumping goes on, but their differences between wells become steady: see
`late_drawdown`. These are readings that are known up to one number per test, and a rate at a well is a point load.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from jaxtyping import Float

from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.discretisation.parts import Specimen
from nipde.errors import MeasurementError, naming
from nipde.grid import Grid
from nipde.measurements.formats import ZIP, Contents, Format
from nipde.measurements.late_drawdown import Drawdown, LateDrawdown, late_drawdown
from nipde.measurements.loads import Point
from nipde.measurements.parse import parse_in_child
from nipde.measurements.sandbox import DEFAULT_LIMITS, Limits
from nipde.measurements.units import Units, factor

_CAMPAIGN = Format("welltestpy", "nipde.measurements.formats.welltestpy", (".cmp",), ZIP)
UNITS = Units("m", "m/s", "m")


@dataclass(frozen=True, eq=False)
class PumpingTest:
    """One well is pumped at a constant rate from t = 0 on; rates in m³/s, times in s, drawdowns in m."""

    name: str
    well: str
    rate: float
    drawdowns: Mapping[str, Drawdown]

    def late(self, *, since: float) -> dict[str, LateDrawdown]:
        """Levels and slopes of the observation wells from this time on; the pumped well has losses of its own."""
        with naming(f"test {self.name}"):
            return late_drawdown({well: one for well, one in self.drawdowns.items() if well != self.well}, since=since)


@dataclass(frozen=True, eq=False)
class PumpingCampaign:
    """Tests at the wells of one site, positions in m."""

    wells: Mapping[str, tuple[float, float]]
    tests: tuple[PumpingTest, ...]
    sha256: str = ""

    @classmethod
    def read(cls, path: Path | str, *, limits: Limits = DEFAULT_LIMITS) -> Self:
        """A campaign of welltestpy (`.cmp`), parsed in a child process as any other file."""
        path = Path(path)
        digest, _, contents = parse_in_child(path, candidates=lambda _: [_CAMPAIGN], limits=limits)
        with naming(path.name):
            names = dict.fromkeys(name.split("/")[1] for name in contents.units if name.startswith("tests/"))
            return cls(_wells(contents), tuple(_test(name, contents) for name in names), digest)

    def __post_init__(self) -> None:
        for test in self.tests:
            unknown = [well for well in (test.well, *test.drawdowns) if well not in self.wells]
            if unknown:
                raise MeasurementError(
                    f"test {test.name}", expected="wells of the campaign", got=unknown[0], remedy="give its position"
                )

    def distance(self, first: str, second: str) -> float:
        """Between two wells."""
        return float(np.hypot(*np.subtract(self.wells[first], self.wells[second])))

    def sensor_pairs(
        self, grid: Grid, *, origin: tuple[float, float], since: float, error: float = 0.0,
        specimen: Specimen | None = None,
    ) -> SensorPairs:  # fmt: skip
        """One pair per test: its rate is a point load, its readings are late drawdowns less their mean over the wells.

        Only their differences mean anything: estimate with `nuisance=("level",)`. `origin` is the position of the first
        node. `error` is a deviation per rate, in s/m², that comes on top of that of the levels in time. Wells that were
        not observed, and the pumped one, are gaps.
        """
        names = list(self.wells)
        readings, noise = np.full((2, len(self.tests), len(names)), np.nan)
        loads = []
        for number, test in enumerate(self.tests):
            loads.append(Point(self.wells[test.well], test.rate).field(grid, origin=origin, units=UNITS))
            late = test.late(since=since)
            mean = np.mean([one.level for one in late.values()])
            for well, one in late.items():
                readings[number, names.index(well)] = one.level - mean
                noise[number, names.index(well)] = np.hypot(one.deviation, error * test.rate)
        sensors = Sensors.at(np.array([self.wells[name] for name in names]) - origin)
        noise = np.where(np.isfinite(noise), noise, np.nanmax(noise))
        return SensorPairs.from_arrays(
            np.stack(loads), readings, grid=grid, sensors=sensors, noise=noise, specimen=specimen
        )


def _wells(contents: Contents) -> dict[str, tuple[float, float]]:
    places = {}
    for key in contents.arrays:
        if key.startswith("wells/") and key.endswith("/coordinates"):
            values = _in(contents, key, "m")
            if values.shape != (2,) or not np.isfinite(values).all():
                raise MeasurementError(key, expected="two numbers, x and y", got=values.shape)
            places[key.split("/")[1]] = (float(values[0]), float(values[1]))
    return places


def _test(name: str, contents: Contents) -> PumpingTest:
    start = f"tests/{name}/"
    if f"{start}rate" not in contents.attributes:
        raise MeasurementError(f"test {name}", expected="one rate", got="none, or several")
    rate = float(contents.attributes[f"{start}rate"]) * factor(contents.units[f"{start}rate"], "m^3/s", of="the rate")
    if not (np.isfinite(rate) and rate != 0):
        raise MeasurementError(f"test {name}", expected="a rate other than 0", got=rate)
    drawdowns = {}
    for key in contents.arrays:
        if key.startswith(start) and key.endswith("/time"):
            well = key.split("/")[2]
            with naming(f"test {name}, well {well}"):
                drawdown = _in(contents, f"{start}{well}/drawdown", "m")
                drawdowns[well] = Drawdown(_in(contents, key, "s"), drawdown)
    return PumpingTest(name, str(contents.attributes[f"{start}well"]), rate, drawdowns)


def _in(contents: Contents, key: str, unit: str) -> Float[np.ndarray, " value"]:
    if key not in contents.arrays:
        raise MeasurementError(expected=f"the array {key}", got="none")
    return np.asarray(contents.arrays[key], dtype=float) * factor(contents.units[key], unit, of=key)

"""What was found of a plane solid, as a folder: the modulus with its band, a page to read, numbers for programs."""

import base64
import csv
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import norm

from nipde.atomic import atomic_folder
from nipde.context.solid_tests import SolidTests
from nipde.errors import needing
from nipde.kernels.prediction_bands import OutlierTest
from nipde.measurements.bench import STRESS
from nipde.measurements.solid_file import SolidMeasurement
from nipde.report.files import SOLID_NAMES, check_folder, write_digests
from nipde.report.numbers import number, percent
from nipde.report.page.page import environment, text_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Points of the map along the longer side.
ALONG = 161
#: What is kept of the summary of a fit.
FIT = ("chi_square", "readings", "effective_dof", "noise", "undecided", "correlation")
#: What an alarm means, by the test that rings.
ALARMS = {
    "misfit": "the residuals are larger than the stated noise",
    "whiteness": "residuals of neighbouring points agree: errors of the camera are correlated, or the model is wrong",
    "pattern": "some points are off in the same way in all tests",
    "gain": "residuals are in proportion to the displacements: a load may be off",
    "offset": "all displacements of a test are off by one number: say that the camera may have moved",
    "tails": "single readings are far off: say that there may be outliers",
    "proportion": "residuals grow with the displacements",
}


class SolidResult(Protocol):
    """What is read of a fit."""

    @property
    def tests(self) -> SolidTests:
        """What was measured."""

    @property
    def summary(self) -> dict[str, Any]:
        """How it went."""

    @property
    def poisson(self) -> float:
        """ν."""

    @property
    def poisson_deviation(self) -> float:
        """Of ν."""

    @property
    def leaves_ratio_open(self) -> bool:
        """Whether ν is unknown, and the tests do not tell it."""

    @property
    def outlier_test(self) -> OutlierTest:
        """Of the residuals."""

    @property
    def residuals(self) -> Float[np.ndarray, "test component point"]:
        """Over their deviations."""

    def log_modulus_at(self, points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, " point"]:
        """log E."""

    def log_half_width_at(
        self, points: Float[np.ndarray, "point 2"], *, level: float = 0.9
    ) -> Float[np.ndarray, " point"]:
        """Of its band."""

    @property
    def uncalibrated(self) -> tuple[str, ...]:
        """Why bands are not calibrated; nothing where they are."""


@dataclass(frozen=True)
class Phase:
    """A material of one modulus, with the ends of its band, and its share of the area."""

    modulus: float
    low: float
    high: float
    share: float


@dataclass(frozen=True, eq=False)
class SolidDiscovery:
    """One specimen: what was measured, and what was found."""

    measurement: SolidMeasurement
    law: SolidResult
    level: float = 0.9

    @cached_property
    def axes(self) -> tuple[Float[np.ndarray, " x"], Float[np.ndarray, " y"]]:
        """Positions of the map."""
        low, high = np.array(self.law.tests.specimen.shape.region.bounds).reshape(2, 2)
        counts = np.maximum(9, np.round((ALONG - 1) * (high - low) / (high - low).max())).astype(int) + 1
        x, y = (np.linspace(a, b, n) for a, b, n in zip(low, high, counts, strict=True))
        return x, y

    @cached_property
    def inside(self) -> Bool[np.ndarray, "x y"]:
        """Where there is material."""
        grid = np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1)
        return self.law.tests.specimen.shape.covers(grid.reshape(-1, 2)).reshape(grid.shape[:2])

    @cached_property
    def fields(self) -> dict[str, Float[np.ndarray, "x y"]]:
        """E with both ends of its band, NaN outside."""
        points = np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1)[self.inside]
        log, width = self.law.log_modulus_at(points), self.law.log_half_width_at(points, level=self.level)
        found = {}
        for name, values in (("modulus", log), ("modulus_low", log - width), ("modulus_high", log + width)):
            found[name] = np.full(self.inside.shape, np.nan)
            found[name][self.inside] = np.exp(values)
        return found

    @property
    def _half(self) -> float:
        return float(norm.ppf((1 + self.level) / 2))

    @property
    def unit(self) -> str:
        """Of E; none of ratios."""
        return STRESS if self.law.tests.has_force else "1"

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """From soft to stiff; one of a homogeneous solid, none of a smooth one."""
        if not (self.law.summary["model"] == "homogeneous" or str(self.law.summary["model"]).endswith("phases")):
            return ()
        values, low, high = (self.fields[name][self.inside] for name in ("modulus", "modulus_low", "modulus_high"))
        found = []
        for log in np.unique(np.round(np.log(values), 6)):
            mine = np.flatnonzero(np.abs(np.log(values) - log) < 1e-5)
            surest = mine[np.argmin(high[mine] / low[mine])]  # far from interfaces: what is known of the level
            ends = float(low[surest]), float(high[surest])
            found.append(Phase(float(values[surest]), *ends, share=len(mine) / len(values)))
        return tuple(found)

    def statements(self) -> list[str]:
        """What was found, in sentences."""
        law, unit = self.law, "" if self.unit == "1" else f" {self.unit}"
        quantity = "Young's modulus" if law.tests.has_force else "Young's modulus over its mean"
        level = f"{100 * self.level:g} % band"
        if self.phases:
            each = [
                f"{modulus(one.modulus)}{unit} ({level} {modulus(one.low)} to {modulus(one.high)})"
                + (f" on {percent(one.share)} of the area" if len(self.phases) > 1 else "")
                for one in self.phases
            ]
            lines = [f"{quantity}: {'; '.join(each)}."]
        else:
            low, middle, high = np.quantile(self.fields["modulus"][self.inside], (0.01, 0.5, 0.99))
            ends = np.median(self.fields["modulus_high"][self.inside] / self.fields["modulus"][self.inside]) - 1
            lines = [
                f"{quantity}: {modulus(low)} to {modulus(high)}{unit}, median {modulus(middle)}{unit}; the {level} is "
                f"± {percent(float(ends))} of it in the median."
            ]
        if law.tests.poisson is None:
            half = self._half * law.poisson_deviation
            found = f"Poisson's ratio: {law.poisson:.3f} ± {half:.3f} ({level})"
            lines.append(
                f"{found}, as expected of most solids but rubber: these tests leave it open. So the band of the "
                "modulus is wide; state the ratio if it is known, or add a test in one direction."
                if law.leaves_ratio_open
                else f"{found}."
            )
        else:
            lines.append(f"Poisson's ratio: {law.poisson:g}, as stated.")
        return [lines[0], self.coverage(), *lines[1:], self.fit()]

    def coverage(self) -> str:
        """Whether bands are known to hold."""
        stated = "They hold what is stated of noise, supports and loads, and nothing else."
        if self.law.uncalibrated:
            return (
                f"Not calibrated ({'; '.join(self.law.uncalibrated)}): bands are those of the posterior, which were "
                f"often too narrow on simulated tests. {stated}"
            )
        if self.ringing:
            return f"Not covered (see the alarm): bands may be too narrow. {stated}"
        return (
            "Calibrated: on average over simulated tests of other specimens, bands of the modulus hold at least the "
            f"stated share. In a single specimen those of phases hold a level everywhere or miss it. {stated}"
        )

    def fit(self) -> str:
        """Residuals over the noise, and what rings."""
        law, ringing = self.law, self.ringing
        more = law.summary["correlation"]
        widened = f" Bands are widened by {more**0.5:.1f} for the correlation of the residuals." if more > 1 else ""
        chi = f"χ² per reading is {law.summary['chi_square']:.2f}"
        if law.tests.noise is None:
            noise = f"The noise was not stated: {law.summary['noise']:.2g} {self.measurement.length} by the residuals."
            return noise + (f" ALARM: {'; '.join(ringing)}.{widened}" if ringing else "")
        if ringing:
            return f"ALARM: {'; '.join(ringing)}. {chi}.{widened}"
        return f"The law explains the displacements within the stated noise: {chi}."

    @property
    def ringing(self) -> list[str]:
        """What tests of the residuals say."""
        test = self.law.outlier_test
        skipped = ("misfit",) if self.law.tests.noise is None else ()
        return [
            ALARMS[name] for name, score in test.scores.items()
            if float(score) > float(test.threshold) and name not in skipped
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Numbers for programs."""
        law, measurement = self.law, self.measurement
        half = self._half * law.poisson_deviation
        return {
            "version": 1, "kind": "plane solid", "nipde": version("nipde"),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            **({} if measurement.specimen_name is None else {"specimen": measurement.specimen_name}),
            **({} if measurement.date is None else {"measured_on": measurement.date}),
            "unit": self.unit, "length": measurement.length, "level": self.level, "model": law.summary["model"],
            "phases": [asdict(phase) for phase in self.phases],
            "poisson": {
                "value": law.poisson, "half_width": half, "stated": law.tests.poisson is not None,
                "open": law.leaves_ratio_open,
            },
            "fit": {name: law.summary[name] for name in FIT},
            "scores": {name: float(score) for name, score in law.outlier_test.scores.items()},
            "alarms": self.ringing, "statements": self.statements(),
            "notes": [str(note) for note in measurement.notes],
            "sources": [asdict(source) for source in measurement.sources],
        }  # fmt: skip

    def save(self, folder: str | Path) -> Path:
        """Write all files or none; an earlier result in this folder is replaced."""
        check_folder(folder, names=SOLID_NAMES)
        with atomic_folder(Path(folder).resolve()) as place:
            x, y = self.axes
            stored: dict[str, Any] = {"x": x, "y": y, **self.fields, "unit": self.unit}
            np.savez_compressed(place / "modulus.npz", **stored)
            with (place / "modulus.csv").open("w", newline="", encoding="utf-8") as file:
                rows = csv.writer(file)
                rows.writerow([f"x [{self.measurement.length}]", f"y [{self.measurement.length}]", *self.fields])
                for i, j in np.argwhere(self.inside):
                    rows.writerow([f"{value:.6g}" for value in (x[i], y[j], *(f[i, j] for f in self.fields.values()))])
            text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
            (place / "summary.json").write_text(text + "\n", encoding="utf-8")
            (place / "report.html").write_text(solid_page(self), encoding="utf-8")
            write_digests(place, SOLID_NAMES)
        return Path(folder)


def modulus(value: float) -> str:
    """Four digits: 210,400 of a metal, 0.1234 of a gel."""
    return f"{float(f'{value:.4g}'):,.0f}" if 1000 <= value < 1e7 else number(value, 4)


def solid_page(discovery: SolidDiscovery) -> str:
    """One page of HTML with nothing to fetch."""
    law, summary = discovery.law, discovery.to_dict()
    measurement = discovery.measurement
    facts = {
        "model": law.summary["model"], "tests": law.tests.count, "camera points": f"{len(law.tests.points):,}",
        "Poisson's ratio": "left open" if law.leaves_ratio_open else f"{law.poisson:.3f}",
        "χ² per reading": f"{law.summary['chi_square']:.2f}",
    }  # fmt: skip
    files = ", ".join(source.name for source in measurement.sources)
    return environment().get_template("solid.html.j2").render(
        title=measurement.specimen_name or files, files=files, date=measurement.date, time=summary["time"], facts=facts,
        statements=discovery.statements(), alarm=bool(discovery.ringing), notes=measurement.notes,
        maps=_embedded(material_figure(discovery)), residuals=_embedded(residual_figure(discovery)),
        sources=summary["sources"], version=summary["nipde"], style=text_of("page.css"),
    )  # fmt: skip


def material_figure(discovery: SolidDiscovery) -> Any:
    """E and the half width of its band, with outline, supports and loads."""
    figure, places = _panels(discovery, 2)
    values, width = discovery.fields["modulus"], discovery.fields["modulus_high"] / discovery.fields["modulus"] - 1
    unit = "" if discovery.unit == "1" else f" in {discovery.unit}"
    name = "Young's modulus" if discovery.law.tests.has_force else "Young's modulus over its mean"
    _draw(places[0], discovery, values, f"{name}{unit}", low=float(np.nanmin(values)))
    _draw(places[1], discovery, 100 * width, f"Half width of the {100 * discovery.level:g} % band in %", low=0.0)
    return figure


def residual_figure(discovery: SolidDiscovery) -> Any:
    """Residuals of the first test over their deviation: a pattern is an error of the model."""
    figure, places = _panels(discovery, 2)
    points, residuals = discovery.law.tests.points, discovery.law.residuals[0]
    for place, values, name in zip(places, residuals, ("x", "y"), strict=True):
        drawn = place.scatter(*points.T, c=values, s=9, cmap=_colours().vik, vmin=-4, vmax=4, linewidths=0)
        place.figure.colorbar(drawn, ax=place, shrink=0.8)
        place.set_title(f"Residual along {name} over its deviation", fontsize=11)
    return figure


def _panels(discovery: SolidDiscovery, count: int) -> tuple[Any, Any]:
    with needing("matplotlib", extra="report"):
        from matplotlib import pyplot
    x, y = discovery.axes
    shape = float(np.ptp(y) / np.ptp(x))
    rows = count if shape < 0.35 else 1  # long specimens above each other
    size = (9.5, float(np.clip(1.2 + 9.0 * shape, 2.6, 8.0)) * rows) if rows > 1 else (11.5, 1.6 + 4.6 * min(shape, 2))
    figure, places = pyplot.subplots(rows, count // rows, figsize=size, layout="constrained")
    for place in np.ravel(places):
        place.set(aspect="equal", xlabel=f"x in {discovery.measurement.length}")
        place.set_ylabel(f"y in {discovery.measurement.length}")
        for ring in discovery.law.tests.specimen.shape.rings:
            place.plot(*np.vstack([ring, ring[:1]]).T, color="#444444", linewidth=1.0)
    return figure, np.ravel(places)


def _draw(place: "Axes", discovery: SolidDiscovery, values: Float[np.ndarray, "x y"], name: str, *, low: float) -> None:
    x, y = discovery.axes
    drawn = place.pcolormesh(x, y, values.T, cmap=_colours().batlow, shading="nearest", vmin=low)
    place.figure.colorbar(drawn, ax=place, shrink=0.8)
    place.set_title(name, fontsize=11)


def _colours() -> Any:
    with needing("cmcrameri", extra="report"):
        from cmcrameri import cm
    return cm


def _embedded(figure: Any) -> str:
    from matplotlib import pyplot

    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    pyplot.close(figure)
    return base64.b64encode(buffer.getvalue()).decode()

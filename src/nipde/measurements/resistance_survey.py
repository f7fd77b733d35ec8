"""Four-point resistances R = (U_m - U_n) / I, I into electrode a and out of b; read from the unified data format.

On a body of uniform thickness whose electrodes span all of it, current flows in the plane, and a survey of the body and
one of the homogeneous body are `ElectrodeTests`. Current from the surface of the ground flows in three dimensions: such
a survey can be read, but not inverted here.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import shapely
from jaxtyping import Float, Int

from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.parts import Specimen, Terminal
from nipde.errors import MeasurementError, naming
from nipde.measurements.formats import TEXT, Contents, Format
from nipde.measurements.parse import parse_in_child
from nipde.measurements.sandbox import DEFAULT_LIMITS, Limits
from nipde.shape import Shape

_UNIFIED = Format("ohm", "nipde.measurements.formats.ohm", (".ohm", ".dat", ".shm"), TEXT)
#: Injections × readings; derivatives of all are held at once.
MOST = 20_000
#: Resistance of a contact over a usual one between electrodes, where no contact impedance is given.
NO_CONTACT = 1e-6
#: Share of the outline without an electrode, beyond which they may be those of a survey from the surface of the ground.
ONE_SIDE = 0.5


@dataclass(frozen=True, eq=False)
class ResistanceSurvey:
    """Electrodes and data; lengths in m, resistances in Ω."""

    positions: Float[np.ndarray, "electrode axis"]
    #: a, b, m and n of every datum, counted from 0; -1: infinitely far.
    electrodes: Int[np.ndarray, "datum 4"]
    resistances: Float[np.ndarray, " datum"]
    #: Standard deviations, NaN where none is stated.
    deviations: Float[np.ndarray, " datum"]
    sha256: str = ""

    @classmethod
    def read(cls, path: Path | str, *, limits: Limits = DEFAULT_LIMITS) -> Self:
        """A file in the unified data format (`.ohm`, `.dat`), parsed in a child process.

        Resistances are the column r, else u / i, else rhoa / k. Data with `valid` 0 are left out.
        """
        path = Path(path)
        digest, _, contents = parse_in_child(path, candidates=lambda _: [_UNIFIED], limits=limits)
        with naming(path.name):
            columns = contents.arrays
            resistances = _resistances(contents)
            errors = columns.get("err", np.full(len(resistances), np.nan))
            deviations = errors if contents.units.get("err") == "ohm" else errors * np.abs(resistances)
            electrodes = np.stack([columns[name] for name in "abmn"], axis=-1) - 1
            valid = columns.get("valid", np.ones(len(resistances))) != 0
            if not np.isfinite(columns["positions"]).all() or not np.isfinite(resistances[valid]).all():
                raise MeasurementError(
                    expected="finite positions and resistances", got="others",
                    remedy="leave out data that were not measured; see that no current or geometric factor is 0",
                )  # fmt: skip
            deviations = np.where(deviations > 0, deviations, np.nan)
            return cls(columns["positions"], electrodes[valid], resistances[valid], deviations[valid], digest)

    def tests(
        self, shape: Shape, reference: "ResistanceSurvey", *, width: float, thickness: float,
        impedance: float | None = None, noise: float | None = None,
    ) -> ElectrodeTests:  # fmt: skip
        """Of a body in the plane, with a survey of the homogeneous body; data that only one of them has are gaps.

        Positions are in the coordinates of the shape and lie on its outer ring. Electrodes have this width along it and
        span the whole `thickness` of the body: then σ is in S/m. `impedance` is that of contacts, in Ω·m²; none to
        speak of if not given. `noise` is the deviation of a difference of resistances, in Ω, if files state none.
        """
        for survey in (self, reference):
            pairs = survey.electrodes.reshape(-1, 2)
            if np.any(pairs < 0) or np.any(pairs[:, 0] == pairs[:, 1]):
                raise MeasurementError(
                    expected="two electrodes of the outline in every pair a b and m n",
                    got="one infinitely far (0), or the same twice", remedy="leave these data out",
                )  # fmt: skip
        specimen = self._specimen(shape, width=width, thickness=thickness, impedance=impedance)
        here, there = self.positions, reference.positions
        if here.shape != there.shape or np.abs(here - there).max() > width / 2:
            raise MeasurementError(
                "reference", expected=f"the same {len(here)} electrodes in the same places", got="others",
                remedy="measure the homogeneous body with the electrodes of the body",
            )  # fmt: skip
        injections, readings = (_distinct([self.electrodes[:, columns], reference.electrodes[:, columns]])
                                for columns in (slice(2), slice(2, None)))  # fmt: skip
        if len(injections) * len(readings) > MOST:
            raise MeasurementError(
                expected=f"at most {MOST:,} pairs of injection and reading",
                got=f"{len(injections)} injections × {len(readings)} readings", remedy="take a part of the survey",
            )  # fmt: skip
        body, empty = (one._by_injection(injections, readings) for one in (self, reference))
        deviation = np.hypot(body[1], empty[1])
        shared = np.isfinite(body[0]) & np.isfinite(empty[0])
        if noise is None and not np.isfinite(deviation[shared]).all():
            raise MeasurementError(
                "errors", expected="one > 0 for every datum of the body and of the reference", got="none for some",
                remedy="pass noise=, the deviation of a difference of resistances in Ω",
            )  # fmt: skip
        count = len(self.positions)
        currents, patterns = (_dipoles(pairs, count) for pairs in (injections, readings))
        return ElectrodeTests.from_arrays(
            specimen, currents / thickness, patterns, body[0], empty[0], noise=deviation if noise is None else noise
        )

    def _specimen(self, shape: Shape, *, width: float, thickness: float, impedance: float | None) -> Specimen:
        if not (0 < width < np.inf and 0 < thickness < np.inf):
            raise MeasurementError(expected="width and thickness > 0, in m", got=(width, thickness), remedy="give both")
        if impedance is None:
            impedance = NO_CONTACT * float(np.median(np.abs(self.resistances))) * width * thickness
        points = self._plane_positions()
        ring = shapely.LineString(shape.region.exterior)
        apart = shapely.distance(ring, shapely.points(points))
        if apart.max() > width / 2:
            raise MeasurementError(
                f"electrode {int(apart.argmax()) + 1}", expected="a position on the outline, to half its width",
                got=f"{apart.max():.3g} m from it", remedy="give shape and positions in m, from the same origin",
            )  # fmt: skip
        places = np.atleast_1d(shapely.line_locate_point(ring, shapely.points(points)))
        gaps = np.diff(np.sort(places), append=places.min() + ring.length)
        if gaps.min() <= width:
            raise MeasurementError(
                "width", expected=f"electrodes apart along the outline: less than {gaps.min():.3g} m", got=width,
                remedy="give the width of an electrode along the outline",
            )  # fmt: skip
        if gaps.max() > ONE_SIDE * ring.length:
            warnings.warn(
                "All electrodes are on one side of the outline. Results are right only if they span the thickness of a "
                "flat body; current from the surface of the ground flows in three dimensions.", stacklevel=3,
            )  # fmt: skip
        names = [f"electrode {number + 1}" for number in range(len(points))]
        for name, place in zip(names, places, strict=True):
            start = (place - width / 2) / ring.length % 1
            shape = shape.with_arc(name, start, start + width / ring.length)
        return Specimen(shape, {name: Terminal(impedance) for name in names})

    def _plane_positions(self) -> Float[np.ndarray, "electrode 2"]:
        """Without the axis along which all are the same."""
        points = self.positions
        if points.shape[1] == 3:
            same = np.flatnonzero(np.ptp(points, axis=0) <= 1e-9 * np.ptp(points, axis=0).max())
            if len(same) == 0:
                raise MeasurementError(
                    expected="electrodes in a plane", got="positions that differ along x, y and z",
                    remedy="current flows in three dimensions there: use pyGIMLi or ResIPy",
                )  # fmt: skip
            points = np.delete(points, 1 if 1 in same else same[0], axis=1)
        if points.shape[1] != 2:
            raise MeasurementError(expected="positions x z, or x y", got="x alone", remedy="add the other coordinate")
        return points

    def _by_injection(self, injections: np.ndarray, readings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Resistances and deviations (injection, reading), means of repeated data; NaN where there is none."""
        (first, one), (second, other) = _oriented(self.electrodes[:, :2]), _oriented(self.electrodes[:, 2:])
        rows, columns = _place_in(injections, first), _place_in(readings, second)
        found = []
        for values in (self.resistances * one * other, self.deviations):
            sums, counts = np.zeros((2, len(injections), len(readings)))
            np.add.at(sums, (rows, columns), values)
            np.add.at(counts, (rows, columns), 1)
            found.append(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))
        return found[0], found[1]


def _resistances(contents: Contents) -> Float[np.ndarray, " datum"]:
    columns = contents.arrays
    with np.errstate(divide="ignore", invalid="ignore"):
        if "r" in columns:
            return columns["r"]
        if "u" in columns and "i" in columns:
            return columns["u"] / columns["i"]
        if "rhoa" in columns and "k" in columns:
            return columns["rhoa"] / columns["k"]
    known = " ".join(name for name in columns if name not in ("positions", *"abmn"))
    raise MeasurementError(
        "columns of the data", expected="r, or u and i, or rhoa and k", got=known or "none of these",
        remedy="write resistances: an apparent resistivity means nothing without its geometric factor k",
    )  # fmt: skip


def _oriented(pairs: Int[np.ndarray, "datum 2"]) -> tuple[Int[np.ndarray, "datum 2"], Int[np.ndarray, " datum"]]:
    """The smaller electrode first, and -1 where that turns the sign."""
    return np.sort(pairs, axis=1), np.where(pairs[:, 0] <= pairs[:, 1], 1, -1)


def _distinct(pairs: Iterable[Int[np.ndarray, "datum 2"]]) -> Int[np.ndarray, "pair 2"]:
    return np.unique(np.concatenate([_oriented(one)[0] for one in pairs]), axis=0)


def _place_in(distinct: Int[np.ndarray, "pair 2"], pairs: Int[np.ndarray, "datum 2"]) -> Int[np.ndarray, " datum"]:
    places = {(first, second): place for place, (first, second) in enumerate(distinct.tolist())}
    return np.array([places[first, second] for first, second in pairs.tolist()], dtype=np.int64)


def _dipoles(pairs: Int[np.ndarray, "pair 2"], electrodes: int) -> Float[np.ndarray, "pair electrode"]:
    """1 at the first electrode, -1 at the second."""
    unit = np.eye(electrodes)
    return unit[pairs[:, 0]] - unit[pairs[:, 1]]

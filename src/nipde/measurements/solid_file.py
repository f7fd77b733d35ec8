"""Tests of a plane solid from files: displacements of image correlation, an outline, supports, forces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from nipde.context.solid_tests import SolidTests, Uncertain
from nipde.discretisation.parts import Specimen
from nipde.discretisation.solid_load import SolidLoad
from nipde.errors import MeasurementError, naming
from nipde.measurements.axes_of_file import with_axes_of
from nipde.measurements.bench import STRESS, Bench, conditions_of, loads_of, with_load_cell
from nipde.measurements.convert import convert
from nipde.measurements.description import Description
from nipde.measurements.locate import locate
from nipde.measurements.measurement import Note, Source, as_text, printable
from nipde.measurements.name import name_arrays
from nipde.measurements.outline import SMALL, STRAY
from nipde.measurements.outline_file import OutlineFile, read_outline
from nipde.measurements.parse import parse
from nipde.measurements.point_data import PointData
from nipde.measurements.read import identity
from nipde.measurements.units import amount, factor
from nipde.physics.plane_elasticity import Plane
from nipde.shape import Shape


@dataclass(frozen=True, eq=False)
class SolidMeasurement:
    """Tests in the unit of length of the first file, moduli in MPa; what was read, and how."""

    tests: SolidTests
    length: str
    sources: tuple[Source, ...]
    notes: tuple[Note, ...]
    specimen_name: str | None = None
    date: str | None = None

    def interpretation(self) -> str:
        """The notes as text, one per line, warnings marked."""
        return as_text(self.notes)


def read_solid(
    paths: Sequence[str | Path], bench: Bench, *, units: Mapping[str, str] | None = None,
    response: Sequence[str] = (), scale: str | None = None, outline: str | Path | None = None,
    poisson: float | None = None, plane: Plane = "stress", noise: str | float | None = None,
    uncertain: tuple[Uncertain, ...] = (), outline_layer: str | None = None, outline_pixel: str | None = None,
    specimen: str | None = None, date: str | None = None,
) -> SolidMeasurement:  # fmt: skip
    """Displacements of one or several tests, one file each or one file with all; points may differ between tests.

    `outline` is a file in the coordinates of the points, `outline_layer` its layer in a drawing, `outline_pixel` the
    size of a pixel of a picture; without an outline the specimen is the box around the points. `specimen` is its
    name and `date` the day of the measurement, such as `2026-11-03`, for the report.
    """
    if not paths:
        raise MeasurementError("read_solid", expected="at least one file", got="none", remedy="name the files")
    described = Description(
        units={"load": "1", **(units or {})}, response=tuple(response), scale=scale,
        outline=None if outline is None else str(outline), specimen=specimen, date=date,
    )  # fmt: skip
    data: list[PointData] = []
    notes, sources, length, scaled = list[Note](), list[Source](), None, np.ones(2)
    files = [parse(Path(path)) for path in paths]
    for raw in files:
        with naming(raw.path.name):
            if with_axes_of(raw, replace(described, outline=None))[0].dimension != 2:
                raise MeasurementError(
                    "solid", expected="displacements of points in a plane", got="three axes, x, y and z",
                    remedy="give the points of one plane: solids are plane so far",
                )  # fmt: skip
            named, on_names = name_arrays(raw, described, loads=False)
            located, on_places = locate(named, described)
            file, on_units = convert(named, located, described, target=None)
        if file.data[0].response.shape[1] != 2:
            raise MeasurementError(
                raw.path.name, expected="two displacements, along x and y", got=file.data[0].response.shape[1],
                remedy="name them, such as --response U,V",
            )  # fmt: skip
        if length is None:
            length, scaled = file.units.length, file.length
        size, moved = (factor(word, length, of="a length") for word in (file.units.length, file.units.response))
        for one in file.data:  # lost points have no place
            found = one.at(np.asarray(one.valid.any(axis=(0, 1))))
            data.append(PointData(found.points * size, found.response * moved, found.valid))
        notes += [
            replace(note, text=note.text.replace("loads as described; ", ""))
            for note in (*on_names, *on_places, *on_units)
        ]
        sources.append(Source(printable(raw.path.name), raw.format, raw.sha256))
    assert length is not None
    drawn = None if outline is None else read_outline(outline, layer=outline_layer, pixel=outline_pixel)
    shape, on_shape = _shape(drawn, data, scaled, length)
    conditions = conditions_of(bench, shape)
    points, readings, lost = _merged(data, shape)
    if lost:
        notes.append(Note("warning", f"{lost} points lie outside of the outline and were left out."))
    bench = with_load_cell(bench, files, units or {})
    loads = loads_of(bench, shape, len(readings), length)
    level = None if noise is None else amount(noise, unit=length, of="the noise")
    tests = SolidTests.from_arrays(
        Specimen(shape, conditions), loads, points, readings, noise=level, poisson=poisson, plane=plane,
        uncertain=uncertain,
    )  # fmt: skip
    notes += [*on_shape, *_notes(tests, bench, length)]
    return SolidMeasurement(
        tests, length, tuple(sources), (*identity(specimen, date), *notes), specimen_name=specimen, date=date
    )


def _shape(
    outline: OutlineFile | None, data: Sequence[PointData], scaled: Float[np.ndarray, " axis"], length: str
) -> tuple[Shape, list[Note]]:
    """From its file, in the coordinates of the first file of points, or the box around these."""
    points = np.concatenate([one.points for one in data])
    if outline is not None:
        shape = outline.shape.with_sides().transformed(scale=outline.scale(scaled, length))
        covered = np.ptp(points, axis=0) / np.ptp(shape.rings[0], axis=0)
        if np.all(covered < SMALL):
            raise MeasurementError(
                "points and outline do not match", expected="points all over the outline",
                got=f"points on {100 * float(covered.max()):.2g} % of its extent",
                remedy="give both in the same unit of length",
            )  # fmt: skip
        return shape, []
    low, high = points.min(axis=0), points.max(axis=0)
    text = (
        f"The specimen is taken as the box around the points, from ({low[0]:g}, {low[1]:g}) to ({high[0]:g}, "
        f"{high[1]:g}): give --outline if it has another shape or goes on."
    )
    return Shape.rectangle(*(high - low).tolist(), origin=tuple(low.tolist())), [Note("warning", text)]


def _merged(
    data: Sequence[PointData], shape: Shape
) -> tuple[Float[np.ndarray, "point 2"], Float[np.ndarray, "test component point"], int]:
    """All points of all tests, NaN where a test has none; how many lie outside."""
    places = np.concatenate([one.points for one in data])
    points, number = np.unique(np.round(places, 12), axis=0, return_inverse=True)
    tests = [(one, pair) for one in data for pair in range(len(one.response))]
    readings = np.full((len(tests), 2, len(points)), np.nan)
    starts = np.cumsum([0, *(len(one.points) for one in data)])
    start_of = {id(one): start for one, start in zip(data, starts, strict=False)}
    for test, (one, pair) in enumerate(tests):
        mine = number[start_of[id(one)] : start_of[id(one)] + len(one.points)]
        readings[test][:, mine] = np.where(one.valid[pair], one.response[pair], np.nan)
    inside = shape.covers(points)
    if np.mean(~inside) > STRAY:
        low, high = np.array(shape.region.bounds).reshape(2, 2).tolist()
        raise MeasurementError(
            "points and outline do not match", expected=f"points from {low} to {high}",
            got=f"{int(np.sum(~inside))} of {len(inside)} outside, from {points.min(0)} to {points.max(0)}",
            remedy="give both in the same unit and from the same origin",
        )  # fmt: skip
    kept = inside & np.isfinite(readings).any(axis=(0, 1))
    return points[kept], readings[:, :, kept], int(np.sum(~inside))


def _notes(tests: SolidTests, bench: Bench, length: str) -> list[Note]:
    """What was understood of the bench."""
    x, y = (float(np.ptp(tests.specimen.shape.rings[0][:, axis])) for axis in (0, 1))
    held = [f"{part} ({condition.name})" for part, condition in tests.specimen.conditions.items()]
    gaps = 100 * float(np.mean(np.isnan(tests.readings)))
    noise = "not stated" if tests.noise is None else f"{float(tests.noise):.3g} {length}"
    ratio = "to be found" if tests.poisson is None else f"{tests.poisson:g}"
    texts = [
        f"Specimen: {x:g} × {y:g} {length}; points: {len(tests.points):,}; tests: {tests.count}; gaps: {gaps:.2g} %.",
        f"Held: {', '.join(held) or 'nothing'}; other parts are free.",
        *(f"Test {number}: {_load_words(load, length)}." for number, load in enumerate(tests.loads, start=1)),
        f"Plane {tests.plane}, Poisson's ratio {ratio}; noise of the displacements {noise}.",
    ]  # fmt: skip
    notes = [Note("reading", text) for text in texts]
    if not tests.has_force:
        notes.append(Note("warning", "No force is known: moduli are ratios to their mean."))
    if not held and "motion" not in tests.uncertain:
        notes.append(Note("warning", "Nothing holds the specimen: say --uncertain [motion], so that it may move."))
    return notes


def _load_words(load: SolidLoad, length: str) -> str:
    words = [f"traction ({x:.4g}, {y:.4g}) {STRESS} on {part}" for part, (x, y) in _numbers(load.tractions)]
    words += [
        f"force ({x:.4g}, {y:.4g}) {STRESS}·{length} per thickness on {part}" for part, (x, y) in _numbers(load.forces)
    ]
    words += [f"displacement ({x:.4g}, {y:.4g}) {length} of {part}" for part, (x, y) in _numbers(load.displacements)]
    return " and ".join(words)


def _numbers(loads: Mapping[str, object]) -> list[tuple[str, tuple[float, float]]]:
    return [(part, value) for part, value in loads.items() if isinstance(value, tuple)]

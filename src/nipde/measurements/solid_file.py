"""Tests of a plane solid from files: displacements of image correlation, an outline, supports, forces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import shapely
from jaxtyping import Float

from nipde.context.solid_tests import SolidTests, Uncertain
from nipde.discretisation.parts import ClampedPart, Condition, GripPart, RollerPart, Specimen
from nipde.discretisation.solid_load import SolidLoad
from nipde.errors import MeasurementError, meant, naming
from nipde.measurements.convert import convert
from nipde.measurements.description import Description
from nipde.measurements.locate import locate
from nipde.measurements.measurement import Note, Source, as_text, printable
from nipde.measurements.name import name_arrays
from nipde.measurements.outline import SMALL, STRAY
from nipde.measurements.parse import parse
from nipde.measurements.point_data import PointData
from nipde.measurements.units import amount, factor
from nipde.physics.plane_elasticity import Plane
from nipde.shape import Shape

#: Unit of moduli and tractions; of forces and of the thickness where a number comes without one.
STRESS, FORCE = "MPa", "N"
#: Parts are as far from the outline's box as this, in shares of its size: the side of a step of the normal.
STEP = 1e-4


@dataclass(frozen=True)
class Bench:
    """How the specimen was held and loaded; numbers are text such as `1200 N`, vectors `0 N : 300 N`.

    One number is along the outward normal of its part: tension is positive. `forces` and `tractions` have one entry per
    test, or one for all.
    """

    clamped: tuple[str, ...] = ()
    #: Direction in which the part cannot move: x or y.
    rollers: Mapping[str, str] | None = None
    forces: tuple[Mapping[str, str], ...] = ()
    tractions: tuple[Mapping[str, str], ...] = ()
    #: Grips that may turn; others with a force do not.
    rotating: tuple[str, ...] = ()
    thickness: str | None = None
    #: Given displacements of parts, as vectors or along the outward normal.
    displacements: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, eq=False)
class SolidMeasurement:
    """Tests in the unit of length of the first file, moduli in MPa; what was read, and how."""

    tests: SolidTests
    length: str
    sources: tuple[Source, ...]
    notes: tuple[Note, ...]

    def interpretation(self) -> str:
        """The notes as text, one per line, warnings marked."""
        return as_text(self.notes)


def read_solid(
    paths: Sequence[str | Path], bench: Bench, *, units: Mapping[str, str] | None = None,
    response: Sequence[str] = (), scale: str | None = None, outline: str | Path | None = None,
    poisson: float | None = None, plane: Plane = "stress", noise: str | float | None = None,
    uncertain: tuple[Uncertain, ...] = (),
) -> SolidMeasurement:  # fmt: skip
    """Displacements of one or several tests, one file each or one file with all; points may differ between tests.

    `outline` is a file in the coordinates of the points; without it the specimen is the box around them.
    """
    if not paths:
        raise MeasurementError("read_solid", expected="at least one file", got="none", remedy="name the files")
    described = Description(
        units={"load": "1", **(units or {})}, response=tuple(response), scale=scale,
        outline=None if outline is None else str(outline),
    )  # fmt: skip
    data: list[PointData] = []
    notes, sources, length, scaled = list[Note](), list[Source](), None, np.ones(2)
    for path in paths:
        raw = parse(Path(path))
        with naming(raw.path.name):
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
    shape, on_shape = _shape(outline, data, scaled)
    conditions = _conditions(bench, shape)
    points, readings, lost = _merged(data, shape)
    if lost:
        notes.append(Note("warning", f"{lost} points lie outside of the outline and were left out."))
    loads = _loads(bench, shape, len(readings), length)
    level = None if noise is None else amount(noise, unit=length, of="the noise")
    tests = SolidTests.from_arrays(
        Specimen(shape, conditions), loads, points, readings, noise=level, poisson=poisson, plane=plane,
        uncertain=uncertain,
    )  # fmt: skip
    notes += [*on_shape, *_notes(tests, bench, length)]
    return SolidMeasurement(tests, length, tuple(sources), tuple(notes))


def _shape(
    outline: str | Path | None, data: Sequence[PointData], scaled: Float[np.ndarray, " axis"]
) -> tuple[Shape, list[Note]]:
    """From its file, in the coordinates of the first file of points, or the box around these."""
    points = np.concatenate([one.points for one in data])
    if outline is not None:
        shape = Shape.read(outline).with_sides().transformed(scale=tuple(scaled.tolist()))
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


def _conditions(bench: Bench, shape: Shape) -> dict[str, Condition]:
    moved = {part for each in bench.displacements for part in each}
    forced = {part for each in bench.forces for part in each}
    kinds = [*bench.clamped, *(bench.rollers or {}), *forced, *(moved - {*bench.clamped, *(bench.rollers or {})})]
    kinds += {part for each in bench.tractions for part in each}
    if twice := sorted(part for part in set(kinds) if kinds.count(part) > 1):
        raise MeasurementError(
            f"part {twice[0]!r}", expected="one condition for every part", got="two of them",
            remedy="say that it is clamped, rests on a roller, or bears a force or a traction",
        )  # fmt: skip
    if lost := sorted(set(bench.rotating) - forced):
        raise MeasurementError(
            f"grip {lost[0]!r}", expected="a part with a force, as it may turn", got="none",
            remedy=meant(lost[0], sorted(forced), otherwise="give its force"),
        )  # fmt: skip
    conditions: dict[str, Condition] = dict.fromkeys((*bench.clamped, *moved), ClampedPart())
    for part, direction in (bench.rollers or {}).items():
        if direction not in ("x", "y"):
            raise MeasurementError(
                f"roller on {part!r}", expected="x or y, along which it cannot move", got=repr(direction),
                remedy=f"write --roller {part}=x",
            )  # fmt: skip
        conditions[part] = RollerPart("x" if direction == "x" else "y")
    for each in bench.forces:
        for part in each:
            conditions[part] = GripPart(rotates=part in bench.rotating)
    for part in (*conditions, *(part for each in bench.tractions for part in each)):
        if part not in shape.parts:
            raise MeasurementError(
                f"part {part!r}", expected=f"one of {', '.join(shape.parts)}", got="no such part of the outline",
                remedy=meant(part, shape.parts, otherwise="draw it in the outline as a line with a property name"),
            )  # fmt: skip
    return conditions


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


def _loads(bench: Bench, shape: Shape, tests: int, length: str) -> list[SolidLoad]:
    """One per test."""
    forces, tractions, displacements = (
        each * tests if len(each) == 1 else each or ({},) * tests
        for each in (bench.forces, bench.tractions, bench.displacements)
    )
    for name, each in (("forces", forces), ("tractions", tractions), ("displacements", displacements)):
        if len(each) != tests:
            raise MeasurementError(
                name, expected=f"one entry, or {tests}, one per test", got=len(each),
                remedy="separate those of several tests by a semicolon",
            )  # fmt: skip
    if bench.forces and bench.thickness is None:
        raise MeasurementError(
            "thickness", expected="that of the specimen, as a force is given", got="none",
            remedy="give --thickness, such as '2 mm', or the traction instead",
        )  # fmt: skip
    per_thickness = 1.0
    if bench.thickness is not None:
        thick = amount(bench.thickness, unit=length, of="the thickness")
        if not 0 < thick < np.inf:
            raise MeasurementError(
                "thickness", expected="a number > 0", got=f"{thick:g} {length}", remedy="measure the specimen"
            )
        per_thickness = factor(f"{FORCE}/({length}*{length})", STRESS, of="a force") / thick
    loads = [
        SolidLoad(
            tractions={part: _vector(text, STRESS, shape, part) for part, text in on_tractions.items()},
            forces={part: _times(_vector(text, FORCE, shape, part), per_thickness) for part, text in on_forces.items()},
            displacements={part: _vector(text, length, shape, part) for part, text in on_displacements.items()},
        )
        for on_forces, on_tractions, on_displacements in zip(forces, tractions, displacements, strict=True)
    ]
    for number, load in enumerate(loads, start=1):
        values = [*load.tractions.values(), *load.forces.values(), *load.displacements.values()]
        if not np.any(np.abs(np.array(values, dtype=float)) > 0):
            raise MeasurementError(
                f"load of test {number}", expected="a force, a traction or a displacement", got="none other than 0",
                remedy="say what acted, such as --force right='1200 N' or --displacement right='0.1 mm'",
            )  # fmt: skip
    return loads


def _times(vector: tuple[float, float], factor: float) -> tuple[float, float]:
    return vector[0] * factor, vector[1] * factor


def _vector(text: str, unit: str, shape: Shape, part: str) -> tuple[float, float]:
    """`120 N` along the outward normal, or `120 N : 30 N` along x and y."""
    first, colon, second = str(text).partition(":")
    if colon:
        return tuple(amount(one.strip(), unit=unit, of=f"load on {part!r}") for one in (first, second))  # type: ignore[return-value]
    size = amount(first.strip(), unit=unit, of=f"load on {part!r}")
    return _times(outward_normal(shape, part), size)


def outward_normal(shape: Shape, part: str) -> tuple[float, float]:
    """Of a part that is nearly straight: the mean over its length."""
    total = np.zeros(2)
    for ring, sides in zip(shape.rings, shape.sides, strict=True):
        mine = np.array([side == part for side in sides])
        along = (np.roll(ring, -1, axis=0) - ring)[mine]
        middles = ring[mine] + along / 2
        normals = np.stack([along[:, 1], -along[:, 0]], axis=-1)
        lengths = np.linalg.norm(normals, axis=1, keepdims=True)
        ahead = middles + STEP * shape.scale * normals / np.maximum(lengths, 1e-300)
        inward = shapely.contains_xy(shape.region, *ahead.T)
        total += np.where(inward[:, None], -normals, normals).sum(axis=0)
    length = float(shapely.length(shape.parts[part]))
    if np.linalg.norm(total) < 0.9 * length:
        raise MeasurementError(
            f"load on {part!r}", expected="two numbers, along x and y, on a part that is not straight",
            got="one number", remedy="write 120 N : 0 N",
        )  # fmt: skip
    unit = total / np.linalg.norm(total)
    return float(unit[0]), float(unit[1])


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

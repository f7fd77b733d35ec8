"""How a plane solid was held and loaded, in words: supports and loads by part, forces from a column of a load cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import shapely

from nipde.discretisation.parts import ClampedPart, Condition, GripPart, RollerPart
from nipde.discretisation.solid_load import SolidLoad
from nipde.errors import MeasurementError, meant
from nipde.measurements.parse import Raw
from nipde.measurements.units import amount, factor
from nipde.shape import Shape

#: Unit of moduli and tractions; of forces and of the thickness where a number comes without one.
STRESS, FORCE = "MPa", "N"
#: Parts are as far from the outline's box as this, in shares of its size: the side of a step of the normal.
STEP = 1e-4
#: A force is one number if it varies by less than this share within a test.
VARIES = 0.01


@dataclass(frozen=True)
class Bench:
    """How the specimen was held and loaded; numbers are text such as `1200 N`, vectors `0 N : 300 N`.

    One number is along the outward normal of its part: tension is positive. A force may be the name of a column of the
    files, such as that of a load cell. `forces` and `tractions` have one entry per
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


def conditions_of(bench: Bench, shape: Shape) -> dict[str, Condition]:
    """Of every part that has one."""
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


def with_load_cell(bench: Bench, files: Sequence[Raw], units: Mapping[str, str]) -> Bench:
    """Forces that name a column of the files, one test each: its median, in the unit that is stated of it."""
    named = {text for each in bench.forces for text in each.values() if any(text in one.arrays for one in files)}
    if not named:
        return bench
    forces = bench.forces * len(files) if len(bench.forces) == 1 else bench.forces
    if len(forces) != len(files):
        raise MeasurementError(
            "forces", expected=f"one entry, or {len(files)}, one per file", got=len(forces),
            remedy="store one test per file where the force is a column",
        )  # fmt: skip
    read = [
        {part: _column(text, file, units) if text in named else text for part, text in each.items()}
        for each, file in zip(forces, files, strict=True)
    ]
    return replace(bench, forces=tuple(read))


def _column(name: str, file: Raw, units: Mapping[str, str]) -> str:
    """Number and unit of a force that is the same in all rows."""
    if name not in file.arrays:
        raise MeasurementError(
            file.path.name, expected=f"a column {name!r} with the force", got=", ".join(file.arrays),
            remedy=meant(name, file.arrays, otherwise="give the force as a number"),
        )  # fmt: skip
    values = np.asarray(file.arrays[name], dtype=float)
    values = values[np.isfinite(values)]
    if not len(values) or np.ptp(values) > VARIES * abs(np.median(values)):
        got = f"{values.min():g} to {values.max():g}" if len(values) else "no number"
        raise MeasurementError(
            f"column {name!r} of {file.path.name}", expected="one force, within 1 %, in all rows of a test", got=got,
            remedy="store one picture per file, or give the force as a number",
        )  # fmt: skip
    unit = units.get(name, file.units.get(name))
    if unit is None:
        raise MeasurementError(
            f"column {name!r} of {file.path.name}", expected="its unit", got="none, and units are not guessed",
            remedy=f"give --units {name}=N",
        )  # fmt: skip
    return f"{float(np.median(values))} {unit}"


def loads_of(bench: Bench, shape: Shape, tests: int, length: str) -> list[SolidLoad]:
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

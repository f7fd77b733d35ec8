"""The outline of a specimen: its file, the condition of every part, and what acts on parts in all tests."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import shapely
from jaxtyping import Float

from nipde.boundary import Boundary
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import Condition, DirichletPart, NeumannPart, RobinPart, Specimen
from nipde.errors import MeasurementError, meant
from nipde.grid import Axis, Grid
from nipde.measurements.measurement import Note, Source, printable
from nipde.measurements.outline_file import read_outline
from nipde.measurements.point_data import PointData
from nipde.measurements.units import Units, amount
from nipde.prism import ENDS, Prism
from nipde.shape import ON, Shape

#: Spacings along the root of the area or volume, by number of axes, of a grid for scattered points.
ALONG = {2: 30, 3: 14}
#: Points outside of the outline are left out; more than this share of them are a mistake.
STRAY = 0.2
#: Share of the outline's extent that the points cover; less along both axes is a mistake.
SMALL = 0.05
Kind = Literal["dirichlet", "neumann", "robin"]


@dataclass(frozen=True)
class PartDescription:
    """Condition of one part, and its data in all tests: a value, a flux, or the value of the surroundings."""

    kind: Kind
    data: float | str = 0.0
    #: Of a Robin part: flux per difference to the surroundings.
    coefficient: float | str = 0.0

    @classmethod
    def from_toml(cls, value: Any) -> "PartDescription":
        """`"dirichlet"`, `{ dirichlet = 2.0 }`, `{ flux = 3.0 }` or `{ robin = 12.0, value = 20.0 }`."""
        if value in ("dirichlet", "neumann"):
            return cls(value)
        if isinstance(value, Mapping) and all(_is_amount(one) for one in value.values()):
            match sorted(value):
                case ["dirichlet"]:
                    return cls("dirichlet", value["dirichlet"])
                case ["flux"]:
                    return cls("neumann", value["flux"])
                case ["robin"] | ["robin", "value"]:
                    return cls("robin", value.get("value", 0.0), value["robin"])
        raise MeasurementError(
            "condition of a part", expected='"dirichlet", "neumann", { dirichlet = 2.0 }, { flux = 3.0 } or '
            "{ robin = 12.0, value = 20.0 }", got=repr(value)[:200], remedy="write it below [parts]",
        )  # fmt: skip

    def condition(self, units: Units) -> Condition:
        """Of the specimen, in the units of the measurement."""
        if self.kind == "dirichlet":
            return DirichletPart()
        if self.kind == "neumann":
            return NeumannPart()
        return RobinPart(amount(self.coefficient, unit=units.contact, of="coefficient of a Robin part"))


@dataclass(frozen=True, eq=False)
class Outline:
    """In the coordinates and units of the measurement."""

    source: Source
    shape: Shape
    parts: Mapping[str, PartDescription]
    #: Unit of its coordinates that the file states.
    unit: str | None = None

    @property
    def name(self) -> str:
        """Of its file."""
        return self.source.name

    @classmethod
    def read(
        cls, path: str, parts: Mapping[str, PartDescription], *, length: Float[np.ndarray, " axis"], unit: str,
        layer: str | None = None, pixel: str | None = None, heights: Sequence[float] = (),
    ) -> Self:  # fmt: skip
        """From a file; sides along the box are left, right, bottom and top.

        `length` converts its coordinates if it does not state their unit, `unit` is what they are converted to. Over
        three axes it is the outline at all `heights` from the first to the second, in the unit of the coordinates.
        """
        name = Path(path).name
        file = read_outline(path, layer=layer, pixel=pixel)
        shape = file.shape.with_sides().transformed(scale=file.scale(length[:2], unit))
        if len(heights) != 2 * (len(length) - 2):
            raise MeasurementError(
                f"heights of {name}", expected="the two ends along z" if len(length) == 3 else "none: a plane specimen",
                got=list(heights), remedy="write outline_heights = [0, 0.12] or --outline-heights 0,0.12"
                if len(length) == 3 else "leave them out",
            )  # fmt: skip
        if len(length) == 3:
            low, high = (float(height * length[2]) for height in heights)
            shape = Prism.over(shape, low=low, high=high)
        for part in parts:
            if part not in shape.parts:
                raise MeasurementError(
                    f"part {part!r}", expected=f"one of {', '.join(shape.parts)}", got="no such part of the outline",
                    remedy=meant(part, shape.parts, otherwise=f"draw it in {name} as a line with a property name"),
                )  # fmt: skip
        if not any(one.kind in ("dirichlet", "robin") for one in parts.values()):
            some = next(iter(shape.parts))
            raise MeasurementError(
                name, expected="a part whose value is given", got="none: responses are known up to a constant only",
                remedy=f"say which of {', '.join(shape.parts)} is held, such as --dirichlet {some}=0",
            )  # fmt: skip
        return cls(Source(printable(name), "outline", file.sha256), shape, parts, file.unit)

    def within(self, data: Sequence[PointData]) -> tuple[list[PointData], list[Note]]:
        """Points inside or on the outline, and others with a load alone; a few are left out with a warning."""
        inside = [self.shape.covers(one.points) | ~one.valid.any(axis=(0, 1)) for one in data]
        count, stray = sum(map(len, inside)), int(sum(np.sum(~one) for one in inside))
        lost = {tuple(point) for one, held in zip(data, inside, strict=True) for point in one.points[~held].tolist()}
        if stray > STRAY * count:
            points = np.concatenate([one.points for one in data])
            ends = [np.round(place, 6).tolist() for place in (points.min(0), points.max(0))]
            low, high = np.round(self._ends, 6).tolist()
            raise MeasurementError(
                f"points and {self.name} do not match", expected=f"points from {low} to {high}",
                got=f"{stray} of {count} outside, from {ends[0]} to {ends[1]}",
                remedy="give both in the same unit and from the same origin",
            )  # fmt: skip
        covered = np.ptp(np.concatenate([one.points for one in data]), axis=0) / np.ptp(self._ends, axis=0)
        if np.all(covered < SMALL):
            raise MeasurementError(
                f"points and {self.name} do not match", expected="points all over the outline",
                got=f"points on {100 * float(covered.max()):.2g} % of its extent",
                remedy="give both in the same unit of length; leave out an outline of something larger",
            )  # fmt: skip
        text = f"{len(lost)} points lie outside of the outline and were left out."
        kept = [one if held.all() else one.at(held) for one, held in zip(data, inside, strict=True)]
        notes = [Note("warning", text, (self.name,))] if stray else []
        free = [name for name in self.shape.parts if getattr(self.parts.get(name), "kind", "neumann") != "dirichlet"]
        loaded = np.concatenate([one.points for one in kept if one.load is not None] or [np.zeros((0, len(covered)))])
        if len(loaded) and free and self.shape.covers(loaded).all():
            near = f"{', '.join(free[:3])}{' and others' if len(free) > 3 else ''}"
            text = (
                f"Loads are known inside only: along {near} they are continued to the outline. If they vary from point "
                "to point, state them beyond it, too: rows with an empty response."
            )
            notes.append(Note("warning" if not self._to_the_outline(loaded, free) else "reading", text, (self.name,)))
        return kept, notes

    @property
    def _ends(self) -> Float[np.ndarray, "2 axis"]:
        """Of the box around it."""
        ends = np.array(self.shape.region.bounds).reshape(2, 2)
        heights = [[self.shape.low], [self.shape.high]] if isinstance(self.shape, Prism) else np.zeros((2, 0))
        return np.hstack([ends, heights])

    def _to_the_outline(self, points: Float[np.ndarray, "point axis"], parts: Sequence[str]) -> bool:
        """Whether points lie on straight parts, a spacing apart or closer, and all parts are straight; in the plane."""
        if isinstance(self.shape, Prism):
            return False
        lines = shapely.union_all([self.shape.parts[name] for name in parts])
        on = shapely.dwithin(lines, shapely.points(points), ON * self.shape.scale)
        spacing = np.sqrt(self.shape.region.area / max(len(points), 1))
        return bool(lines.length <= 2.5 * spacing * max(int(np.sum(on)), 1))

    def grid_around(
        self, *, first: Sequence[float] | None, spacing: Sequence[float] | None, nodes: tuple[int, ...] | None,
        boundaries: tuple[Boundary, ...],
    ) -> tuple[Grid, tuple[float, ...]]:  # fmt: skip
        """Half a spacing or more larger than the shape on every side: that of a lattice, or of so many nodes."""
        low, high = self._ends
        extent = high - low
        corner, steps = low, extent / np.round(extent * ALONG[len(extent)] / self.shape.scale)
        if nodes is not None:
            steps = extent / (np.array(nodes) - 1)
        elif first is not None and spacing is not None:
            corner, steps = np.array(first), np.array(spacing)
        axes, origin = [], []
        for place in range(len(extent)):
            below = ceil(max(0.0, (corner[place] - low[place]) / steps[place] + 0.5 - 1e-6))
            start = corner[place] - below * steps[place]
            count = ceil((high[place] - start) / steps[place] + 0.5 - 1e-6)
            axes.append(Axis(count + 1, count * float(steps[place]), boundaries[place]))
            origin.append(float(start))
        return Grid(tuple(axes)), tuple(origin)

    def specimen(self, *, origin: tuple[float, ...], units: Units) -> Specimen:
        """Measured from the first node."""
        moved = self.shape.transformed(shift=tuple(-one for one in origin))
        return Specimen(moved, {name: one.condition(units) for name, one in self.parts.items()})

    def in_all_tests(self, units: Units) -> LoadCase:
        """What acts on parts in every test."""
        amounts = {
            name: amount(
                one.data, unit=units.total(1) if one.kind == "neumann" else units.response, of=f"data of {name}"
            )
            for name, one in self.parts.items()
        }
        fluxes = {name: size for name, size in amounts.items() if self.parts[name].kind == "neumann"}
        return LoadCase(values={name: size for name, size in amounts.items() if name not in fluxes}, fluxes=fluxes)

    def notes(
        self, grid: Grid, *, origin: tuple[float, ...], units: Units, described: Collection[str] = ()
    ) -> list[Note]:
        """What was understood: area, nodes, and the condition of every part; loads on some are `described`."""
        specimen, case = self.specimen(origin=origin, units=units), self.in_all_tests(units)
        length = "" if units.length == "1" else f" {units.length}"
        inside, holes = specimen.shape.holds_nodes(grid), len(self.shape.rings) - 1
        area = f"{self.shape.region.area:.4g}{length}{'^2' if length else ''}"
        texts = [f"Coordinates of the outline are in {self.unit}."] if self.unit else []
        heights = " to ".join(f"{end:.4g}" for end in self._ends[:, 2:].ravel())
        ends = f", z from {heights}{length}" if heights else ""
        texts += [f"Outline: area {area}, {holes} holes{ends}; {inside.sum()} of {inside.size} nodes lie inside."]
        texts += [
            f"Part {part!r}, {'an end' if part in ENDS else f'{line.length:.4g}{length} long'}: "
            + _words(specimen.condition(part), part, case)
            + (", and what is described for each test." if part in described else ".")
            for part, line in self.shape.parts.items()
        ]
        return [Note("reading", text, (self.name,)) for text in texts]


def _words(condition: Condition, part: str, case: LoadCase) -> str:
    if isinstance(condition, RobinPart):
        return f"Robin, flux {condition.coefficient:.4g} × (surroundings - u), surroundings {case.values[part]:.4g}"
    if isinstance(condition, DirichletPart):
        return f"Dirichlet, u = {case.values[part]:.4g}"
    return f"Neumann, flux {case.fluxes.get(part, 0.0):.4g}"


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float | str) and not isinstance(value, bool)

"""Loads that nobody stored as a field: f(x) from a shape and an amount, with ∫ f dx as stated.

A total Q at a place, or along a side, becomes a field by shares φ of the nodes, Σ φ = 1: f = Q φ / w with the weights
w of the grid, so that Σ w f = Q exactly.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from nipde.discretisation.load_case import Function, LoadCase
from nipde.errors import MeasurementError, meant
from nipde.grid import AXES, Grid
from nipde.measurements.measurement import Note
from nipde.measurements.units import Units, amount
from nipde.shape import Shape as Outline

#: Of described loads, over all nodes.
MOST_VALUES = 100_000_000
#: Side -> axis, and which end of it.
SIDES = {"left": (0, 0), "right": (0, -1), "bottom": (1, 0), "top": (1, -1), "back": (2, 0), "front": (2, -1)}


@dataclass(frozen=True)
class Shape(ABC):
    """One kind of load; amounts are numbers in the measurement's units, or text with a unit of its own."""

    kind: ClassVar[str]
    #: Whether it acts on a part of the outline instead of inside.
    on_outline: ClassVar[bool] = False

    @abstractmethod
    def field(self, grid: Grid, *, origin: tuple[float, ...], units: Units) -> Float[np.ndarray, "*space"]:
        """The load at the nodes; positions are in the coordinates of the files."""


@dataclass(frozen=True)
class Constant(Shape):
    """The same everywhere."""

    kind = "constant"
    amplitude: float | str = 1.0

    def field(self, grid: Grid, *, origin: tuple[float, ...], units: Units) -> np.ndarray:
        """f = amplitude."""
        return np.full(grid.shape, amount(self.amplitude, unit=units.load, of="amplitude"))


@dataclass(frozen=True)
class Gaussian(Shape):
    """A bump."""

    kind = "gaussian"
    centre: tuple[float, ...]
    width: float
    amplitude: float | str = 1.0

    def field(self, grid: Grid, *, origin: tuple[float, ...], units: Units) -> np.ndarray:
        """f = amplitude · exp(-|x - centre|² / 2 width²)."""
        _check_inside(self.centre, grid, origin, of="centre of the gaussian load", margin=np.inf)
        if not self.width > 0:
            raise MeasurementError("gaussian load", expected="a width > 0", got=self.width, remedy="give its width")
        places = zip(grid.coordinates, origin, self.centre, strict=True)
        squared = sum((x + first - centre) ** 2 for x, first, centre in places)
        height = amount(self.amplitude, unit=units.load, of="amplitude")
        return height * np.exp(-squared / (2 * self.width**2))


@dataclass(frozen=True)
class Sine(Shape):
    """Half waves along every axis."""

    kind = "sine"
    waves: tuple[float, ...]
    amplitude: float | str = 1.0

    def field(self, grid: Grid, *, origin: tuple[float, ...], units: Units) -> np.ndarray:
        """f = amplitude · Π sin(π k x / L), x from the first node."""
        if len(self.waves) != grid.dimension:
            raise MeasurementError(
                "sine load", expected=f"{grid.dimension} waves", got=list(self.waves), remedy="one for each axis"
            )
        height = amount(self.amplitude, unit=units.load, of="amplitude")
        along = zip(grid.axes, grid.coordinates, self.waves, strict=True)
        factors = [np.sin(np.pi * k * x / axis.length) for axis, x, k in along]
        return height * np.prod(factors, axis=0)


@dataclass(frozen=True)
class Point(Shape):
    """A well, a pin, a lamp: a total at one place, shared among the nodes around it."""

    kind = "point"
    position: tuple[float, ...]
    total: float | str = 1.0

    def field(self, grid: Grid, *, origin: tuple[float, ...], units: Units) -> np.ndarray:
        """f = total · φ / w, φ multilinear."""
        _check_inside(self.position, grid, origin, of="position of the point load")
        shares = np.ones(grid.shape)
        for place, (axis, first, x) in enumerate(zip(grid.axes, origin, self.position, strict=True)):
            distance = np.abs(axis.coordinates - (x - first)) / axis.spacing
            if axis.boundary.periodic:
                distance = np.minimum(distance, axis.nodes - distance)
            if axis.boundary.essential and min(distance[0], distance[-1]) < 1e-9:
                raise _on_dirichlet_side(f"point load at {self.position}", AXES[place])
            # A well at a node is in that node, rounding or not.
            shares = shares * grid.along(place, np.where(distance < 1 - 1e-9, 1.0 - distance, 0.0))
        total = amount(self.total, unit=units.total(grid.dimension), of="total of the point load")
        return total * (shares / shares.sum()) / grid.weights


@dataclass(frozen=True)
class Side(Shape):
    """A force, or a flow, through one side, distributed uniformly along it."""

    kind = "side"
    side: str
    total: float | str | None = None
    #: Per length of the side (per area of a face), instead of the total.
    traction: float | str | None = None

    def field(self, grid: Grid, *, origin: tuple[float, ...], units: Units) -> np.ndarray:
        """f = total · φ / w, φ the share of a node in the side."""
        known = [name for name, (axis, _) in SIDES.items() if axis < grid.dimension]
        if self.side not in known:
            raise MeasurementError(
                "load on a side", expected=f"one of {', '.join(known)}", got=repr(self.side),
                remedy="left and right are the ends of x, bottom and top those of y, back and front those of z",
            )  # fmt: skip
        place, end = SIDES[self.side]
        boundary = grid.axes[place].boundary
        if boundary.essential:
            raise _on_dirichlet_side(f"load on side {self.side!r}", AXES[place])
        if boundary.periodic:
            raise MeasurementError(
                f"load on side {self.side!r}", expected="an axis that ends", got="a periodic one",
                remedy=f'give boundary = "neumann" for axis {AXES[place]}',
            )  # fmt: skip
        shares = np.zeros(grid.shape)
        here = tuple(end if axis == place else slice(None) for axis in range(grid.dimension))
        shares[here] = grid.weights[here]
        return self._total(grid, place, units) * (shares / shares.sum()) / grid.weights

    def _total(self, grid: Grid, place: int, units: Units) -> float:
        if self.total is not None and self.traction is not None:
            raise MeasurementError("load on a side", expected="total or traction", got="both", remedy="leave one out")
        if self.traction is None:
            total = 1.0 if self.total is None else self.total
            return amount(total, unit=units.total(grid.dimension), of="total of the load on a side")
        extent = float(np.prod([axis.length for other, axis in enumerate(grid.axes) if other != place]))
        return extent * amount(self.traction, unit=units.total(1), of="traction of the load on a side")


@dataclass(frozen=True)
class OnPart(Shape):
    """On a part of the outline: a number along it, and how it changes along the axes from the first position on."""

    on_outline = True
    part: str
    #: Per unit of x and y, and of z over three axes.
    slope: tuple[float, ...] = ()

    def field(self, grid: Grid, *, origin: tuple[float, ...], units: Units) -> np.ndarray:
        """Nothing acts inside."""
        return np.zeros(grid.shape)

    @abstractmethod
    def size(self, units: Units) -> float:
        """At the origin of the coordinates."""

    def plane(self, *, origin: tuple[float, ...], units: Units) -> Float[np.ndarray, " coefficient"]:
        """c, a, b of c + a x + b y, x and y from the first node; with z over three axes."""
        names = AXES[: len(origin)]
        if len(self.slope) not in (0, len(names)):
            raise MeasurementError(
                f"{self.kind} on {self.part!r}", expected=f"{len(names)} slopes, along {', '.join(names)}",
                got=list(self.slope), remedy="leave slope out where it is the same along the part",
            )  # fmt: skip
        slope = np.array(self.slope or (0.0,) * len(origin))
        return np.array([self.size(units) + slope @ np.array(origin), *slope])


@dataclass(frozen=True)
class Flux(OnPart):
    """A flux into the specimen, per length of the part."""

    kind = "flux"
    flux: float | str = 1.0

    def size(self, units: Units) -> float:
        """In load · length."""
        return amount(self.flux, unit=units.total(1), of=f"flux on {self.part!r}")


@dataclass(frozen=True)
class Value(OnPart):
    """A given response on a Dirichlet part, or that of the surroundings of a Robin part."""

    kind = "value"
    value: float | str = 1.0

    def size(self, units: Units) -> float:
        """In units of the response."""
        return amount(self.value, unit=units.response, of=f"value on {self.part!r}")


KINDS: dict[str, type[Shape]] = {
    shape.kind: shape for shape in (Constant, Gaussian, Sine, Point, Side, Flux, Value)
}  # fmt: skip


@dataclass(frozen=True)
class LoadTerm:
    """One described load: of the pair of this number, or in the amount that a column of the table of amounts says."""

    shape: Shape
    pair: int
    amount: str | None = None


def described_loads(
    terms: tuple[LoadTerm, ...],
    grid: Grid,
    *,
    origin: tuple[float, ...],
    units: Units,
    amounts: Mapping[str, np.ndarray] | None = None,
) -> tuple[Float[np.ndarray, "pair 1 *space"], list[Note]]:
    """Sums of the terms, pair by pair; with a table of amounts its rows are the pairs."""
    if len(terms) * grid.weights.size > MOST_VALUES:
        raise MeasurementError(
            "described loads", expected=f"at most {MOST_VALUES:,} values in all",
            got=f"{len(terms):,} loads on {grid.weights.size:,} nodes",
            remedy="use a coarser grid, or fewer loads with a table of amounts",
        )  # fmt: skip
    fields = np.stack([term.shape.field(grid, origin=origin, units=units) for term in terms])
    shares = pair_shares(terms, amounts)
    kinds = [term.shape.kind for term in terms]
    listed = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    return np.tensordot(shares, fields, axes=1)[:, None], [Note("reading", f"Loads are described: {listed}.")]


def pair_shares(
    terms: tuple[LoadTerm, ...], amounts: Mapping[str, np.ndarray] | None
) -> Float[np.ndarray, "pair term"]:
    """How much of every term acts in every pair."""
    if amounts is None:
        numbers = [term.pair for term in terms]
        lacking = next((pair for pair in range(1, max(numbers)) if pair not in numbers), None)
        if lacking is not None:
            raise MeasurementError(
                "described loads", expected=f"a load of pair {lacking}", got="none",
                remedy=f"add one with pair = {lacking}",
            )  # fmt: skip
        return (np.arange(1, max(numbers) + 1)[:, None] == numbers).astype(float)
    return np.stack([_amounts(term, amounts) for term in terms], axis=1)


def cases_on_outline(
    terms: tuple[LoadTerm, ...], always: LoadCase, *, pairs: int, origin: tuple[float, ...], units: Units,
    amounts: Mapping[str, np.ndarray] | None = None,
) -> tuple[LoadCase, ...]:  # fmt: skip
    """What acts on the outline in every pair: in all of them, and as described for each."""
    own = [(number, term.shape) for number, term in enumerate(terms) if isinstance(term.shape, OnPart)]
    shares = pair_shares(terms, amounts) if own else np.zeros((pairs, 0))
    cases = []
    for share in shares:
        planes = {
            kind: {part: np.array([value, *(0.0,) * len(origin)]) for part, value in given.items()}
            for kind, given in (("value", always.values), ("flux", always.fluxes))
        }
        for number, shape in own:
            of_kind = planes[shape.kind]
            plane = share[number] * shape.plane(origin=origin, units=units)
            of_kind[shape.part] = of_kind.get(shape.part, 0.0) + plane
        values, fluxes = (
            {part: _linear(plane) for part, plane in each.items() if plane.any()} for each in planes.values()
        )
        cases.append(LoadCase(values=values, fluxes=fluxes))
    return tuple(cases)


def check_point_loads(terms: tuple[LoadTerm, ...], shape: Outline) -> None:
    """Raise unless points lie inside of the outline; sides are parts of it."""
    for term in terms:
        if isinstance(term.shape, Side):
            raise MeasurementError(
                f"load on side {term.shape.side!r}", expected="a part of the outline", got="a side of the box",
                remedy=f'write kind = "flux" and part = "{term.shape.side}"',
            )  # fmt: skip
        if isinstance(term.shape, Point) and not shape.contains(np.array([term.shape.position]))[0]:
            raise MeasurementError(
                "position of the point load", expected="a place inside of the outline", got=list(term.shape.position),
                remedy="give it in the unit and origin of the coordinates",
            )  # fmt: skip


def _linear(plane: Float[np.ndarray, " coefficient"]) -> float | Function:
    """A number, or a function of the coordinates."""
    constant, *slope = plane.tolist()
    if not any(slope):
        return constant
    return lambda *at: constant + sum(a * x for a, x in zip(slope, at, strict=True))


def _amounts(term: LoadTerm, table: Mapping[str, np.ndarray]) -> Float[np.ndarray, " pair"]:
    """How much of a load acted in each pair."""
    name = str(term.amount)
    if name not in table:
        raise MeasurementError(
            "amounts of the described loads", expected=f"a column {term.amount!r}", got=f"columns {', '.join(table)}",
            remedy=meant(name, table, otherwise='name it in each load: amount = "rate_1"'),
        )  # fmt: skip
    column = np.asarray(table[name], dtype=float)
    if not np.isfinite(column).all():
        row = int(np.flatnonzero(~np.isfinite(column))[0]) + 1
        raise MeasurementError(
            f"amounts of the described loads, column {name!r}", expected="numbers in every row",
            got=f"none in row {row}", remedy="write 0 where a load did not act",
        )  # fmt: skip
    return column


def _check_inside(
    position: tuple[float, ...], grid: Grid, origin: tuple[float, ...], *, of: str, margin: float = 1e-9
) -> None:
    if len(position) != grid.dimension:
        raise MeasurementError(
            of, expected=f"{grid.dimension} numbers", got=list(position), remedy="give one for each axis"
        )
    for axis, first, x, name in zip(grid.axes, origin, position, AXES, strict=False):
        if not -margin * axis.length <= x - first <= (1 + margin) * axis.length:
            raise MeasurementError(
                of, expected=f"{name} from {first:g} to {first + axis.length:g}", got=f"{x:g}",
                remedy="give it in the unit and origin of the coordinates",
            )  # fmt: skip


def _on_dirichlet_side(what: str, axis: str) -> MeasurementError:
    return MeasurementError(
        what, expected="a place where the response is free",
        got=f"a Dirichlet boundary, where it is 0 (axis {axis})",
        remedy=f'such a load has no effect: give boundary = "neumann" for axis {axis}, or place it inside',
    )  # fmt: skip

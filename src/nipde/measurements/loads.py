"""Loads that nobody stored as a field: f(x) from a shape and an amount, with ∫ f dx as stated.

A total Q at a place, or along a side, becomes a field by shares φ of the nodes, Σ φ = 1: f = Q φ / w with the weights
w of the grid, so that Σ w f = Q exactly.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from nipde.errors import MeasurementError
from nipde.grid import AXES, Grid
from nipde.measurements.units import Units, amount

#: Side -> axis, and which end of it.
SIDES = {"left": (0, 0), "right": (0, -1), "bottom": (1, 0), "top": (1, -1), "back": (2, 0), "front": (2, -1)}


@dataclass(frozen=True)
class Shape(ABC):
    """One kind of load; amounts are numbers in the measurement's units, or text with a unit of its own."""

    kind: ClassVar[str]

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
            if axis.boundary.clamped and min(distance[0], distance[-1]) < 1e-9:
                raise _on_clamped_side(f"point load at {self.position}", AXES[place])
            # A well at a node is in that node, rounding or not.
            shares = shares * grid.along(place, np.where(distance < 1 - 1e-9, 1.0 - distance, 0.0))
        total = amount(self.total, unit=units.total(grid.dimension), of="total of the point load")
        return total * (shares / shares.sum()) / grid.weights


@dataclass(frozen=True)
class Side(Shape):
    """A force, or a flow, through one side, spread evenly along it."""

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
                remedy="left and right are the ends of x, bottom and top those of y",
            )  # fmt: skip
        place, end = SIDES[self.side]
        boundary = grid.axes[place].boundary
        if boundary.clamped:
            raise _on_clamped_side(f"load on side {self.side!r}", AXES[place])
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


KINDS: dict[str, type[Shape]] = {shape.kind: shape for shape in (Constant, Gaussian, Sine, Point, Side)}


@dataclass(frozen=True)
class LoadTerm:
    """One described load: of the pair of this number, or in the amount that a column of the table of amounts says."""

    shape: Shape
    pair: int
    amount: str | None = None


def load_term(table: object, *, number: int) -> LoadTerm:
    """From one `[[loads]]` table of a description, the `number`th."""
    if not isinstance(table, Mapping) or table.get("kind") not in KINDS:
        got = table.get("kind") if isinstance(table, Mapping) else table
        near = get_close_matches(str(got), KINDS, n=1, cutoff=0.4)
        raise MeasurementError(
            f"load {number}", expected=f"kind = one of {', '.join(KINDS)}", got=repr(got),
            remedy=f"did you mean {near[0]!r}?" if near else "choose one of them",
        )  # fmt: skip
    kind = KINDS[table["kind"]]
    wanted = {one.name: one.default is MISSING for one in fields(kind)}
    for key in table:
        if key not in {*wanted, "kind", "pair", "amount"}:
            near = get_close_matches(key, wanted, n=1, cutoff=0.4)
            raise MeasurementError(
                f"load {number} of kind {kind.kind}", expected=f"keys {', '.join(wanted)}", got=repr(key),
                remedy=f"did you mean {near[0]!r}?" if near else "leave it out",
            )  # fmt: skip
    lacking = [name for name, needed in wanted.items() if needed and name not in table]
    if lacking:
        raise MeasurementError(
            f"load {number} of kind {kind.kind}", expected=f"a value of {lacking[0]}", got="none",
            remedy=f"add the key {lacking[0]}",
        )  # fmt: skip
    values = {name: _value(table[name], name, number) for name in wanted if name in table}
    pair, column = table.get("pair", number), table.get("amount")
    if not isinstance(pair, int) or pair < 1:
        raise MeasurementError(
            f"load {number}", expected="pair = a whole number from 1", got=repr(pair), remedy="number the pairs"
        )
    return LoadTerm(kind(**values), pair, column)


def described_loads(
    terms: tuple[LoadTerm, ...],
    grid: Grid,
    *,
    origin: tuple[float, ...],
    units: Units,
    amounts: Mapping[str, np.ndarray] | None = None,
) -> Float[np.ndarray, "pair 1 *space"]:
    """Sums of the terms, pair by pair; with a table of amounts its rows are the pairs."""
    if amounts is None:
        pairs = range(1, max(term.pair for term in terms) + 1)
        for pair in pairs:
            if all(term.pair != pair for term in terms):
                raise MeasurementError(
                    "described loads",
                    expected=f"a load of pair {pair}",
                    got="none",
                    remedy=f"add one with pair = {pair}",
                )
        parts = [[t.shape.field(grid, origin=origin, units=units) for t in terms if t.pair == p] for p in pairs]
        return np.stack([np.sum(part, axis=0) for part in parts])[:, None]
    for term in terms:
        if term.amount not in amounts:
            near = get_close_matches(str(term.amount), list(amounts), n=1, cutoff=0.3)
            raise MeasurementError(
                "amounts of the described loads", expected=f"a column {term.amount!r}",
                got=f"columns {', '.join(amounts)}",
                remedy=f"did you mean {near[0]!r}?" if near else 'name it in each load: amount = "rate_1"',
            )  # fmt: skip
        bad = np.flatnonzero(~np.isfinite(amounts[str(term.amount)]))
        if len(bad):
            raise MeasurementError(
                f"amounts of the described loads, column {term.amount!r}", expected="numbers in every row",
                got=f"none in row {bad[0] + 1}", remedy="write 0 where a load did not act",
            )  # fmt: skip
    rows = len(next(iter(amounts.values())))
    unit = [term.shape.field(grid, origin=origin, units=units) for term in terms]
    columns = [np.asarray(amounts[str(term.amount)], dtype=float) for term in terms]
    loads = sum(np.multiply.outer(column, field) for column, field in zip(columns, unit, strict=True))
    return np.asarray(loads).reshape(rows, 1, *grid.shape)


def _value(value: object, name: str, number: int) -> Any:
    items = value if isinstance(value, list) else [value]
    text = name in {"amplitude", "total", "traction", "side"}
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int | float | str) or (isinstance(item, str) and not text):
            raise MeasurementError(
                f"load {number}", expected=f"a number as {name}", got=repr(item), remedy="write it as a number"
            )
    return tuple(map(float, value)) if isinstance(value, list) else value


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


def _on_clamped_side(what: str, axis: str) -> MeasurementError:
    return MeasurementError(
        what, expected="a place where the response is free",
        got=f"a side where it is held at 0 (axis {axis} is dirichlet)",
        remedy=f'what is held does not feel it: give boundary = "neumann" for axis {axis}, or place it inside',
    )  # fmt: skip

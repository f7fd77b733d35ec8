"""How fields are drawn: a line in 1D, a map in 2D, the middle slice in 3D; node i is the centre of cell i."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from nipde.errors import needing
from nipde.grid import AXES
from nipde.measurements.measurement import Measurement
from nipde.report.numbers import number, unit_text
from nipde.report.page.colours import LAST, Colours
from nipde.report.page.scale import Scale

#: Room for ticks and names of axes, in the unit of the drawing: left, right, top, bottom.
MARGINS = (58.0, 14.0, 12.0, 40.0)
#: A domain longer than this is drawn compressed.
LONGEST = 2.5
#: Where an image of all nodes lies in its frame.
WHOLE = "left:0;top:0;width:100%;height:100%"


@dataclass(frozen=True)
class Plot:
    """A frame in a drawing, and the ticks along it."""

    width: float
    height: float
    left: float
    top: float
    across: float
    up: float
    #: Position in the drawing and text; those of y stay empty in 1D, where the scale gives them.
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]

    @property
    def box(self) -> str:
        """Place of the frame as CSS, in shares of the drawing."""
        wide, high = self.width, self.height
        return css(left=self.left / wide, top=self.top / high, width=self.across / wide, height=self.up / high)


@dataclass(frozen=True)
class View:
    """How the fields of a measurement are shown."""

    measurement: Measurement

    @property
    def length_unit(self) -> str:
        """Unit of x and y."""
        return self.measurement.units.length

    @property
    def dimension(self) -> int:
        """1 for lines, 2 for maps."""
        return min(2, self.measurement.pairs.grid.dimension)

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes that are shown, per axis."""
        return self.measurement.pairs.grid.shape[: self.dimension]

    @cached_property
    def coordinates(self) -> tuple[Float[ndarray, " node"], ...]:
        """Of all axes, as in the files."""
        return tuple(self.measurement.positions.values())

    @cached_property
    def digits(self) -> list[int]:
        """Digits that tell neighbouring nodes apart, per axis."""
        return [max(3, math.ceil(math.log10(abs(axis).max() / (axis[1] - axis[0]))) + 2) for axis in self.coordinates]

    @property
    def remark(self) -> str:
        """A remark on slices and unequal scales."""
        parts = []
        if len(self.coordinates) == 3:
            middle = self.coordinates[2][len(self.coordinates[2]) // 2]
            parts.append(
                f"Maps show the middle slice, z = {number(middle, self.digits[2])}{unit_text(self.length_unit)}."
            )
        if self.dimension == 2 and self._ratio() != self._drawn_ratio():
            parts.append("The domain is so long that x and y are drawn to different scales.")
        return " ".join(parts)

    def shown(self, fields: Any) -> ndarray:
        """The part of `(*lead, *space)` that is drawn."""
        array = np.asarray(fields)
        return array[..., array.shape[-1] // 2] if len(self.coordinates) == 3 else array

    def inside(self, fields: Float[ndarray, "*lead_space"], places: Sequence[range] = ()) -> ndarray:
        """Fields at all nodes, or at those of some places along both axes; NaN outside of a specimen."""
        specimen, grid = self.measurement.specimen, self.measurement.pairs.grid
        if specimen is None:
            return fields
        held = specimen.shape.holds_nodes(grid)
        return np.where(held[np.ix_(*places)] if places else held, fields, np.nan)

    def plot(self, width: float = 360.0) -> Plot:
        """A frame for fields, in a drawing of this width; small ones have no ticks."""
        small = width < 300
        left, right, top, bottom = (2.0, 2.0, 2.0, 2.0) if small else MARGINS
        across, ratio = width - left - right, self._drawn_ratio() if self.dimension == 2 else 0.6
        up = min(across * ratio, 1.15 * across)
        narrow = up / ratio
        left += (across - narrow) / 2
        x_ticks, y_ticks = [], []
        if not small:
            x_ticks = [(left + share * narrow, text) for share, text in self._ticks(0)]
        if not small and self.dimension == 2:
            y_ticks = [(top + (1 - share) * up, text) for share, text in self._ticks(1)]
        return Plot(width, top + up + bottom, left, top, narrow, up, x_ticks, y_ticks)

    def position(self, plot: Plot, node: tuple[int, ...], height: float = 0.0) -> tuple[float, float]:
        """Where a node is drawn; `height` from 0 to 1 is that of the line in 1D."""
        shares = [(index + 0.5) / count for index, count in zip(node, self.shape, strict=False)]
        up = shares[1] if self.dimension == 2 else height
        return round(plot.left + shares[0] * plot.across, 1), round(plot.top + (1 - up) * plot.up, 1)

    def points(self, plot: Plot, points: Float[ndarray, "point axis"]) -> tuple[tuple[float, float], ...]:
        """Where points, measured from the first node, are drawn in 2D."""
        axes = zip(self.coordinates, self._lengths(), points.T, strict=True)
        across, up = ((place + length / len(axis) / 2) / length for axis, length, place in axes)
        x, y = plot.left + across * plot.across, plot.top + (1 - up) * plot.up
        return tuple((round(float(a), 1), round(float(b), 1)) for a, b in zip(x, y, strict=True))

    def outline(self, plot: Plot) -> str:
        """An SVG path along the outline of a specimen; empty if it fills the box."""
        if self.measurement.specimen is None or self.dimension != 2:
            return ""
        rings = [self.points(plot, thinned(ring)) for ring in self.measurement.specimen.shape.rings]
        return "".join("M" + "L".join(f"{x} {y}" for x, y in ring) + "z" for ring in rings)

    def cells(self, plot: Plot, mask: Bool[ndarray, "*shown"]) -> str:
        """An SVG path around the nodes of a mask, runs along x in one piece."""
        rows = mask[:, None] if self.dimension == 1 else mask
        wide, high = plot.across / rows.shape[0], plot.up / rows.shape[1]
        pieces = []
        for j, row in enumerate(rows.T):
            edges = np.flatnonzero(np.diff(row.astype(int), prepend=0, append=0)).reshape(-1, 2)
            for first, last in edges:
                start = f"M{plot.left + first * wide:.1f} {plot.top + plot.up - (j + 1) * high:.1f}"
                pieces.append(f"{start}h{(last - first) * wide:.1f}v{high:.1f}h{-(last - first) * wide:.1f}z")
        return "".join(pieces)

    def where(self, node: tuple[int, ...]) -> str:
        """Coordinates of a node as text."""
        axes = zip(AXES, self.coordinates, self.digits, node, strict=False)
        parts = [f"{name} = {number(axis[i], digits)}" for name, axis, digits, i in axes]
        return ", ".join(parts) + unit_text(self.length_unit)

    def to_json(self) -> dict[str, object]:
        """For the script."""
        plot = self.plot()
        return {
            "dimension": self.dimension, "shape": self.shape, "unit": unit_text(self.length_unit),
            "digits": self.digits, "frame": [plot.left, plot.top, plot.across, plot.up],
            "coordinates": [[float(f"{x:.9g}") for x in axis] for axis in self.coordinates[: self.dimension]],
        }  # fmt: skip

    def _lengths(self) -> list[float]:
        """With half a cell at both ends."""
        return [float(len(axis) * (axis[1] - axis[0])) for axis in self.coordinates]

    def _ratio(self) -> float:
        return self._lengths()[1] / self._lengths()[0]

    def _drawn_ratio(self) -> float:
        return min(max(self._ratio(), 1 / LONGEST), LONGEST)

    def _ticks(self, axis: int) -> list[tuple[float, str]]:
        places, length = self.coordinates[axis], self._lengths()[axis]
        start = places[0] - length / len(places) / 2
        return [
            ((tick - start) / length, number(tick, self.digits[axis])) for tick in ticks_between(places[0], places[-1])
        ]


@dataclass(frozen=True, eq=False)
class Figure:
    """Several fields, of which one is shown; the script may change which."""

    view: View
    colours: Colours
    name: str
    title: str
    quantity: str
    unit: str
    shown: int = 0
    width: float = 360.0
    caption: str = ""
    #: Words for the ends of the scale, instead of numbers.
    ends: tuple[str, str] | None = None
    marker: tuple[float, float] | None = None
    hatched: str = ""
    hatched_means: str = ""
    #: An SVG path filled behind the line, in 1D.
    area: str = ""
    #: Whether the selected point is shown here.
    follows: bool = False
    #: Colours with a meaning of their own, instead of a scale.
    swatches: tuple[tuple[str, str], ...] = ()
    #: How the colours were chosen, where not from the smallest to the largest value.
    scale: Scale | None = None
    #: Where sensors are, in the drawing; the caption names them.
    sensors: tuple[tuple[float, float], ...] = ()
    #: Whether the selected point stays hidden until it is moved.
    quiet: bool = False
    #: First node and distance of nodes per axis, where not all are drawn.
    first: tuple[int, ...] = (0, 0)
    step: tuple[int, ...] = (1, 1)

    @property
    def plot(self) -> Plot:
        """Its frame."""
        return self.view.plot(self.width)

    @property
    def small(self) -> bool:
        """Too small for ticks."""
        return self.width < 300

    @property
    def blank(self) -> bool:
        """Whether there is no value at all."""
        return bool((self.colours.codes[self.shown] > LAST).all())

    @property
    def low(self) -> str:
        """The low end of the scale."""
        return number(float(self.colours.low[self.shown]))

    @property
    def high(self) -> str:
        """The high end of the scale."""
        return number(float(self.colours.high[self.shown]))

    @property
    def middle(self) -> str:
        """The middle of the scale."""
        low, high = float(self.colours.low[self.shown]), float(self.colours.high[self.shown])
        return number(math.sqrt(low * high) if self.colours.log else (low + high) / 2)

    @property
    def signs(self) -> tuple[str, str]:
        """Before the ends of the scale, where values lie beyond them."""
        below, above = (False, False) if self.scale is None else self.scale.beyond
        return "≤ " if below else "", "≥ " if above else ""

    @property
    def scale_name(self) -> str:
        """Quantity and unit for the colour bar, with how the colours were chosen."""
        remark = "" if self.scale is None else self.scale.remark
        return f"{self.quantity}{unit_text(self.unit, ' in ')}{remark and ', '}{remark}"

    @property
    def image(self) -> str:
        """The map as a data address."""
        return self.colours.png(self.shown)

    @property
    def image_box(self) -> str:
        """Where the map lies in its frame, as CSS."""
        if max(self.step) == 1:
            return WHOLE
        sides = zip(self.first, self.step, self.view.shape, self.colours.codes.shape[1:], strict=True)
        (left, width), (bottom, height) = (((first + (1 - step) / 2) / n, m * step / n) for first, step, n, m in sides)
        return css(left=left, bottom=bottom, width=width, height=height)

    @property
    def line(self) -> str:
        """The field as an SVG path, in 1D."""
        return line(self.view, self.plot, self.colours.shares[self.shown], self.first[0], self.step[0])

    @property
    def alt(self) -> str:
        """Text alternative."""
        kind = "Line" if self.view.dimension == 1 else "Map"
        if self.blank:
            return f"{self.title}: no values. {self.caption}"
        if self.swatches:
            return f"{kind}: {self.title}. {'; '.join(text for _, text in self.swatches)}."
        scale = f"{self.quantity} from {self.low} to {self.high}{unit_text(self.unit)}"
        if self.scale is not None and self.scale.remark:
            scale += f", {self.scale.remark}"
        return f"{kind}: {self.title}. {scale}. {self.caption}".strip()


def line(view: View, plot: Plot, shares: Float[ndarray, " node"], first: int = 0, step: int = 1) -> str:
    """A path through shares of the frame's height, broken where there is no value."""
    pieces, pen = [], "M"
    for index, share in enumerate(shares):
        if np.isnan(share):
            pen = "M"
            continue
        x, y = view.position(plot, (first + step * index,), float(share))
        pieces.append(f"{pen}{x} {y}")
        pen = "L"
    return "".join(pieces)


def thinned(ring: Float[ndarray, "point axis"]) -> Float[ndarray, "point axis"]:
    """Without vertices that no drawing shows."""
    import shapely

    size = float(np.ptp(ring, axis=0).max())
    return np.asarray(shapely.get_coordinates(shapely.simplify(shapely.linearrings(ring), 1e-3 * size)))[:-1]


def ticks_between(low: float, high: float, count: int = 5) -> list[float]:
    """At most `count` intervals between round numbers; one tick where both ends are the same."""
    with needing("matplotlib", extra="report"):
        from matplotlib.ticker import MaxNLocator
    if not high > low:
        return [low]
    margin = 1e-6 * (high - low)
    values = MaxNLocator(nbins=count, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return [float(value) for value in values if low - margin <= value <= high + margin]


def rounded(values: Any) -> list[float | None]:
    """Five digits for JSON, which has no NaN."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in np.asarray(values, float).flat]


def css(**shares: float) -> str:
    """Lengths in percent."""
    return ";".join(f"{name}:{100 * share:.4f}%" for name, share in shares.items())

"""How fields are drawn: a line in 1D, a map in 2D, three planes in 3D; node i is the centre of cell i."""

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
from nipde.report.page.planes import PLANES, Panel, Ticks, node_of, unfolded

#: Room for ticks and names of axes, in the unit of the drawing: left, right, top, bottom.
MARGINS = (58.0, 14.0, 12.0, 40.0)
#: Between planes of a box: room for their names, and in small figures.
GAP, SMALL_GAP = 34.0, 5.0
#: Half the width of a letter in the drawing.
HALF_LETTER = 3.6
#: Nodes of a box up to which a page holds all of its planes.
WHOLE_BOX = 30_000
#: A domain longer than this is drawn compressed.
LONGEST = 2.5


@dataclass(frozen=True)
class Plot:
    """A frame in a drawing, and the ticks along it; of a view, the panels in it."""

    width: float
    height: float
    left: float
    top: float
    across: float
    up: float
    #: Position in the drawing and text; those of y stay empty in 1D, where the scale gives them.
    x_ticks: Ticks
    y_ticks: Ticks
    panels: tuple[Panel, ...] = ()

    def box(self, panel: Panel) -> str:
        """Place of a panel as CSS, in shares of the drawing."""
        wide, high = self.width, self.height
        return css(left=panel.left / wide, top=panel.top / high, width=panel.across / wide, height=panel.up / high)


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
    def spatial(self) -> bool:
        """Whether maps show planes of a box."""
        return len(self.coordinates) == 3

    @property
    def whole(self) -> bool:
        """Whether the page holds all planes of a box."""
        return self.spatial and self.measurement.pairs.grid.size <= WHOLE_BOX

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array that is shown."""
        nodes = self.measurement.pairs.grid.shape
        return (nodes[0] + nodes[2], nodes[1] + nodes[2]) if self.spatial else nodes

    @property
    def middle(self) -> tuple[int, ...]:
        """The middle node, which planes go through."""
        return tuple(nodes // 2 for nodes in self.measurement.pairs.grid.shape)

    @property
    def axes(self) -> str:
        """Their names."""
        return ", ".join(AXES[: len(self.coordinates)])

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
        if self.spatial:
            parts.append(f"Maps show the planes through the middle of the box, {self.where(self.middle)}.")
        if self.dimension == 2 and self._lengths() != self._drawn_lengths():
            parts.append("The domain is so long that its axes are drawn to different scales.")
        return " ".join(parts)

    def shown(self, fields: Any) -> ndarray:
        """The part of `(*lead, *space)` that is drawn."""
        return unfolded(fields, self.middle) if self.spatial else np.asarray(fields)

    def shown_at_peak(self, field: Float[ndarray, "*space"]) -> ndarray:
        """The part of one field that is drawn where planes go through its largest value."""
        return unfolded(self.inside(field), peak(field)) if self.spatial else self.inside(field)

    def node(self, place: tuple[int, ...]) -> tuple[int, ...]:
        """The node of the grid at a place of what is shown."""
        return node_of(place, self.measurement.pairs.grid.shape, self.middle) if self.spatial else place

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
        if self.spatial:
            return self._planes(width, (left, right, top if small else 30.0, bottom), SMALL_GAP if small else GAP)
        lengths = self._drawn_lengths()
        across, ratio = width - left - right, lengths[1] / lengths[0] if self.dimension == 2 else 0.6
        up = min(across * ratio, 1.15 * across)
        narrow = up / ratio
        left += (across - narrow) / 2
        x_ticks, y_ticks = [], []
        if not small:
            x_ticks = [(left + share * narrow, text) for share, text in self._ticks(0)]
        if not small and self.dimension == 2:
            y_ticks = [(top + (1 - share) * up, text) for share, text in self._ticks(1)]
        axes = tuple(range(self.dimension))
        panel = Panel(axes, (0,) * self.dimension, self.shape, left, top, narrow, up, x_ticks, y_ticks)
        return Plot(width, top + up + bottom, left, top, narrow, up, x_ticks, y_ticks, (panel,))

    def _planes(self, width: float, margins: tuple[float, ...], gap: float) -> Plot:
        """Frames of the planes of a box, all to one scale; ticks at the left and at the bottom."""
        (left, right, top, bottom), (x, y, z) = margins, self._drawn_lengths()
        nodes, small = self.measurement.pairs.grid.shape, gap == SMALL_GAP
        unit = min((width - left - right - gap) / (x + z), 1.15 * (width - left - right) / (y + z))
        left += (width - left - right - gap - unit * (x + z)) / 2
        sizes = [unit * length for length in (x, y, z)]
        up, panels = sizes[2] + gap + sizes[1], []
        for along, upwards in PLANES:
            beside, above = along == 2, upwards == 2
            start = left + beside * (sizes[0] + gap)
            head = top if above else top + sizes[2] + gap
            few = [self._ticks(axis, 3 if sizes[axis] > 90 else 2) for axis in (along, upwards)]
            x_ticks = [] if small or above else apart([(start + at * sizes[along], text) for at, text in few[0]])
            y_ticks = [] if small or beside else [(head + (1 - at) * sizes[upwards], text) for at, text in few[1]]
            panels.append(
                Panel(
                    (along, upwards), (nodes[0] if beside else 0, nodes[1] if above else 0),
                    (nodes[along], nodes[upwards]), start, head, sizes[along], sizes[upwards], x_ticks, y_ticks,
                )
            )  # fmt: skip
        across = sizes[0] + gap + sizes[2]
        return Plot(width, top + up + bottom, left, top, across, up, [], [], tuple(panels))

    def names(self, panel: Panel) -> tuple[str, str]:
        """Of the axes along and up a panel, with their unit; none upwards in 1D."""
        words = [f"{AXES[axis]}{unit_text(self.length_unit, ' in ')}" for axis in panel.axes]
        return words[0], words[1] if self.dimension == 2 else ""

    def plane(self, panel: Panel) -> tuple[int, str]:
        """The axis across a plane of a box, and where the plane lies."""
        (axis,) = {0, 1, 2} - set(panel.axes)
        at = number(self.coordinates[axis][self.middle[axis]], self.digits[axis])
        return axis, f"{AXES[axis]} = {at}{unit_text(self.length_unit)}"

    def position(self, plot: Plot, node: tuple[int, ...], height: float = 0.0) -> tuple[float, float]:
        """Where a node of what is shown is drawn; `height` from 0 to 1 is that of the line in 1D."""
        panel = next(one for one in plot.panels if one.holds(node))
        places = zip(node, panel.first, panel.counts, strict=True)
        shares = [(index - first + 0.5) / count for index, first, count in places]
        up = shares[1] if self.dimension == 2 else height
        return round(panel.left + shares[0] * panel.across, 1), round(panel.top + (1 - up) * panel.up, 1)

    def points(self, plot: Plot, points: Float[ndarray, "point axis"]) -> tuple[tuple[float, float], ...]:
        """Where points, measured from the first node, are drawn in 2D."""
        axes = zip(self.coordinates, self._lengths(), points.T, strict=True)
        across, up = ((place + length / len(axis) / 2) / length for axis, length, place in axes)
        x, y = plot.left + across * plot.across, plot.top + (1 - up) * plot.up
        return tuple((round(float(a), 1), round(float(b), 1)) for a, b in zip(x, y, strict=True))

    def outline(self, plot: Plot) -> str:
        """An SVG path along the outline of a plane specimen; empty if it fills the box."""
        if self.measurement.specimen is None or self.dimension != 2 or self.spatial:
            return ""
        rings = [self.points(plot, thinned(ring)) for ring in self.measurement.specimen.shape.rings]
        return "".join("M" + "L".join(f"{x} {y}" for x, y in ring) + "z" for ring in rings)

    def cells(self, plot: Plot, mask: Bool[ndarray, "*shown"]) -> str:
        """An SVG path around the nodes of a mask, runs along x in one piece."""
        array, pieces = mask[:, None] if self.dimension == 1 else mask, []
        for panel in plot.panels:
            rows = array[tuple(slice(first, first + n) for first, n in zip(panel.first, panel.counts, strict=True))]
            wide, high = panel.across / rows.shape[0], panel.up / rows.shape[1]
            for j, row in enumerate(rows.T):
                edges = np.flatnonzero(np.diff(row.astype(int), prepend=0, append=0)).reshape(-1, 2)
                for first, last in edges:
                    start = f"M{panel.left + first * wide:.1f} {panel.top + panel.up - (j + 1) * high:.1f}"
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
            "coordinates": [[float(f"{x:.9g}") for x in axis] for axis in self.coordinates],
            "axes": AXES[: len(self.coordinates)], "panels": [panel.to_json() for panel in plot.panels],
            "middle": self.middle, "whole": self.whole,
        }  # fmt: skip

    def _lengths(self) -> list[float]:
        """With half a cell at both ends."""
        return [float(len(axis) * (axis[1] - axis[0])) for axis in self.coordinates]

    def _drawn_lengths(self) -> list[float]:
        """None shorter than the longest one allows."""
        lengths = self._lengths()
        return [max(length, max(lengths) / LONGEST) for length in lengths]

    def _ticks(self, axis: int, count: int = 5) -> list[tuple[float, str]]:
        places, length = self.coordinates[axis], self._lengths()[axis]
        start, ticks = places[0] - length / len(places) / 2, ticks_between(places[0], places[-1], count)
        return [((tick - start) / length, number(tick, self.digits[axis])) for tick in ticks]


def peak(field: Float[ndarray, "*space"]) -> tuple[int, ...]:
    """The node of the largest size."""
    place = np.unravel_index(int(np.argmax(np.nan_to_num(np.abs(field), nan=-1))), field.shape)
    return tuple(int(index) for index in place)


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


def apart(ticks: Ticks) -> Ticks:
    """Without those whose text would touch the one before, along a line of text."""
    kept: Ticks = []
    for place, text in ticks:
        if not kept or place - kept[-1][0] > HALF_LETTER * (len(text) + len(kept[-1][1])) + 4:
            kept.append((place, text))
    return kept


def rounded(values: Any) -> list[float | None]:
    """Five digits for JSON, which has no NaN."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in np.asarray(values, float).flat]


def css(**shares: float) -> str:
    """Lengths in percent."""
    return ";".join(f"{name}:{100 * share:.4f}%" for name, share in shares.items())

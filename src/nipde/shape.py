"""The region of a specimen in the plane, and named parts of its outline: "left", "rim", "hole 1", "electrode 7".

The outline is made of rings, the outer one first, and every side of a ring has the name of its part; `REST` where none
was given. Positions are in the unit of length of the grid, from the same origin.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import shapely
from jaxtyping import Bool, Float
from shapely.geometry import LineString, MultiLineString, Polygon, box
from shapely.geometry.base import BaseGeometry
from shapely.ops import substring

from nipde.errors import GridError
from nipde.grid import Grid

#: The part of the outline that no other part names.
REST = "rest"
#: Distance from the outline at which a line is still on it, as a share of the specimen's size.
ON = 1e-6
#: The same for a line that names a part: it may be drawn with other vertices, or rounded.
DRAWN = 1e-3
#: Such a line lies on the outline with at least this share of its length.
WHOLE = 0.98
#: Length of a side that gets the name of the box's, as a share of it.
LEAST_SIDE = 0.1
Points = Float[np.ndarray, "point axis"]
Where = Callable[[Float[np.ndarray, " point"], Float[np.ndarray, " point"]], Bool[np.ndarray, " point"]]


@dataclass(frozen=True, eq=False)
class Shape:
    """Rings of vertices, the first not repeated at the end; names of the sides that begin at them."""

    rings: tuple[Points, ...]
    sides: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if self.region.is_empty or not self.region.is_valid:
            raise GridError(
                expected="one region whose outline does not cross itself", got=shapely.is_valid_reason(self.region),
                remedy="mend the outline, or take one region at a time",
            )  # fmt: skip

    @classmethod
    def polygon(cls, corners: Any, *, holes: Iterable[Any] = (), sides: Sequence[str] | None = None) -> Self:
        """By its corners; `sides` names the sides between them; holes are the parts "hole 1", "hole 2", …"""
        rings = tuple(_open(np.asarray(ring, dtype=np.float64)) for ring in (corners, *holes))
        for ring in rings:
            if ring.ndim != 2 or ring.shape[1] != 2 or len(ring) < 3 or not np.all(np.isfinite(ring)):
                raise GridError(
                    expected="three or more corners (x, y)", got=f"an array {ring.shape}", remedy="list the corners"
                )
        names = [tuple(sides) if sides is not None else (REST,) * len(rings[0])]
        if len(names[0]) != len(rings[0]):
            raise GridError(expected=f"{len(rings[0])} names of sides", got=len(names[0]), remedy="name every side")
        names += [(f"hole {number}",) * len(ring) for number, ring in enumerate(rings[1:], start=1)]
        return cls(rings, tuple(names))

    @classmethod
    def rectangle(cls, x: float, y: float, *, origin: tuple[float, float] = (0.0, 0.0)) -> Self:
        """Of these lengths; parts left, right, bottom and top."""
        (a, b), (c, d) = origin, (origin[0] + x, origin[1] + y)
        return cls.polygon([(a, b), (c, b), (c, d), (a, d)], sides=("bottom", "right", "top", "left"))

    @classmethod
    def disc(cls, centre: tuple[float, float], radius: float, *, hole: float = 0.0, vertices: int = 2048) -> Self:
        """A disc, or a ring with a hole of another radius; parts "rim" and "hole 1". The area is that of the circle."""
        if not 0 <= hole < radius < np.inf:
            raise GridError(expected="0 <= hole < radius", got=(hole, radius), remedy="give radii in the grid's unit")
        angles = 2 * np.pi * np.arange(vertices) / vertices
        wider = np.sqrt(2 * np.pi / vertices / np.sin(2 * np.pi / vertices))
        circle = wider * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        rings = [np.asarray(centre) + one * circle for one in (radius, hole) if one > 0]
        return cls.polygon(rings[0], holes=rings[1:], sides=("rim",) * vertices)

    @classmethod
    def of_mask(cls, mask: Bool[np.ndarray, "*space"], grid: Grid) -> Self:
        """The cells of the nodes where it is true: stairs, so that errors fall with the first power of the spacing."""
        cells = cells_of(grid)[np.asarray(mask, dtype=bool).ravel()]
        x, y = (axis.length for axis in grid.axes)
        return cls.of(shapely.intersection(shapely.union_all(cells), box(0, 0, x, y)))

    @classmethod
    def of(cls, region: BaseGeometry) -> Self:
        """A polygon of shapely."""
        if not isinstance(region, Polygon) or region.is_empty:
            count = "nothing" if region.is_empty else f"{len(shapely.get_parts(region))} regions"
            raise GridError(expected="one connected region", got=count, remedy="take one region at a time")
        return cls.polygon(region.exterior.coords, holes=[ring.coords for ring in region.interiors])

    @classmethod
    def read(cls, path: str | Path, *, layer: str | None = None, pixel: str | None = None) -> "Shape":
        """From a file, in its own coordinates.

        GeoJSON: a polygon, and lines with a property `name`, its parts. CSV: x and y of its corners. A mesh that meshio
        reads, such as .msh, .vtk or .inp: its outline. DXF: closed outlines, of one `layer`. PNG, TIFF or BMP: a dark
        specimen on a light ground, or the other way round; `pixel` is the size of a pixel, such as `0.1 mm`.
        """
        from nipde.measurements.outline_file import read_outline

        return read_outline(path, layer=layer, pixel=pixel).shape

    def with_part(self, name: str, piece: BaseGeometry | Where) -> Self:
        """The outline along a line, or where a function of x and y is true, gets this name."""
        if isinstance(piece, BaseGeometry):
            if not isinstance(piece, LineString | MultiLineString):
                raise GridError(expected="a line", got=f"a {piece.geom_type}", remedy="draw it along the outline")
            ends = [point for line in shapely.get_parts(piece) for point in (line.coords[0], line.coords[-1])]
            cut = self._split([self._nearest(point) for point in ends])
            chosen = [cut._beside(list(shapely.get_parts(piece)), middles) for middles in cut._middles]
            share = (
                sum(float(np.sum(each[taken])) for each, taken in zip(cut._lengths, chosen, strict=True)) / piece.length
            )
            if 0 < share < WHOLE:
                raise GridError(
                    expected="all of a line on the outline", got=f"{share:.0%} of it",
                    remedy="draw it with as many corners as the outline has",
                )  # fmt: skip
        else:
            step = 1e-3 * self.scale
            counts = [np.ceil(length / step) for length in self._lengths]
            places = [
                (ring, side + k / count)
                for ring, each in enumerate(counts) for side, count in enumerate(each) for k in range(1, int(count))
            ]  # fmt: skip
            cut = self._split(places)
            chosen = [np.asarray(piece(middle[:, 0], middle[:, 1]), dtype=bool) for middle in cut._middles]
        if not any(np.any(each) for each in chosen):
            raise GridError(expected=f"{name!r} on the outline", got="nothing of it", remedy="draw it on the outline")
        sides = tuple(
            tuple(name if taken else old for old, taken in zip(names, each, strict=True))
            for names, each in zip(cut.sides, chosen, strict=True)
        )
        return replace(cut, sides=sides)

    def with_arc(self, name: str, start: float, end: float) -> Self:
        """A part of the outer ring between two shares of its length, counted from its first vertex."""
        if start == end:
            raise GridError(expected="two places of the ring", got=(start, end), remedy="give shares of its length")
        ring = LineString(self.region.exterior)
        pieces = [(start % 1, end % 1)] if start % 1 < end % 1 else [(start % 1, 1.0), (0.0, end % 1)]
        lines = [substring(ring, *piece, normalized=True) for piece in pieces]
        return self.with_part(name, MultiLineString([one for one in lines if isinstance(one, LineString)]))

    def with_sides(self) -> Self:
        """Straight sides along the box around it that have no name yet are left, right, bottom and top."""
        low, high = np.array(self.region.bounds).reshape(2, 2)
        ends, close = np.stack([self.rings[0], np.roll(self.rings[0], -1, 0)], 1), ON * self.scale
        names = list(self.sides[0])
        for name, (axis, place) in {
            "left": (0, low), "right": (0, high), "bottom": (1, low), "top": (1, high)
        }.items():  # fmt: skip
            along = np.all(np.abs(ends[..., axis] - place[axis]) <= close, axis=1)
            length = np.ptp(ends[along][..., 1 - axis], axis=1).sum()
            if length >= LEAST_SIDE * (high - low)[1 - axis]:
                names = [name if here and old == REST else old for old, here in zip(names, along, strict=True)]
        return replace(self, sides=(tuple(names), *self.sides[1:]))

    def transformed(self, *, scale: tuple[float, ...] = (1.0, 1.0), shift: tuple[float, ...] = (0.0, 0.0)) -> Self:
        """In other units of length, or measured from another origin."""
        return replace(self, rings=tuple(ring * np.array(scale) + np.array(shift) for ring in self.rings))

    @cached_property
    def region(self) -> Polygon:
        """What lies inside the outer ring and outside of the others."""
        return Polygon(self.rings[0], list(self.rings[1:]))

    @cached_property
    def parts(self) -> dict[str, BaseGeometry]:
        """Lines of the outline by name."""
        pieces: dict[str, list[np.ndarray]] = {}
        for ring, names in zip(self.rings, self.sides, strict=True):
            for side, name in zip(np.stack([ring, np.roll(ring, -1, 0)], 1), names, strict=True):
                pieces.setdefault(name, []).append(side)
        return {name: shapely.line_merge(MultiLineString(each)) for name, each in pieces.items()}

    @property
    def scale(self) -> float:
        """A length of the specimen's size."""
        return float(np.sqrt(self.region.area))

    def contains(self, points: Points) -> Bool[np.ndarray, " point"]:
        """Whether points lie inside."""
        return np.asarray(shapely.contains_xy(self.region, points[:, 0], points[:, 1]))

    def covers(self, points: Points) -> Bool[np.ndarray, " point"]:
        """Whether points lie inside or on the outline, to rounding."""
        near = shapely.dwithin(self.region, shapely.points(np.asarray(points)), ON * self.scale)
        return np.asarray(near)

    def holds_nodes(self, grid: Grid) -> Bool[np.ndarray, "*space"]:
        """Whether nodes of a grid lie inside or on the outline."""
        return self.covers(np.stack([x.ravel() for x in grid.coordinates], axis=-1)).reshape(grid.shape)

    def _beside(self, lines: Iterable[LineString], points: Points) -> Bool[np.ndarray, " point"]:
        """Which points lie along one of some lines, not beyond its ends."""
        found, places = np.zeros(len(points), dtype=bool), np.asarray(shapely.points(points))
        for line in lines:
            shapely.prepare(line)
            near = np.flatnonzero(shapely.dwithin(line, places, DRAWN * self.scale))
            share = shapely.line_locate_point(line, places[near], normalized=True)
            found[near[(share > 1e-12) & (share < 1 - 1e-12)]] = True
        return found

    @property
    def _middles(self) -> list[Points]:
        return [(ring + np.roll(ring, -1, 0)) / 2 for ring in self.rings]

    @property
    def _lengths(self) -> list[Float[np.ndarray, " side"]]:
        return [np.linalg.norm(np.roll(ring, -1, 0) - ring, axis=1) for ring in self.rings]

    def _nearest(self, point: tuple[float, ...]) -> tuple[int, float]:
        """The place on the outline: ring, and side plus share of it."""
        best = (np.inf, 0, 0.0)
        for number, ring in enumerate(self.rings):
            along = np.roll(ring, -1, 0) - ring
            share = np.clip(np.sum((np.asarray(point[:2]) - ring) * along, 1) / np.sum(along**2, 1), 0, 1)
            apart = np.linalg.norm(ring + share[:, None] * along - np.asarray(point[:2]), axis=1)
            side = int(np.argmin(apart))
            best = min(best, (float(apart[side]), number, side + float(share[side])))
        if best[0] > DRAWN * self.scale:
            raise GridError(
                expected=f"a part on the outline, to {DRAWN:.1%} of the specimen's size",
                got=f"an end at {best[0]:.3g} from it",
                remedy="draw it along the outline",
            )
        return best[1], best[2]

    def _split(self, places: Iterable[tuple[int, float]]) -> Self:
        """With further vertices on its sides."""
        rings, sides = [], []
        for number, (ring, names) in enumerate(zip(self.rings, self.sides, strict=True)):
            own = np.array([place for which, place in places if which == number])
            whole = np.arange(len(ring))
            inner = own[np.abs(own - np.round(own)) > 1e-9]
            order = np.unique(np.concatenate([whole, inner]))
            side = np.minimum(order.astype(int), len(ring) - 1)
            along = np.roll(ring, -1, 0) - ring
            rings.append(ring[side] + (order - side)[:, None] * along[side])
            sides.append(tuple(names[one] for one in side))
        return replace(self, rings=tuple(rings), sides=tuple(sides))


def cells_of(grid: Grid) -> np.ndarray:
    """The box around every node of a plane grid; neighbours share their edges to the last bit."""
    edges = [(np.arange(axis.nodes + 1) - 0.5) * axis.spacing for axis in grid.axes]
    low, high = (np.meshgrid(*(one[part] for one in edges), indexing="ij") for part in (slice(-1), slice(1, None)))
    return np.asarray(shapely.box(*(each.ravel() for each in (*low, *high))))


def _open(ring: Points) -> Points:
    """Without the first vertex at the end."""
    return ring[:-1] if len(ring) > 1 and np.array_equal(ring[0], ring[-1]) else ring

"""Links near points of an outline where the response is singular: ends of Dirichlet parts, and re-entrant corners.

There the response is a power α of the distance times a cosine of the angle. Differences between nodes do not resolve it
where α < 1, and a cell that holds the end of a Dirichlet part is linked to the whole part or to none: elsewhere, too,
responses err by the first power of the spacing, by several per cent on 41² nodes. Near such a point the areas of links
are therefore the nearest ones with which the power is exact: what leaves every cell through its links enters through
the Neumann parts in it, and the same of a constant slope where both are possible. The coefficient stays as it is.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import pi

import numpy as np
import shapely
from jaxtyping import Bool, Float
from scipy.optimize import lsq_linear
from shapely.geometry.base import BaseGeometry

from nipde.discretisation.cut_links import CutLinks, Pieces
from nipde.shape import Shape

#: A corner within one part is singular if α is below this, an end of a Dirichlet part that.
REGULAR, REGULAR_END = 0.95, 1.5
#: Spacings from a point within which areas change.
REACH = 5.0
#: Cells without a link to a Dirichlet part may get one within so many spacings of its end, and of the part.
BESIDE, NEAR = 2.0, 1.5
#: Points with another one within so many spacings stay as they are: corners of stairs, as a mask has for an outline.
CROWDED = 2.5
#: New links are at least this long, in spacings.
SHORTEST = 0.05
#: Areas keep this share of themselves, and grow by at most so many spacings.
LEAST_SHARE, MOST_GROWTH = 1e-3, 3.0
#: Area with which a new link weighs; weights of the balances of the power, and of a constant slope along x and along y.
OF_NEW, EXACTLY, NEARLY = 0.05, 1e3, 10.0

Places = Float[np.ndarray, "place axis"]


@dataclass(frozen=True)
class SingularPoint:
    """The power r^α cos(α χ + ψ), the real part of e^{iψ} z^α: χ is the angle from the bisector of the specimen."""

    place: complex
    bisector: float
    exponent: float
    #: ψ.
    phase: float

    @property
    def is_end(self) -> bool:
        """Of a Dirichlet part; else a corner."""
        return abs(self.phase) == pi / 4

    def power(self, places: Places) -> Float[np.ndarray, " place"]:
        """At some places."""
        return np.asarray((np.exp(1j * self.phase) * self._local(places) ** self.exponent).real)

    def slopes(self, places: Places, directions: Places) -> Float[np.ndarray, " place"]:
        """Along some directions."""
        derivative = self.exponent * np.exp(1j * self.phase) * self._local(places) ** (self.exponent - 1)
        return np.asarray((derivative * np.exp(-1j * self.bisector) * _complex(directions)).real)

    def distance(self, places: Places) -> Float[np.ndarray, " place"]:
        """From the point."""
        return np.asarray(np.abs(self._local(places)))

    def _local(self, places: Places) -> np.ndarray:
        return np.asarray((_complex(places) - self.place) * np.exp(-1j * self.bisector))


def exact_near_singular_points(
    links: CutLinks, pieces: Pieces, nodes: Places, shape: Shape, fixed: Sequence[str], *, spacing: float
) -> CutLinks:
    """With other areas near singular points, and links to the ends of the Dirichlet parts `fixed`."""
    points = _single(singular_points(shape, fixed), CROWDED * spacing)
    if not points:
        return links
    links = _with_links_to_ends(links, nodes, points, shape, fixed, spacing)
    apart = np.stack([point.distance(nodes) for point in points])
    for point, distance, nearest in zip(points, apart, np.arange(len(points))[:, None] == apart.argmin(0), strict=True):
        links = _exact(links, pieces, nodes, point, nearest & (distance < REACH * spacing), spacing)
    return links


def singular_points(shape: Shape, fixed: Collection[str]) -> list[SingularPoint]:
    """Of an outline with these Dirichlet parts; through the others the flow is known."""
    points = []
    for number, (ring, names) in enumerate(zip(shape.rings, shape.sides, strict=True)):
        if shapely.LinearRing(ring).is_ccw != (number == 0):  # the specimen is to the left
            ring, names = ring[::-1], (*names[-2::-1], names[-1])
        given = np.isin(names, list(fixed))
        corners = _complex(ring)
        onward, back = (np.angle(np.roll(corners, by) - corners) for by in (-1, 1))
        width = (back - onward) % (2 * pi)
        mixed = given != np.roll(given, 1)
        exponent = np.where(mixed, pi / 2, pi) / width
        for k in np.flatnonzero(exponent < np.where(mixed, REGULAR_END, REGULAR)):
            if mixed[k]:
                phase = -pi / 4 if given[k] else pi / 4
            else:
                phase = 0.0 if given[k] else pi / 2
            points.append(SingularPoint(complex(corners[k]), onward[k] + width[k] / 2, float(exponent[k]), phase))
    return points


def _single(points: Sequence[SingularPoint], distance: float) -> list[SingularPoint]:
    """Those without another one within a distance."""
    places = np.array([point.place for point in points])
    apart = np.abs(places[:, None] - places) + np.where(np.eye(len(places), dtype=bool), np.inf, 0.0)
    return [point for point, each in zip(points, apart, strict=True) if not np.any(each < distance)]


def _with_links_to_ends(
    links: CutLinks, nodes: Places, points: Sequence[SingularPoint], shape: Shape, fixed: Sequence[str], spacing: float
) -> CutLinks:
    """Without area so far: from cells that hold the end of a Dirichlet part, but have no link to it."""
    if not fixed:
        return links
    linked, to_part = (np.zeros(len(nodes), dtype=bool) for _ in range(2))
    linked[links.first] = linked[links.second[links.second >= 0]] = True
    to_part[links.first[links.second < 0]] = True
    lines: list[BaseGeometry] = [shape.parts[name] for name in fixed]
    beside = np.min([point.distance(nodes) for point in points], axis=0) < BESIDE * spacing
    some = np.flatnonzero(beside & linked & ~to_part)
    places = np.asarray(shapely.points(nodes[some]))
    distance = np.stack([shapely.distance(places, line) for line in lines])
    close = np.flatnonzero(distance.min(0) < NEAR * spacing)
    some, part = some[close], distance[:, close].argmin(0)
    nearest = shapely.shortest_line(places[close], np.array(lines, dtype=object)[part])
    ends = shapely.get_coordinates(nearest).reshape(-1, 2, 2)[:, 1]
    along, names, none = ends - nodes[some], list(shape.parts), np.zeros(len(some))
    numbers = np.array([names.index(name) for name in fixed])[part]
    length = np.maximum(np.linalg.norm(along, axis=1), SHORTEST * spacing)
    return CutLinks.joined(
        [links, CutLinks(some, -1 - numbers, none, length, none, along, np.zeros((len(some), 1, 2)))]
    )


def _exact(
    links: CutLinks, pieces: Pieces, nodes: Places, point: SingularPoint, near: Bool[np.ndarray, " node"],
    spacing: float,
) -> CutLinks:  # fmt: skip
    """With areas for which the power balances in the cells that are `near`, of least change to those that were."""
    to_part = links.second < 0
    first, second = near[links.first], ~to_part & near[links.second]
    mine = np.flatnonzero(first | second)
    if not len(mine):
        return links
    free = (first & (second | to_part))[mine]
    starts = nodes[links.first[mine]]
    ends = np.where(to_part[mine, None], starts + links.along[mine], nodes[links.second[mine]])
    cells = np.flatnonzero(near)
    number = np.full(len(nodes), -1)
    number[cells] = np.arange(len(cells))
    outflow = np.zeros((len(cells), len(mine)))
    for of, some, sign in ((links.first, first, 1.0), (links.second, second, -1.0)):
        column = np.flatnonzero(some[mine])
        outflow[number[of[mine[column]]], column] = sign / links.length[mine[column]]
    off = np.abs(pieces.middle - nodes[pieces.cell]).max(axis=1)
    along = np.flatnonzero(near[pieces.cell] & (off <= 0.51 * spacing))  # others come from cells that are left out
    through = number[pieces.cell[along]]
    area, length = links.area[mine] / spacing, links.length[mine] / spacing
    held = np.any(outflow[:, free] != 0, axis=1)  # others are no cells, or have no link that may change
    rows, wanted = [np.diag((np.maximum(area, OF_NEW) * length) ** -0.5)[free][:, free]], [np.zeros(int(free.sum()))]
    for values, slopes, weight in (
        (point.power, point.slopes, EXACTLY / spacing**point.exponent),
        (lambda places: places[:, 0], lambda _, directions: directions[:, 0], NEARLY / spacing),
        (lambda places: places[:, 1], lambda _, directions: directions[:, 1], NEARLY / spacing),
    ):
        balance = spacing * outflow * (values(starts) - values(ends))
        flux = slopes(pieces.middle[along], pieces.normal[along]) * pieces.length[along]
        missing = np.bincount(through, flux, minlength=len(cells)) - balance @ area
        rows.append(weight * balance[held][:, free])
        wanted.append(weight * missing[held])
    bounds = ((LEAST_SHARE - 1) * area[free] - 1e-12, np.full(int(free.sum()), MOST_GROWTH))
    change = lsq_linear(np.vstack(rows), np.concatenate(wanted), bounds=bounds).x
    areas = links.area.copy()
    areas[mine[free]] = np.maximum(areas[mine[free]] + spacing * change, 0.0)
    return replace(links, area=areas)


def _complex(vectors: Places) -> np.ndarray:
    return np.asarray(vectors[:, 0] + 1j * vectors[:, 1])

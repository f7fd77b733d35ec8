"""A specimen on a grid: cells cut by its outline, links between them, and links to the outline.

A link of area a and length d has the conductance a / (contact + d · mean of 1/b along it):

- between neighbouring nodes: the open share of the face, the spacing, no contact resistance;
- from a node to a Dirichlet part: the same, its length ends at the outline (Gibou et al. 2002). Cells and faces are not
  cut by such parts;
- from a node to a Robin part or a terminal: the length of the outline in the cell, the distance of the outline, and the
  resistance of the contact.

Neumann parts cut cells and faces (Ng, Min and Gibou 2009). Near ends of Dirichlet parts areas are others
(`singular_points`). The matrix is symmetric; what leaves a cell enters another.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import shapely
from jaxtyping import Bool, Float, Int
from shapely.geometry.base import BaseGeometry

from nipde.discretisation.cut_links import CutLinks, Pieces
from nipde.discretisation.links import OnLinks, conductances_in_series
from nipde.discretisation.parts import Condition, DirichletPart, NeumannPart, RobinPart, Terminal
from nipde.discretisation.singular_points import exact_near_singular_points
from nipde.errors import GridError
from nipde.grid import Grid
from nipde.shape import Shape, cells_of

#: Cells with a smaller open share are left out; faces with a smaller one let nothing pass.
LEAST_CELL, LEAST_FACE = 1e-6, 1e-6
#: Links to the outline are at least this long, in spacings.
SHORTEST = 1e-3
#: Points along and across a link at which b is taken.
PER_AXIS = 3
AtPoints = Float[np.ndarray, "link along across"]


@dataclass(frozen=True, eq=False)
class CutCells:
    """Cells, links and outline of a specimen."""

    grid: Grid
    shape: Shape
    #: Of all parts of the outline; links know them by their number here.
    conditions: Mapping[str, Condition]
    #: Cells that have a balance.
    active: Bool[np.ndarray, "*space"]
    #: Volume that loads act on: that of a cell cut by Dirichlet parts is whole.
    volume: Float[np.ndarray, "*space"]
    #: Volume of the region in every cell.
    measure: Float[np.ndarray, "*space"]
    links: CutLinks
    pieces: Pieces

    @property
    def names(self) -> tuple[str, ...]:
        """Parts of the outline, in the order of their numbers."""
        return tuple(self.conditions)

    @cached_property
    def nodes(self) -> Float[np.ndarray, "node axis"]:
        """Positions."""
        return np.stack([x.ravel() for x in self.grid.coordinates], axis=-1)

    def points(self, per_axis: int = PER_AXIS) -> Float[np.ndarray, "link along across axis"]:
        """Where b is taken."""
        links, share = self.links, (np.arange(per_axis) + 0.5) / per_axis
        steps = self.nodes[links.first][:, None, None] + share[:, None, None] * links.along[:, None, None]
        lattice = np.stack(np.meshgrid(*[share - 0.5] * (self.grid.dimension - 1), indexing="ij"), axis=-1)
        return steps + (lattice.reshape(-1, self.grid.dimension - 1) @ links.across)[:, None]

    def links_to(self, part: str) -> tuple[Int[np.ndarray, " link"], Float[np.ndarray, "link axis"]]:
        """Numbers of the links to a part of the outline, and where they end."""
        mine = np.flatnonzero(self.links.second == -1 - self.names.index(part))
        return mine, self.nodes[self.links.first[mine]] + self.links.along[mine]

    def conductances(self, coefficient: AtPoints) -> OnLinks:
        """Of every link, by b at its points: resistances in series along it, in parallel across."""
        links = self.links
        parts = {"area": links.area, "length": links.length, "contact": links.contact}
        return conductances_in_series(1 / coefficient, **parts)[0]


def cut_cells(grid: Grid, shape: Shape, conditions: Mapping[str, Condition]) -> CutCells:
    """Of a shape within the box of a grid; parts without a condition are insulated."""
    _check(grid, shape, conditions)
    known: dict[str, Condition] = {name: conditions.get(name, NeumannPart()) for name in shape.parts}
    fixed = [name for name, one in known.items() if isinstance(one, DirichletPart)]
    lines = (
        shapely.line_merge(shapely.union_all([shape.parts[name] for name in fixed])) if fixed else shapely.LineString()
    )
    natural = shapely.union_all([shape.parts[name] for name in known if name not in fixed] or [shapely.LineString()])
    step = np.array(grid.spacing)
    # Dirichlet parts cut nothing: what lies beyond them counts as open.
    opened = shapely.union(shape.region, lines.buffer(1.5 * step.max(), cap_style="flat", join_style="mitre"))
    boxes, nodes = cells_of(grid), np.stack([x.ravel() for x in grid.coordinates], axis=-1)
    inside, share = shape.contains(nodes), _shares(boxes, opened, shapely.area)
    held = _shares(boxes, shape.region, shapely.area)
    # Cells that only Dirichlet parts opened hold nothing: they would stand alone.
    active = (share > LEAST_CELL) & (inside | (held > LEAST_CELL))
    outside = np.flatnonzero(active & ~inside)
    if fixed and len(outside):  # beyond a Dirichlet part nothing is unknown
        to_fixed, to_natural = (shapely.distance(shapely.points(nodes[outside]), one) for one in (lines, natural))
        active[outside[to_fixed <= np.nan_to_num(to_natural, nan=np.inf)]] = False
    links = CutLinks.joined(_links(grid, axis, active, opened, lines) for axis in range(grid.dimension))
    outer = np.flatnonzero(links.second < 0)
    if len(outer):
        ends = shapely.points(nodes[links.first[outer]] + links.along[outer])
        nearest = np.argmin([shapely.distance(ends, shape.parts[name]) for name in fixed], axis=0)
        links.second[outer] = -1 - np.array([list(known).index(name) for name in fixed])[nearest]
    pieces = _pieces(shape, known, boxes, active, nodes)
    links = exact_near_singular_points(links, pieces, nodes, shape, fixed, spacing=float(step.max()))
    contacts = [
        _contacts(number, condition, part, pieces, nodes)
        for number, (part, condition) in enumerate(known.items())
        if isinstance(condition, RobinPart | Terminal)
    ]
    cell = float(np.prod(step))
    volume, measure = np.where(active, share, 0.0) * cell, held * cell
    return CutCells(
        grid, shape, known, active.reshape(grid.shape), volume.reshape(grid.shape), measure.reshape(grid.shape),
        CutLinks.joined([links, *contacts]), pieces,
    )  # fmt: skip


def _check(grid: Grid, shape: Shape, conditions: Mapping[str, Condition]) -> None:
    if grid.dimension != 2:
        raise GridError(
            expected="a grid of two axes", got=grid.dimension,
            remedy="over three axes take a Prism: the same outline at every height",
        )  # fmt: skip
    low, high = np.array(shape.region.bounds[:2]), np.array(shape.region.bounds[2:])
    lengths = np.array([axis.length for axis in grid.axes])
    slack = 1e-9 * lengths
    if np.any(low < -slack) or np.any(high > lengths + slack):
        raise GridError(
            expected=f"a shape within 0 … {lengths.tolist()}", got=f"{low.tolist()} … {high.tolist()}",
            remedy="take a larger box, or move the outline",
        )  # fmt: skip
    unknown = set(conditions) - set(shape.parts)
    if unknown:
        raise GridError(
            expected=f"parts among {', '.join(shape.parts)}", got=", ".join(sorted(unknown)),
            remedy="name the part on the shape first",
        )  # fmt: skip


def _shares(pieces: np.ndarray, region: BaseGeometry, size: Callable[[Any], Any]) -> Float[np.ndarray, " piece"]:
    """Share of boxes or lines within a region."""
    shapely.prepare(region)
    middle = shapely.get_coordinates(shapely.centroid(pieces))
    share = np.asarray(shapely.contains_xy(region, middle[:, 0], middle[:, 1])).astype(float)
    edge = region.boundary
    shapely.prepare(edge)
    cut = np.flatnonzero(shapely.intersects(edge, pieces))
    share[cut] = size(shapely.intersection(pieces[cut], region)) / size(pieces[cut])
    return share


def _links(
    grid: Grid, axis: int, active: Bool[np.ndarray, " node"], opened: BaseGeometry, fixed: BaseGeometry
) -> CutLinks:
    """Along one axis: between active nodes, and from them to Dirichlet parts that stand in between."""
    cells, step = np.arange(grid.size).reshape(grid.shape), np.array(grid.spacing)
    low = np.take(cells, range(grid.shape[axis] - 1), axis=axis).ravel()
    high = np.take(cells, range(1, grid.shape[axis]), axis=axis).ravel()
    some = active[low] | active[high]
    low, high = low[some], high[some]
    nodes = np.stack([x.ravel() for x in grid.coordinates], axis=-1)
    across = np.zeros(2)
    across[1 - axis] = step[1 - axis]
    middle = (nodes[low] + nodes[high]) / 2
    faces = np.asarray(shapely.linestrings(np.stack([middle - across / 2, middle + across / 2], axis=1)))
    area = _shares(faces, opened, shapely.length) * step[1 - axis]
    between = np.asarray(shapely.linestrings(np.stack([nodes[low], nodes[high]], axis=1)))
    shapely.prepare(fixed)
    crossed = np.asarray(shapely.intersects(fixed, between))
    open_link = active[low] & active[high] & ~crossed & (area > LEAST_FACE * step[1 - axis])
    parts = [(low[open_link], high[open_link], area[open_link], np.full(open_link.sum(), step[axis]), 1.0)]
    for start, sign in ((low, 1.0), (high, -1.0)):
        out = np.flatnonzero(active[start] & crossed)
        meeting = shapely.intersection(between[out], fixed)
        distance = shapely.distance(shapely.points(nodes[start[out]]), meeting)
        distance = np.maximum(distance, SHORTEST * step[axis])
        parts.append((start[out], np.full(len(out), -1), area[out], distance, sign))
    first, second, area, length = (np.concatenate([one[k] for one in parts]) for k in range(4))
    signs = np.concatenate([np.full(len(one[0]), one[4]) for one in parts])
    along = np.zeros((len(first), 2))
    along[:, axis] = signs * length
    return CutLinks(first, second, area, length, np.zeros(len(first)), along, np.tile(across, (len(first), 1, 1)))


def _pieces(
    shape: Shape, known: Mapping[str, Condition], boxes: np.ndarray, active: Bool[np.ndarray, " node"],
    nodes: Float[np.ndarray, "node axis"],
) -> Pieces:  # fmt: skip
    """Of cells that are left out those of the nearest active one."""
    cells, parts, lengths, middles, normals = [], [], [], [], []
    for part, condition in known.items():
        if isinstance(condition, DirichletPart):
            continue
        line = shape.parts[part]
        shapely.prepare(line)
        met = np.flatnonzero(shapely.intersects(line, boxes))
        each = shapely.intersection(boxes[met], line)
        long = shapely.length(each) > 1e-12 * shape.scale
        met, each = met[long], shapely.line_merge(each[long])  # rings begin within a cell
        cells.append(met)
        parts += [part] * len(met)
        # Along the edge between two cells both have it.
        shared = shapely.length(shapely.intersection(each, shapely.boundary(boxes[met])))
        lengths.append(shapely.length(each) - shared / 2)
        middles.append(shapely.get_coordinates(shapely.centroid(each)))
        normals.append(_normals(each, middles[-1], shape))
    if not cells:
        return Pieces(np.zeros(0, int), (), np.zeros(0), np.zeros((0, 2)), np.zeros((0, 2)))
    cell, there = np.concatenate(cells), np.flatnonzero(active)
    lost = np.flatnonzero(~active[cell])
    for number in lost:
        cell[number] = there[np.argmin(np.sum((nodes[there] - nodes[cell[number]]) ** 2, axis=1))]
    length = np.concatenate(lengths)
    return Pieces(cell, tuple(parts), length, np.concatenate(middles), np.concatenate(normals))


def _normals(
    pieces: np.ndarray, middles: Float[np.ndarray, "piece axis"], shape: Shape
) -> Float[np.ndarray, "piece axis"]:
    """At right angles to the chord of every piece, out of the specimen."""
    corners, owner = shapely.get_coordinates(pieces, return_index=True)
    starts = np.searchsorted(owner, np.arange(len(pieces)))
    ends = np.searchsorted(owner, np.arange(len(pieces)), side="right") - 1
    chord = corners[ends] - corners[starts]
    normal = np.stack([chord[:, 1], -chord[:, 0]], axis=-1)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    step = 0.3 * np.linalg.norm(chord, axis=1, keepdims=True)  # beyond the bow of an arc over its chord
    inwards = shape.contains(middles + step * normal)
    return np.where(inwards[:, None], -normal, normal)


def _contacts(
    number: int, condition: RobinPart | Terminal, part: str, pieces: Pieces, nodes: Float[np.ndarray, "node axis"]
) -> CutLinks:
    """Links to a Robin part or a terminal, one for each cell that it passes."""
    mine = np.flatnonzero([one == part for one in pieces.part])
    along = pieces.middle[mine] - nodes[pieces.cell[mine]]
    length, contact = np.sum(along * pieces.normal[mine], axis=1), np.full(len(mine), condition.resistance)
    to_part = np.full(len(mine), -1 - number)
    across = np.zeros((len(mine), 1, 2))
    return CutLinks(pieces.cell[mine], to_part, pieces.length[mine], length, contact, along, across)

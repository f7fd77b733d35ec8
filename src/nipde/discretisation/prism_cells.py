"""Cells and links of a prism: those of its outline in the plane, times those of an interval.

A layer has the plane's links, their faces as high as the layer. Between layers, links pass through the open area of
the plane's cells. What holds at the ends is as at an outline: Dirichlet ends cut nothing and shorten the last links,
other ends cut the last cells.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Bool, Float

from nipde.discretisation.cut_cells import LEAST_CELL, SHORTEST, CutCells, cut_cells
from nipde.discretisation.cut_links import CutLinks, Pieces
from nipde.discretisation.parts import Condition, DirichletPart, NeumannPart, RobinPart, Terminal
from nipde.errors import GridError
from nipde.grid import Axis, Grid
from nipde.prism import ENDS, Prism

#: Beyond a Dirichlet end this many spacings count as open.
OPEN = 1.5


@dataclass(frozen=True, eq=False)
class CutInterval:
    """An axis whose cells are cut at two heights."""

    axis: Axis
    ends: tuple[float, float]
    #: Whether values are given at the ends.
    given: tuple[bool, bool]

    @cached_property
    def active(self) -> Bool[np.ndarray, " node"]:
        """Nodes whose cell has a balance."""
        places, (low, high) = self.axis.coordinates, self.ends
        inside = (places > low) & (places < high)
        beyond_given = ((places <= low) & self.given[0]) | ((places >= high) & self.given[1])
        return (inside | (self.held > LEAST_CELL * self.axis.spacing)) & ~beyond_given

    @cached_property
    def held(self) -> Float[np.ndarray, " node"]:
        """Height of the specimen in every cell."""
        return self._overlap(*self.ends)

    @cached_property
    def open(self) -> Float[np.ndarray, " node"]:
        """The same where Dirichlet ends do not cut; 0 in cells that are not active."""
        beyond = [OPEN * self.axis.spacing * one for one in self.given]
        return np.where(self.active, self._overlap(self.ends[0] - beyond[0], self.ends[1] + beyond[1]), 0.0)

    def _overlap(self, low: float, high: float) -> Float[np.ndarray, " node"]:
        places, half = self.axis.coordinates, self.axis.spacing / 2
        return np.clip(np.minimum(places + half, high) - np.maximum(places - half, low), 0.0, None)

    @property
    def last(self) -> tuple[int, int]:
        """The first and the last active node."""
        first, *_, last = np.flatnonzero(self.active).tolist()
        return first, last

    def distance(self, end: int) -> float:
        """From the last node to an end; below 0 if it lies beyond."""
        place = float(self.axis.coordinates[self.last[end]])
        return place - self.ends[0] if end == 0 else self.ends[1] - place

    def ghost_nodes(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """All nodes from active ones, and from the values at the two ends; as of an outline."""
        count = self.axis.nodes
        nodes, ends = np.diag(self.active.astype(float)), np.zeros((count, 2))
        for end, sign in ((0, -1), (1, 1)):
            last = self.last[end]
            if not 0 <= last + sign < count:
                continue
            behind = last - sign
            if self.given[end]:
                share = max(self.distance(end) / self.axis.spacing, SHORTEST)
                slope = (1 - share) / (1 + share)
                nodes[last + sign, behind], ends[last + sign, end] = -slope, 1 + slope
            else:
                nodes[last + sign, last], nodes[last + sign, behind] = 2.0, -1.0
        return sparse.csr_array(nodes), sparse.csr_array(ends)


@dataclass(frozen=True, eq=False)
class PrismCells(CutCells):
    """Of a prism; links of the plane layer by layer first, then those along the height."""

    base: CutCells
    height: CutInterval

    @property
    def linked_ends(self) -> list[int]:
        """Ends that links lead to: those that are not insulated."""
        return [end for end, name in enumerate(ENDS) if not isinstance(self.conditions[name], NeumannPart)]


def prism_cells(grid: Grid, prism: Prism, conditions: Mapping[str, Condition]) -> PrismCells:
    """Of a prism within the box of a grid; parts without a condition are insulated."""
    _check(grid, prism, conditions)
    at_ends = [conditions.get(name, NeumannPart()) for name in ENDS]
    sides = {name: one for name, one in conditions.items() if name not in ENDS}
    base = cut_cells(Grid(grid.axes[:2]), prism.base, sides)
    given = tuple(isinstance(one, DirichletPart) for one in at_ends)
    height = CutInterval(grid.axes[2], (prism.low, prism.high), (given[0], given[1]))
    if height.active.sum() < 3:
        raise GridError(
            expected="three or more nodes along the height", got=int(height.active.sum()), remedy="refine the grid"
        )
    known = {**base.conditions, **dict(zip(ENDS, at_ends, strict=True))}
    area = base.volume.ravel()
    links = [
        _in_layers(base, height), _between_layers(base, height, area),
        *(_to_end(base, height, end, one, len(base.conditions) + end, area) for end, one in enumerate(at_ends)
          if isinstance(one, DirichletPart | RobinPart | Terminal)),
    ]  # fmt: skip
    times = np.multiply.outer
    return PrismCells(
        grid, prism, known, times(base.active, height.active), times(base.volume, height.open),
        times(base.measure, height.held), CutLinks.joined(links), _pieces(base, height, at_ends), base, height,
    )  # fmt: skip


def _check(grid: Grid, prism: Prism, conditions: Mapping[str, Condition]) -> None:
    if grid.dimension != 3:
        raise GridError(expected="a grid of three axes", got=grid.dimension, remedy="take the outline alone")
    length = grid.axes[2].length
    if prism.low < -1e-9 * length or prism.high > length * (1 + 1e-9):
        raise GridError(
            expected=f"heights within 0 … {length:g}", got=(prism.low, prism.high), remedy="take a larger box"
        )
    if unknown := set(conditions) - set(prism.parts):
        raise GridError(
            expected=f"parts among {', '.join(prism.parts)}", got=", ".join(sorted(unknown)),
            remedy="name the part on the shape first",
        )  # fmt: skip


def _in_layers(base: CutCells, height: CutInterval) -> CutLinks:
    """The plane's links in every layer, link by link."""
    links, layers, nodes = base.links, np.flatnonzero(height.active), height.axis.nodes
    count = len(links.first)

    def cells(of: np.ndarray) -> np.ndarray:
        there = of[:, None] * nodes + layers
        return np.where(of[:, None] < 0, of[:, None], there).ravel()

    def repeated(values: np.ndarray) -> np.ndarray:
        return np.repeat(values, len(layers), axis=0)

    upwards = np.zeros((count, len(layers), 1, 3))
    upwards[..., 2] = height.axis.spacing
    across = np.concatenate([_spatial(repeated(links.across)), upwards.reshape(-1, 1, 3)], axis=1)
    area = np.multiply.outer(links.area, height.open[layers]).ravel()
    return CutLinks(
        cells(links.first), cells(links.second), area, repeated(links.length), repeated(links.contact),
        _spatial(repeated(links.along)), across,
    )  # fmt: skip


def _between_layers(base: CutCells, height: CutInterval, area: Float[np.ndarray, " cell"]) -> CutLinks:
    """Along the height, cell by cell."""
    columns, layers, axis = np.flatnonzero(base.active.ravel()), np.flatnonzero(height.active)[:-1], height.axis
    first = (columns[:, None] * axis.nodes + layers).ravel()
    step = np.full(len(first), axis.spacing)
    return _upright(base, first, first + 1, np.repeat(area[columns], len(layers)), step, 0.0, 1)


def _to_end(
    base: CutCells, height: CutInterval, end: int, condition: DirichletPart | RobinPart | Terminal, number: int,
    area: Float[np.ndarray, " cell"],
) -> CutLinks:  # fmt: skip
    """One from every column."""
    columns = np.flatnonzero(base.active.ravel())
    first = columns * height.axis.nodes + height.last[end]
    contact, distance = 0.0, max(height.distance(end), SHORTEST * height.axis.spacing)
    if isinstance(condition, RobinPart | Terminal):
        contact, distance = condition.resistance, height.distance(end)
    length, second = np.full(len(first), distance), np.full(len(first), -1 - number)
    return _upright(base, first, second, area[columns], length, contact, 2 * end - 1)


def _upright(
    base: CutCells, first: np.ndarray, second: np.ndarray, area: np.ndarray, length: np.ndarray, contact: float,
    sign: int,
) -> CutLinks:  # fmt: skip
    along = np.zeros((len(first), 3))
    along[:, 2] = sign * length
    across = np.tile(np.eye(3)[:2] * np.array([[one] for one in base.grid.spacing]), (len(first), 1, 1))
    return CutLinks(first, second, area, length, np.full(len(first), contact), along, across)


def _pieces(base: CutCells, height: CutInterval, at_ends: list[Condition]) -> Pieces:
    """Of the outline in every layer, and of ends that are not Dirichlet in every column."""
    of, layers, nodes = base.pieces, np.flatnonzero(height.active), height.axis.nodes
    low, high = height.ends
    cells, parts = [(of.cell[:, None] * nodes + layers).ravel()], [one for one in of.part for _ in layers]
    areas = [np.multiply.outer(of.length, height.held[layers]).ravel()]
    middles = [np.repeat(_spatial(of.middle), len(layers), axis=0)]
    middles[0][:, 2] = np.tile(np.clip(height.axis.coordinates[layers], low, high), len(of.cell))
    normals = [np.repeat(_spatial(of.normal), len(layers), axis=0)]
    columns = np.flatnonzero(base.active.ravel())
    for end, condition in enumerate(at_ends):
        if isinstance(condition, DirichletPart):
            continue
        cells.append(columns * nodes + height.last[end])
        parts += [ENDS[end]] * len(columns)
        areas.append(base.measure.ravel()[columns])
        places = _spatial(base.nodes[columns])
        places[:, 2] = height.ends[end]
        middles.append(places)
        normals.append(np.tile([0.0, 0.0, 2.0 * end - 1], (len(columns), 1)))
    return Pieces(
        np.concatenate(cells), tuple(parts), np.concatenate(areas), np.concatenate(middles), np.concatenate(normals)
    )


def _spatial(vectors: Float[np.ndarray, "*item axis"]) -> Float[np.ndarray, "*item axis"]:
    """With a third coordinate, 0."""
    return np.concatenate([vectors, np.zeros((*vectors.shape[:-1], 1))], axis=-1)

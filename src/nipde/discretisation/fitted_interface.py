"""Interfaces where a coefficient b(x, y) jumps between nodes: squares that one crosses become triangles that end at it.

Resistances in series along links are of first order there: flow along an oblique interface takes no link. A square of
four whole links that an interface crosses is halved along a diagonal, and each half is cut along the chord of the
interface. Where it meets links and diagonals are further unknowns. Linear functions on these triangles are continuous,
so the error is of second order, and triangles have links as well: A stays symmetric, its columns sum to 0.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from jaxtyping import Bool, Float, Int

from nipde.discretisation.cut_cells import CutCells
from nipde.discretisation.links import OnLinks
from nipde.discretisation.load_case import Function

#: An edge is bisected so often; log b jumps by this at least, and varies beside the jump by at most this share of it.
BISECTIONS, LEAST_JUMP, MOST_VARIATION = 40, 1e-3, 0.5
#: Interfaces come no nearer to a node than this, in spacings.
NEAREST = 1e-6
#: Corners of a square in units of the spacings; its edges, in the direction of its links, and its diagonal; and which
#: of them are those of each half.
CORNERS = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
EDGES = ((0, 1), (1, 2), (3, 2), (0, 3), (0, 2))
HALVES = ((0, 1, 2), (0, 2, 3))
EDGES_OF_HALVES = ((0, 1, 4), (2, 3, 4))


@dataclass(frozen=True, eq=False)
class Jumps:
    """Where b jumps on edges: the share of the edge before it, and b on either side of it."""

    present: Bool[np.ndarray, "*edge"]
    share: Float[np.ndarray, "*edge"]
    before: Float[np.ndarray, "*edge"]
    after: Float[np.ndarray, "*edge"]

    def of(self, edges: Int[np.ndarray, "*other"]) -> Self:
        """Of some edges."""
        return type(self)(*(getattr(self, field.name)[edges] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class FittedInterface:
    """Links of triangles, and whole links that they replace, or one half of these."""

    #: Positions of the further unknowns, numbered after all nodes of the grid.
    places: Float[np.ndarray, "place axis"]
    first: Int[np.ndarray, " link"]
    second: Int[np.ndarray, " link"]
    conductance: OnLinks
    #: Of the plain links: whether the lower half of each, and its upper, is replaced.
    replaced: Bool[np.ndarray, "plain 2"]


def fitted_interface(cells: CutCells, coefficient: Function) -> FittedInterface | None:
    """Of a function on the cells of a plane specimen; None where it jumps nowhere between whole links."""
    corners, edges = _whole_squares(cells)
    if not len(corners):
        return None

    def at(places: Float[np.ndarray, "*place axis"]) -> Float[np.ndarray, "*place"]:
        values = np.asarray(coefficient(*np.moveaxis(places, -1, 0)), dtype=np.float64)
        return np.broadcast_to(values, places.shape[:-1])

    pairs = np.concatenate([
        np.stack([cells.links.first, cells.links.second], axis=-1)[edges.ravel()].reshape(-1, 2), corners[:, [0, 2]]
    ])  # fmt: skip
    pairs, number = np.unique(pairs, axis=0, return_inverse=True)
    number = number.ravel()
    of_squares = np.concatenate([number[: edges.size].reshape(edges.shape), number[edges.size :, None]], axis=1)
    jumps = jumps_between(at, cells.nodes[pairs[:, 0]], cells.nodes[pairs[:, 1]])
    met = jumps.present[of_squares]
    counts = np.stack([met[:, list(one)].sum(axis=1) for one in EDGES_OF_HALVES], axis=-1)
    crossed = np.flatnonzero(np.all((counts == 0) | (counts == 2), axis=1) & met.any(axis=1))
    if not len(crossed):
        return None
    corners, edges, of_squares = corners[crossed], edges[crossed], of_squares[crossed]
    used, place = np.unique(of_squares[met[crossed]], return_inverse=True)
    share = jumps.share[used, None]
    places = (1 - share) * cells.nodes[pairs[used, 0]] + share * cells.nodes[pairs[used, 1]]
    numbers = np.full(of_squares.shape, -1)
    numbers[met[crossed]] = cells.grid.size + place.ravel()
    triangles = _triangles(corners, numbers, jumps.of(of_squares), at(cells.nodes[corners]))
    replaced = np.zeros((len(cells.links.first), 2), dtype=bool)
    for column, half in enumerate((1, 0, 0, 1)):  # above the lowest edge, left of the right one, ...
        replaced[edges[:, column], half] = True
    return FittedInterface(places, *_links(triangles, np.concatenate([cells.nodes, places])), replaced)


def jumps_between(
    at: Callable[[np.ndarray], np.ndarray], starts: Float[np.ndarray, "edge axis"], ends: Float[np.ndarray, "edge axis"]
) -> Jumps:
    """By bisection of edges between whose ends b differs; only one jump that makes up most of the difference counts."""
    first, last = np.log(at(starts)), np.log(at(ends))
    low, high = np.zeros(len(first)), np.ones(len(first))
    before, after = first.copy(), last.copy()
    left = np.flatnonzero(np.abs(last - first) > LEAST_JUMP)
    for _ in range(BISECTIONS):
        middle = (low[left] + high[left]) / 2
        value = np.log(at((1 - middle[:, None]) * starts[left] + middle[:, None] * ends[left]))
        upper = np.abs(after[left] - value) > np.abs(value - before[left])
        low[left], before[left] = np.where(upper, middle, low[left]), np.where(upper, value, before[left])
        high[left], after[left] = np.where(upper, high[left], middle), np.where(upper, after[left], value)
        left = left[np.abs(after[left] - before[left]) > LEAST_JUMP]
    jump, rest = np.abs(after - before), np.abs(before - first) + np.abs(last - after)
    present = np.zeros(len(first), dtype=bool)
    present[left] = rest[left] <= MOST_VARIATION * jump[left]
    return Jumps(present, np.clip(low, NEAREST, 1 - NEAREST), np.exp(before), np.exp(after))


def _whole_squares(cells: CutCells) -> tuple[Int[np.ndarray, "square corner"], Int[np.ndarray, "square edge"]]:
    """Nodes and links of squares whose links nothing cuts."""
    links, grid = cells.links, cells.grid
    axis = np.argmax(np.abs(links.along), axis=1)
    spacing = np.array(grid.spacing)
    whole = (links.second >= 0) & (links.contact == 0) & (np.abs(links.area - spacing[1 - axis]) < 1e-9 * spacing.min())
    whole &= np.abs(links.length - spacing[axis]) < 1e-9 * spacing.min()
    from_node = np.full((2, grid.size), -1)
    from_node[axis[whole], links.first[whole]] = np.flatnonzero(whole)
    nodes = np.arange(grid.size).reshape(grid.shape)
    across, along = (count - 1 for count in grid.shape)
    corners = np.stack([nodes[i : i + across, j : j + along].ravel() for i, j in CORNERS.tolist()], axis=-1)
    first, second, _, last = corners.T
    edges = np.stack([from_node[0, first], from_node[1, second], from_node[0, last], from_node[1, first]], axis=-1)
    kept = np.all(edges >= 0, axis=1)
    return corners[kept], edges[kept]


def _triangles(
    corners: Int[np.ndarray, "square corner"], numbers: Int[np.ndarray, "square edge"], jumps: Jumps,
    at_corners: Float[np.ndarray, "square corner"],
) -> list[tuple[Int[np.ndarray, "triangle 3"], Float[np.ndarray, " triangle"]]]:  # fmt: skip
    """Unknowns of all triangles, and b of each: the mean of its values at them, on its side of the interface."""
    triangles = []
    for half, of_half in zip(HALVES, EDGES_OF_HALVES, strict=True):
        met = jumps.present[:, list(of_half)]
        plain = ~met.any(axis=1)
        triangles.append((corners[plain][:, list(half)], at_corners[plain][:, list(half)].mean(axis=1)))
        for alone in half:
            one, other = (corner for corner in half if corner != alone)
            sides = [_edge(alone, corner) for corner in (one, other)]
            mine = np.all([jumps.present[:, edge] for edge, _ in sides], axis=0)
            near, far, cuts = [], [], []
            for edge, forwards in sides:
                beside = (jumps.before[mine, edge], jumps.after[mine, edge])
                near.append(beside[0] if forwards else beside[1])
                far.append(beside[1] if forwards else beside[0])
                cuts.append(numbers[mine, edge])
            tip, left, right = (corners[mine, corner] for corner in (alone, one, other))
            at_tip, at_left, at_right = (at_corners[mine, corner] for corner in (alone, one, other))
            triangles += [
                (np.stack([tip, *cuts], axis=-1), (at_tip + near[0] + near[1]) / 3),
                (np.stack([cuts[0], left, right], axis=-1), (far[0] + at_left + at_right) / 3),
                (np.stack([cuts[0], right, cuts[1]], axis=-1), (far[0] + at_right + far[1]) / 3),
            ]
    return triangles


def _edge(start: int, end: int) -> tuple[int, bool]:
    """Its number, and whether it goes from start to end."""
    return (EDGES.index((start, end)), True) if (start, end) in EDGES else (EDGES.index((end, start)), False)


def _links(
    triangles: list[tuple[np.ndarray, np.ndarray]], places: Float[np.ndarray, "unknown axis"]
) -> tuple[np.ndarray, np.ndarray, OnLinks]:
    """Along the sides of triangles: b over two times the cotangent of the angle across."""
    numbers, coefficient = (np.concatenate([one[k] for one in triangles]) for k in (0, 1))
    parts = []
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        from_tip = places[numbers[:, [i, j]]] - places[numbers[:, [k]]]
        (x, y), (u, v) = np.moveaxis(from_tip, (1, 2), (0, 1))
        cotangent = (x * u + y * v) / np.maximum(np.abs(x * v - y * u), 1e-300)
        parts.append((numbers[:, i], numbers[:, j], coefficient * cotangent / 2))
    first, second, conductance = (np.concatenate([one[k] for one in parts]) for k in range(3))
    return first, second, conductance

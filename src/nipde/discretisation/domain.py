"""Where a law is solved: a box of nodes, or a specimen of any shape on such a box. Both are cells and links."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Bool, Float, Int

from nipde.discretisation.cut_cells import CutCells, cut_cells
from nipde.discretisation.interpolation import Interpolation, extension_from, moments_on
from nipde.discretisation.links import Links, OnLinks, links_of
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, RobinPart, Specimen, Terminal
from nipde.errors import GridError
from nipde.grid import Grid


@dataclass(frozen=True, eq=False)
class Domain:
    """Links with the conductance area / (contact + length · mean of 1/b), and what lies around them."""

    grid: Grid
    links: Links
    area: OnLinks
    length: OnLinks
    contact: OnLinks
    #: Of every node: what a load density acts on.
    volume: Float[np.ndarray, "*space"]
    #: Values at all nodes of the box from the unknown ones; ghost nodes beyond an outline are extrapolated.
    to_nodes: sparse.csr_array
    #: What ghost nodes get from the values given at the ends of links.
    from_given: sparse.csr_array
    #: None of a box.
    cells: CutCells | None = None


@lru_cache(maxsize=8)
def domain_of(grid: Grid, specimen: Specimen | None = None) -> Domain:
    """Of a box, its boundaries those of the axes; or of a specimen on it, where these do not matter."""
    if specimen is None:
        links = links_of(grid)
        none, size = np.zeros(len(links.area)), len(links.unknown)
        shape = (grid.size, size)
        to_nodes = sparse.csr_array((np.ones(size), (links.unknown, np.arange(size))), shape=shape)
        nothing = sparse.csr_array((grid.size, len(none)))
        return Domain(grid, links, links.area, links.distance, none, grid.weights, to_nodes, nothing)
    cells = cut_cells(grid, specimen.shape, specimen.conditions)
    if any(isinstance(one, Terminal) for one in cells.conditions.values()):
        raise GridError(expected="parts without terminals", got="a terminal", remedy="use nipde.physics.conduction")
    if not any(isinstance(one, DirichletPart | RobinPart) for one in cells.conditions.values()):
        raise GridError(
            expected="a Dirichlet or Robin part", got="none: the response is known up to a constant only",
            remedy="say which part of the outline has a given value",
        )  # fmt: skip
    cut = cells.links
    if cells.active.all():
        raise GridError(expected="a box larger than the shape", got="the same", remedy="leave a spacing on every side")
    # A link to the outline ends in a cell whose value is given: any that is not active.
    given = int(np.argmin(cells.active))
    links = Links(
        grid, cut.first, np.where(cut.second < 0, given, cut.second), area=cut.area,
        distance=np.maximum(np.abs(cut.length), 1e-12 * min(grid.spacing)), axis=np.argmax(np.abs(cut.along), axis=1),
        volume=cells.volume.ravel(), unknown=cells.active.ravel(),
    )  # fmt: skip
    to_nodes, from_given = _ghost_nodes(cells, links)
    return Domain(grid, links, cut.area, cut.length, cut.contact, cells.volume, to_nodes, from_given, cells)


def known_loads(
    loads: Float[np.ndarray, "pair *space"], grid: Grid, specimen: Specimen | None
) -> Bool[np.ndarray, "*space"] | None:
    """Nodes inside a specimen, and others where some load is not 0: there densities are known. None of a box."""
    return None if specimen is None else specimen.shape.holds_nodes(grid) | np.any(loads != 0, axis=0)


def load_moments(
    loads: Float[np.ndarray, "pair *space"], grid: Grid, domain: Domain, kind: Interpolation, *, split: bool = True,
    known: Bool[np.ndarray, "*space"] | None = None,
) -> Float[np.ndarray, "unknown pair"]:  # fmt: skip
    """Cell integrals of load densities at the nodes of a grid on the same box, one column per pair.

    Densities go on from the `known` nodes to the others; where `known` is None, all are.
    """
    extend = None if known is None or kind == "points" else extension_from(known, grid)
    loads = loads if extend is None else extend(loads)
    moments = moments_on(loads, grid, to=domain.grid, kind=kind, split=split, volume=domain.volume)
    return np.asarray(domain.to_nodes.T @ moments.reshape(len(loads), -1).T)


@dataclass(frozen=True, eq=False)
class OutlineData:
    """Loads on the outline of a domain: flows into unknown cells, and values at the ends of links, by pair."""

    moments: Float[np.ndarray, "unknown pair"]
    given: Float[np.ndarray, "link pair"]

    @classmethod
    def of(cls, cases: Sequence[LoadCase], domain: Domain) -> "OutlineData | None":
        """None where nothing acts on the outline."""
        cells = domain.cells
        if cells is None or not any(case.values or case.fluxes or case.totals for case in cases):
            return None
        for case in cases:
            case.check(cells.conditions)
        flows = np.stack([case.inflow(cells)[domain.links.unknown] for case in cases], axis=1)
        return cls(flows, np.stack([case.given(cells) for case in cases], axis=1))


def right_side(
    moments: Float[np.ndarray, "unknown pair"], outline: OutlineData | None, difference: sparse.csr_array,
    conductances: OnLinks,
) -> Float[np.ndarray, "unknown pair"]:  # fmt: skip
    """What flows into unknown cells: loads inside, fluxes of the outline, and c g from its given values."""
    if outline is None:
        return moments
    return np.asarray(moments + outline.moments + difference.T @ (conductances[:, None] * outline.given))


def _ghost_nodes(cells: CutCells, links: Links) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Values at all nodes: unknown ones, and ghost nodes next to them, by linear extrapolation through the outline.

    With a Dirichlet part of value g at the share θ of a spacing from the last node, u_beyond = (2 g - (1 - θ) u_behind)
    / (1 + θ), u_behind that of the node before the last: g at the outline. Elsewhere u_beyond = 2 u_last - u_behind.
    Returned are the matrices of the unknown values and of the values given on links.
    """
    grid, cut, active = cells.grid, cells.links, cells.active
    number = np.full(grid.size, -1)
    number[links.unknown] = np.arange(len(links.unknown))
    number = number.reshape(grid.shape)
    shares = {}
    for link in np.flatnonzero(cut.second < 0).tolist():
        along = cut.along[link]
        axis = int(np.argmax(np.abs(along)))
        if along[1 - axis] == 0:  # to a Dirichlet part, along an axis
            shares[int(cut.first[link]), axis, int(np.sign(along[axis]))] = (
                link,
                float(cut.length[link] / grid.spacing[axis]),
            )
    rows: dict[int, list[tuple[dict[int, float], int, float]]] = {}
    for axis in range(2):
        for sign in (1, -1):
            step = np.eye(2, dtype=int)[axis] * sign
            for place in _rim(active):
                beyond, behind = place + step, place - step
                if np.any(beyond < 0) or np.any(beyond >= grid.shape) or active[tuple(beyond)]:
                    continue
                there = np.all(behind >= 0) and np.all(behind < grid.shape) and active[tuple(behind)]
                mine, back = int(number[tuple(place)]), int(number[tuple(behind)]) if there else -1
                link, theta = shares.get((int(np.ravel_multi_index(place, grid.shape)), axis, sign), (-1, 0.0))
                if link >= 0:
                    slope = (1 - theta) / ((1 + theta) if there else max(theta, 0.1))
                    weights = {back if there else mine: -slope}
                    found = (weights, link, 1 + slope)
                else:
                    found = ({mine: 2.0, back: -1.0} if there else {mine: 1.0}, -1, 0.0)
                rows.setdefault(int(np.ravel_multi_index(beyond, grid.shape)), []).append(found)
    of_unknown = [(int(node), at, 1.0) for at, node in enumerate(links.unknown)]
    of_given: list[tuple[int, int, float]] = []
    for node, each in rows.items():
        for weights, link, share in each:
            of_unknown += [(node, at, value / len(each)) for at, value in weights.items()]
            of_given += [(node, link, share / len(each))] if link >= 0 else []
    both = [_matrix(of_unknown, (grid.size, len(links.unknown))), _matrix(of_given, (grid.size, len(cut.first)))]
    corners = _corner_nodes(active, {*links.unknown.tolist(), *rows})
    return sparse.csr_array(corners @ both[0]), sparse.csr_array(corners @ both[1])


def _corner_nodes(active: Bool[np.ndarray, "*space"], valued: set[int]) -> sparse.csr_array:
    """From all nodes to all nodes. Across a corner from an active one, u = u_first + u_second - u_active.

    First and second are the neighbours of both.
    """
    entries = [(node, node, 1.0) for node in valued]
    found: dict[int, list[tuple[int, int, int]]] = {}
    for step in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        for place in _rim(active):
            ends = tuple(place + np.array(one) for one in (step, (step[0], 0), (0, step[1])))
            if all(np.all(end >= 0) and np.all(end < active.shape) for end in ends):
                corner, first, second = (int(np.ravel_multi_index(end, active.shape)) for end in ends)
                if corner not in valued and first in valued and second in valued:
                    found.setdefault(corner, []).append((first, second, int(np.ravel_multi_index(place, active.shape))))
    for corner, each in found.items():
        for first, second, place in each:
            share = 1 / len(each)
            entries += [(corner, first, share), (corner, second, share), (corner, place, -share)]
    return _matrix(entries, (active.size, active.size))


def _rim(active: Bool[np.ndarray, "*space"]) -> Int[np.ndarray, "node axis"]:
    """Active nodes next to one that is not, or across a corner from it."""
    from scipy.ndimage import binary_erosion

    return np.argwhere(active & ~binary_erosion(active, np.ones((3, 3), dtype=bool), border_value=1))


def _matrix(entries: list[tuple[int, int, float]], shape: tuple[int, int]) -> sparse.csr_array:
    table = np.array(entries, dtype=np.float64).reshape(-1, 3)
    return sparse.csr_array((table[:, 2], tuple(table[:, :2].T.astype(int))), shape=shape)

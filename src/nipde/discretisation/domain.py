"""Where a law is solved: a box of nodes, or a specimen of any shape on such a box. Both are cells and links."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.discretisation.cut_cells import CutCells, cut_cells
from nipde.discretisation.interpolation import Interpolation, extended, moments_on
from nipde.discretisation.links import Links, OnLinks, links_of
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
        return Domain(grid, links, links.area, links.distance, none, grid.weights, to_nodes)
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
    return Domain(grid, links, cut.area, cut.length, cut.contact, cells.volume, _ghost_nodes(cells, links), cells)


def load_moments(
    loads: Float[np.ndarray, "pair *space"], grid: Grid, domain: Domain, kind: Interpolation, *, split: bool = True
) -> Float[np.ndarray, "unknown pair"]:
    """Cell integrals of load densities at the nodes of a grid on the same box, one column per pair.

    Outside of a specimen they go on from the inside where all of them are 0.
    """
    if domain.cells is not None and kind != "points":
        loads = extended(loads, grid, domain.cells.shape.holds_nodes(grid) | np.any(loads != 0, axis=0))
    moments = moments_on(loads, grid, to=domain.grid, kind=kind, split=split, volume=domain.volume)
    return np.asarray(domain.to_nodes.T @ moments.reshape(len(loads), -1).T)


def _ghost_nodes(cells: CutCells, links: Links) -> sparse.csr_array:
    """Values at all nodes: unknown ones, and ghost nodes next to them, by linear extrapolation through the outline.

    With a Dirichlet part at the share θ of a spacing from the last node, u = -(1 - θ)/(1 + θ) u_behind beyond it,
    u_behind that of the node before the last: 0 at the outline. Elsewhere u = 2 u_last - u_behind.
    """
    grid, cut, active = cells.grid, cells.links, cells.active
    number = np.full(grid.size, -1)
    number[links.unknown] = np.arange(len(links.unknown))
    number = number.reshape(grid.shape)
    shares = {}
    for first, along, length in zip(
        *(part[cut.second < 0] for part in (cut.first, cut.along, cut.length)), strict=True
    ):
        axis = int(np.argmax(np.abs(along)))
        if along[1 - axis] == 0:  # to a Dirichlet part, along an axis
            shares[int(first), axis, int(np.sign(along[axis]))] = length / grid.spacing[axis]
    rows: dict[int, list[dict[int, float]]] = {}
    for axis in range(2):
        for sign in (1, -1):
            step = np.eye(2, dtype=int)[axis] * sign
            for place in np.argwhere(active):
                beyond, behind = place + step, place - step
                if np.any(beyond < 0) or np.any(beyond >= grid.shape) or active[tuple(beyond)]:
                    continue
                there = np.all(behind >= 0) and np.all(behind < grid.shape) and active[tuple(behind)]
                mine, back = int(number[tuple(place)]), int(number[tuple(behind)]) if there else -1
                theta = shares.get((int(np.ravel_multi_index(place, grid.shape)), axis, sign))
                if theta is not None:
                    weights = {back: -(1 - theta) / (1 + theta)} if there else {mine: -(1 - theta) / max(theta, 0.1)}
                else:
                    weights = {mine: 2.0, back: -1.0} if there else {mine: 1.0}
                rows.setdefault(int(np.ravel_multi_index(beyond, grid.shape)), []).append(weights)
    entries = [(int(node), at, 1.0) for at, node in enumerate(links.unknown)]
    for node, found in rows.items():
        for weights in found:
            entries += [(node, at, value / len(found)) for at, value in weights.items()]
    where, at, values = (np.array(part) for part in zip(*entries, strict=True))
    return sparse.csr_array((values, (where, at)), shape=(grid.size, len(links.unknown)))

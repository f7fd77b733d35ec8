"""Where a law is solved: a box of nodes, or a specimen of any shape on such a box. Both are cells and links."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Bool, Float

from nipde.discretisation.cut_cells import CutCells, cut_cells
from nipde.discretisation.ghost_nodes import ghost_nodes
from nipde.discretisation.interpolation import Interpolation, extension_from, moments_on
from nipde.discretisation.links import Links, OnLinks, links_of
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, RobinPart, Specimen, Terminal
from nipde.discretisation.prism_cells import prism_cells
from nipde.errors import GridError
from nipde.grid import Grid
from nipde.prism import Prism


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
    cells = cells_of_specimen(grid, specimen)
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
    to_nodes, from_given = ghost_nodes(cells)
    to_nodes = sparse.csr_array(to_nodes[:, links.unknown])
    return Domain(grid, links, cut.area, cut.length, cut.contact, cells.volume, to_nodes, from_given, cells)


def cells_of_specimen(grid: Grid, specimen: Specimen) -> CutCells:
    """Of any shape."""
    if isinstance(specimen.shape, Prism):
        return prism_cells(grid, specimen.shape, specimen.conditions)
    return cut_cells(grid, specimen.shape, specimen.conditions)


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

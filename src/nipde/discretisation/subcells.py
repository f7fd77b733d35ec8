"""Conductances of a coefficient that varies below the grid: resistances in series along a link, links in parallel.

    c = area · mean over the face of (contact + length · mean along the link of 1/b)⁻¹

b is taken at a lattice of points around every link. An interface that passes between two nodes then changes the
conductances as it moves, where a coefficient at the nodes would only jump.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.discretisation.domain import Domain, domain_of
from nipde.discretisation.interpolation import multilinear
from nipde.discretisation.links import OnLinks, conductances_in_series, links_of
from nipde.discretisation.parts import Specimen
from nipde.grid import Grid

AtPoints = Float[np.ndarray, " point"]


@dataclass(frozen=True, eq=False)
class Subcells:
    """Points around the links of a domain; fields on another grid of the same box reach them by B."""

    domain: Domain
    #: Points along every axis of a link's surroundings.
    per_axis: int
    #: B.
    interpolation: sparse.csr_array

    def conductances(self, log_coefficient: AtPoints) -> tuple[OnLinks, AtPoints]:
        """c of every link, and its derivative by log b at each of the link's points."""
        resistance = np.exp(-log_coefficient).reshape(-1, self.per_axis, self._across)
        area, length, contact = self.domain.area, self.domain.length, self.domain.contact
        conductances, slopes = conductances_in_series(resistance, area=area, length=length, contact=contact)
        return conductances, slopes.reshape(-1)

    def gathered(self, slopes: AtPoints) -> sparse.csr_array:
        """Links × points: the slopes in the row of their link."""
        each = self.per_axis * self._across
        starts = np.arange(0, len(slopes) + 1, each)
        return sparse.csr_array((slopes, np.arange(len(slopes)), starts), shape=(len(starts) - 1, len(slopes)))

    @property
    def _across(self) -> int:
        return self.per_axis ** (self.domain.grid.dimension - 1)


@lru_cache(maxsize=8)
def subcells_of(grid: Grid, nodes: Grid, per_axis: int, specimen: Specimen | None = None) -> Subcells:
    """Of a grid or of a specimen on it, for fields on `nodes`; built once."""
    domain = domain_of(grid, specimen)
    points = _points(grid, per_axis) if domain.cells is None else domain.cells.points(per_axis)
    ends = [axis.length for axis in grid.axes]
    return Subcells(domain, per_axis, multilinear(nodes, np.clip(points.reshape(-1, grid.dimension), 0, ends)))


def _points(grid: Grid, per_axis: int) -> Float[np.ndarray, "link point axis"]:
    """Around the links of a box."""
    links = links_of(grid)
    first = np.stack(np.unravel_index(links.first, grid.shape), axis=-1)
    inside = (np.arange(per_axis) + 0.5) / per_axis
    lattice = np.stack(np.meshgrid(inside, *[inside] * (grid.dimension - 1), indexing="ij"), -1)
    points = np.empty((len(first), per_axis**grid.dimension, grid.dimension))
    for place in range(grid.dimension):
        mine = links.axis == place
        order = [place, *(other for other in range(grid.dimension) if other != place)]
        for number, direction in enumerate(order):
            axis, at = grid.axes[direction], first[mine, direction][:, None]
            share = lattice[..., number].reshape(-1)
            if direction == place:
                steps = at + share
            else:  # across: the cell of the node, which ends at a side
                low, high = np.maximum(at - 0.5, 0), np.minimum(at + 0.5, axis.intervals)
                if axis.boundary.periodic:
                    low, high = at - 0.5, at + 0.5
                steps = low + (high - low) * share
            position = steps * axis.spacing
            points[mine, :, direction] = position % axis.length if axis.boundary.periodic else position
    return points

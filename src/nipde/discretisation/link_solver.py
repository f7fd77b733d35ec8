"""A⁻¹ of links between neighbouring nodes of a grid: sparse factors, or multigrid where these would be too large."""

from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.discretisation.links import Links, OnLinks, blocks, factorised
from nipde.discretisation.multigrid import StencilSolver
from nipde.discretisation.stencil import Line, Offset, Stencil
from nipde.errors import SolverError

#: Residual of conjugate gradients over the load: far below any noise.
TOLERANCE = 1e-10
Columns = Float[np.ndarray, "unknown column"]


class Inverse(Protocol):
    """What SuperLU has as well."""

    def solve(self, rhs: Columns) -> Columns:
        """A⁻¹ of every column."""


def inverse_of(links: Links, conductances: OnLinks) -> Inverse:
    """Of A = Dᵀ diag(c) D on the unknown cells."""
    if links.too_large:
        return MultigridInverse(links, conductances)
    return FactorisedInverse(links, conductances)


class FactorisedInverse:
    """By sparse factors, block by block of right-hand sides."""

    def __init__(self, links: Links, conductances: OnLinks) -> None:
        try:
            self.factor = factorised(links.assemble(conductance=conductances), symmetric=True)
        except RuntimeError as error:
            raise SolverError(
                expected="conductances whose matrix has a factor",
                got=str(error),
                remedy="take a less extreme coefficient",
            ) from error

    def solve(self, rhs: Columns) -> Columns:
        """To rounding."""
        found = np.empty(rhs.shape, order="F")
        for block in blocks(rhs.shape[1], len(rhs)):
            found[:, block] = self.factor.solve(rhs[:, block])
        return found


class MultigridInverse:
    """By conjugate gradients; cells that are not unknown stand alone."""

    def __init__(self, links: Links, conductances: OnLinks) -> None:
        self.unknown, self.shape = links.unknown, links.grid.shape
        self._solve = StencilSolver(_stencil(links, conductances), tolerance=TOLERANCE)

    def solve(self, rhs: Columns) -> Columns:
        """To the tolerance."""
        moments = np.zeros((rhs.shape[1], int(np.prod(self.shape))))
        moments[:, self.unknown] = rhs.T
        found = self._solve(torch.from_numpy(moments).view(1, -1, *self.shape)).view(moments.shape).numpy()
        return np.ascontiguousarray(found[:, self.unknown].T)


def _stencil(links: Links, conductances: OnLinks) -> Stencil:
    """Over all nodes of the grid."""
    grid, size = links.grid, links.grid.size
    is_unknown = np.zeros(size, dtype=bool)
    is_unknown[links.unknown] = True
    diagonal = sum(np.bincount(ends, conductances, minlength=size) for ends in (links.first, links.second))
    couplings: dict[Offset, Any] = {}
    inner = is_unknown[links.first] & is_unknown[links.second]
    for place in range(grid.dimension):
        mine = inner & (links.axis == place)
        entries = np.zeros(size)
        entries[links.first[mine]] = -conductances[mine]
        couplings[tuple(int(place == other) for other in range(grid.dimension))] = _at_nodes(entries, grid.shape)
    lines = tuple(Line(axis.nodes, axis.spacing, axis.boundary.periodic, 0) for axis in grid.axes)
    return Stencil(lines, _at_nodes(np.where(is_unknown, diagonal, 1.0), grid.shape), couplings)


def _at_nodes(values: Float[np.ndarray, " node"], shape: tuple[int, ...]) -> Float[Tensor, "1 1 *space"]:
    return torch.from_numpy(values).view(1, 1, *shape)

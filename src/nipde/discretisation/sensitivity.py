"""Derivative of A(b) u by log b: c = s·mean(b_first, b_second) on every link, δ(A u) = Dᵀ(D u · δc), δc = S δ log b.

Only links that touch an unknown cell enter. Columns are pairs. The torch side is in `operator`.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.discretisation.links import FaceMean, OnLinks, links_of
from nipde.grid import Grid

#: A NumPy array or a torch tensor.
Matrix = TypeVar("Matrix", bound=Any)


class Conductances:
    """How the conductances of the entering links follow from log b in the cells."""

    def __init__(self, grid: Grid, mean: FaceMean) -> None:
        links = links_of(grid)
        unknown = grid.unknown.reshape(-1)
        entering = unknown[links.first] | unknown[links.second]
        self.links, self.mean = links, mean
        self.first, self.second = links.first[entering], links.second[entering]
        self.factor = links.factor[entering]
        #: D, from unknown cells to entering links.
        self.difference = links.difference[entering][:, links.unknown].tocsr()

    def __call__(self, log_coefficient: Float[np.ndarray, " cell"]) -> OnLinks:
        """Flow through every entering link per unit of difference."""
        coefficient = np.exp(log_coefficient)
        return self.mean(coefficient[self.first], coefficient[self.second]) * self.factor

    def slopes(self, log_coefficient: Float[np.ndarray, " cell"]) -> sparse.csr_array:
        """S = ∂c / ∂ log b, links × cells: two entries per link."""
        coefficient = np.exp(log_coefficient)
        both = self.mean.log_slopes(coefficient[self.first], coefficient[self.second])
        entries = np.concatenate([slope * self.factor for slope in both])
        rows = np.tile(np.arange(len(self.first)), 2)
        columns = np.concatenate([self.first, self.second])
        return sparse.csr_array((entries, (rows, columns)), shape=(len(self.first), len(log_coefficient)))


@lru_cache(maxsize=8)
def conductances_of(grid: Grid, mean: FaceMean) -> Conductances:
    """Of a grid and a mean, built once."""
    return Conductances(grid, mean)


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """J = ∂(A u)/∂ log b for given responses u, one column per pair."""

    #: D.
    difference: sparse.csr_array
    #: S.
    slopes: sparse.csr_array
    #: D u.
    drops: Float[np.ndarray, "link pair"]

    def jvp(self, change: Float[np.ndarray, " cell"]) -> Float[np.ndarray, "unknown pair"]:
        """J times a change of log b."""
        return self.difference.T @ (self.drops * (self.slopes @ change)[:, None])

    def vjp(self, adjoint: Float[np.ndarray, "unknown pair"]) -> Float[np.ndarray, " cell"]:
        """Jᵀ times one field per pair."""
        return np.asarray(self.slopes.T @ np.einsum("lp,lp->l", self.drops, self.difference @ adjoint))

    def gram(self, inner: Float[np.ndarray, "unknown unknown"]) -> Float[np.ndarray, "cell cell"]:
        """Jᵀ (inner of every pair) J; however many pairs, one product."""
        return gram(self.slopes, np.asarray(self.difference @ (self.difference @ inner).T), self.drops)


def gram(slopes: Any, between: Matrix, drops: Matrix) -> Matrix:
    """Sᵀ [(D inner Dᵀ) ∘ (v vᵀ)] S with `between` = D inner Dᵀ and v = `drops`; of arrays or of tensors."""
    outer = drops @ drops.T
    outer *= between
    del between  # as large as all pairs of links
    return slopes.T @ (slopes.T @ outer).T

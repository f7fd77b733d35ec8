"""A linear balance law A u = ∫_cell f on a grid: factor once, solve for all loads at once.

A is the outflow of every unknown cell, so u = A⁻¹ W f and the Green's density of the law is G = A⁻¹:
u(x) = ∫ G(x, y) f(y) dy in the grid's quadrature.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.sparse.linalg import SuperLU

from nipde.discretisation.links import blocks, factorised, links_of, solved
from nipde.errors import PhysicsError, SolverError
from nipde.grid import Grid

Fields = Float[np.ndarray, "*batch_space"]
Unknowns = Float[np.ndarray, "pair unknown"]
#: Largest relative residual a response may have to be called a solution.
RESIDUAL_LIMIT = 1e-10


@dataclass(frozen=True)
class BalanceLaw(ABC):
    """One system: its grid and, in the final classes, its coefficient fields."""

    grid: Grid

    @cached_property
    @abstractmethod
    def matrix(self) -> sparse.csc_array:
        """Outflow matrix A on the unknown cells."""

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether A is symmetric positive definite."""

    @cached_property
    def factor(self) -> SuperLU:
        """Sparse LU factors of A; see `factorised`."""
        if not any(axis.boundary.essential for axis in self.grid.axes):
            raise PhysicsError(
                expected="a Dirichlet axis", got="none: the response is fixed only up to a constant",
                remedy="give one axis a Dirichlet boundary",
            )  # fmt: skip
        return factorised(self.matrix, symmetric=self.symmetric, ordered=not links_of(self.grid).too_large)

    def solve(self, loads: Fields) -> Fields:
        """Responses to any number of loads (leading axes), in their precision; zero on Dirichlet nodes."""
        return self._solve(loads)[0]

    def residual(self, loads: Fields, responses: Fields) -> Float[np.ndarray, " *batch"]:
        """‖A u - W f‖ / ‖W f‖ of every pair; 0/0, the zero response to a zero load, is 0."""
        relative = self._residual(self._cell_loads(loads), self._unknown(responses))
        return relative.reshape(loads.shape[: loads.ndim - self.grid.dimension])

    def checked_solve(
        self, loads: Float[np.ndarray, "pair *space"]
    ) -> tuple[Float[np.ndarray, "pair *space"], Float[np.ndarray, " pair"]]:
        """Responses and their residuals, or a SolverError: nothing worse than the limit ever leaves."""
        responses, residual = self._solve(loads)
        solved = residual <= RESIDUAL_LIMIT  # false for NaN
        if not np.all(solved):
            raise SolverError(
                f"pair {int(np.argmin(solved))} is not solved",
                expected=f"relative residual <= {RESIDUAL_LIMIT:g}",
                got=f"{np.max(residual):.2e}",
                remedy="check the coefficient's contrast and the load for non-finite values",
            )
        return responses, residual

    def green(self) -> Float[np.ndarray, "node node"]:
        """Green's density G at all pairs of nodes, 1/volume times response per load; N × N, for small grids."""
        inverse = self.factor.solve(np.eye(self.matrix.shape[0]))
        if self.symmetric:
            inverse = (inverse + inverse.T) / 2  # reciprocity is exact; columns solved one by one only nearly so
        unknown = links_of(self.grid).unknown
        green = np.zeros((self.grid.size, self.grid.size))
        green[np.ix_(unknown, unknown)] = inverse
        return green

    def _solve(self, loads: Fields) -> tuple[np.ndarray, Float[np.ndarray, " pair"]]:
        """Responses and residuals, in blocks of pairs that stay in the processor's cache."""
        self.grid.check(loads)
        flat = loads.reshape(-1, *self.grid.shape)
        responses, residual = np.zeros((len(flat), self.grid.size), flat.dtype), np.empty(len(flat))
        unknown = links_of(self.grid).unknown
        for block in blocks(len(flat), len(unknown)):
            right = self._cell_loads(flat[block])
            values = solved(self.factor, right)
            residual[block] = self._residual(right, values)
            responses[block, unknown] = values
        return responses.reshape(loads.shape), residual

    def _cell_loads(self, loads: Fields) -> Unknowns:
        return self._unknown(loads) * links_of(self.grid).volume

    def _unknown(self, field: Fields) -> Unknowns:
        self.grid.check(field)
        return field.reshape(-1, self.grid.size).take(links_of(self.grid).unknown, axis=1)

    def _residual(self, right: Unknowns, values: Unknowns) -> Float[np.ndarray, " pair"]:
        defect = self.matrix @ values.T
        defect -= right.T
        error, size = (np.sqrt(np.einsum("up,up->p", defect, defect)), np.sqrt(np.einsum("pu,pu->p", right, right)))
        return np.divide(error, size, out=np.where(error > 0, np.inf, 0.0), where=size != 0)  # NaN stays NaN


def check_positive(field: Fields, name: str) -> None:
    """Raise unless a coefficient is finite and above 0 everywhere."""
    if not (np.all(np.isfinite(field)) and np.min(field) > 0):
        got, remedy = f"values from {np.min(field)} to {np.max(field)}", f"fill holes with a small positive {name}"
        raise PhysicsError(expected=f"a finite {name} > 0 at every node", got=got, remedy=remedy)

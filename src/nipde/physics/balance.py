"""A linear balance law A u = ∫_cell f on a grid: factor once, solve for all loads at once.

A is the outflow of every free node's cell, so u = A⁻¹ W f and the Green's density of the law is G = A⁻¹:
u(x) = ∫ G(x, y) f(y) dy in the grid's quadrature.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.sparse.linalg import SuperLU, splu

from nipde.errors import PhysicsError, SolverError
from nipde.grid import Grid
from nipde.physics.faces import faces_of

#: Right-hand sides solved together take about this much memory.
BLOCK_BYTES = 2**20
#: Largest relative residual a response may have to be called a solution.
RESIDUAL_LIMIT = 1e-10


@dataclass(frozen=True)
class BalanceLaw(ABC):
    """One system: its grid and, in the final classes, its coefficient fields."""

    grid: Grid

    @cached_property
    @abstractmethod
    def matrix(self) -> sparse.csc_array:
        """Outflow matrix A on the free nodes."""

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether A is symmetric positive definite."""

    @cached_property
    def factor(self) -> SuperLU:
        """Sparse LU factors of A; without pivoting, in the unknowns' own order, where A allows it."""
        if not any(axis.boundary.clamped for axis in self.grid.axes):
            raise PhysicsError(
                expected="a Dirichlet axis", got="none: the response is fixed only up to a constant",
                remedy="clamp at least one axis",
            )  # fmt: skip
        if self.symmetric:
            options = {"SymmetricMode": True}
            return splu(self.matrix, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)
        return splu(self.matrix)

    def solve(self, loads: Float[np.ndarray, "*batch_space"]) -> Float[np.ndarray, "*batch_space"]:
        """Responses to any number of loads (leading axes), in their precision; zero on clamped nodes."""
        return self._solve(loads)[0]

    def residual(
        self, loads: Float[np.ndarray, "*batch_space"], responses: Float[np.ndarray, "*batch_space"]
    ) -> Float[np.ndarray, " *batch"]:
        """‖A u - W f‖ / ‖W f‖ of every pair; 0/0, the zero response to a zero load, is 0."""
        relative = self._residual(self._cell_loads(loads), self._free(responses))
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
        unknown = faces_of(self.grid).unknown
        green = np.zeros((self.grid.size, self.grid.size))
        green[np.ix_(unknown, unknown)] = inverse
        return green

    def _solve(self, loads: Float[np.ndarray, "*batch_space"]) -> tuple[np.ndarray, Float[np.ndarray, " pair"]]:
        """Responses and residuals, in blocks of pairs that stay in the processor's cache."""
        self.grid.check(loads)
        flat = loads.reshape(-1, *self.grid.shape)
        responses, residual = np.zeros((len(flat), self.grid.size), flat.dtype), np.empty(len(flat))
        unknown = faces_of(self.grid).unknown
        step = max(8, BLOCK_BYTES // (8 * len(unknown)))
        for first in range(0, len(flat), step):
            block = slice(first, first + step)
            right = self._cell_loads(flat[block])
            free = self.factor.solve(right.T).T
            residual[block] = self._residual(right, free)
            responses[block, unknown] = free
        return responses.reshape(loads.shape), residual

    def _cell_loads(self, loads: Float[np.ndarray, "*batch_space"]) -> Float[np.ndarray, "pair unknown"]:
        return self._free(loads) * faces_of(self.grid).volume

    def _free(self, field: Float[np.ndarray, "*batch_space"]) -> Float[np.ndarray, "pair unknown"]:
        self.grid.check(field)
        return field.reshape(-1, self.grid.size).take(faces_of(self.grid).unknown, axis=1)

    def _residual(
        self, right: Float[np.ndarray, "pair unknown"], free: Float[np.ndarray, "pair unknown"]
    ) -> Float[np.ndarray, " pair"]:
        defect = self.matrix @ free.T
        defect -= right.T
        error, size = (
            np.sqrt(np.einsum("up,up->p", defect, defect)),
            np.sqrt(np.einsum("pu,pu->p", right, right)),
        )
        return np.divide(error, size, out=np.where(error > 0, np.inf, 0.0), where=size != 0)  # NaN stays NaN

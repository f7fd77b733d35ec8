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
        """Sparse LU factors of A; a symmetric ordering without pivoting where A allows it."""
        if not any(axis.boundary.clamped for axis in self.grid.axes):
            raise PhysicsError(
                expected="a Dirichlet axis", got="none: the response is fixed only up to a constant",
                remedy="clamp at least one axis",
            )  # fmt: skip
        if self.symmetric:
            options = {"SymmetricMode": True}
            return splu(self.matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
        return splu(self.matrix)

    def solve(self, loads: Float[np.ndarray, "*batch_space"]) -> Float[np.ndarray, "*batch_space"]:
        """Responses to any number of loads (leading axes); zero on clamped nodes."""
        right = self._cell_loads(loads)
        responses = np.zeros((len(right), self.grid.size))
        responses[:, faces_of(self.grid).unknown] = self.factor.solve(right.T).T
        return responses.reshape(loads.shape)

    def residual(
        self, loads: Float[np.ndarray, "*batch_space"], responses: Float[np.ndarray, "*batch_space"]
    ) -> Float[np.ndarray, " *batch"]:
        """‖A u - W f‖ / ‖W f‖ of every pair; 0/0, the zero response to a zero load, is 0."""
        self.grid.check(responses)
        right = self._cell_loads(loads)
        free = responses.reshape(-1, self.grid.size)[:, faces_of(self.grid).unknown]
        defect = np.linalg.norm((self.matrix @ free.T).T - right, axis=-1)
        size = np.linalg.norm(right, axis=-1)
        relative = np.divide(defect, size, out=np.where(defect > 0, np.inf, 0.0), where=size > 0)
        return relative.reshape(loads.shape[: loads.ndim - self.grid.dimension])

    def green(self) -> Float[np.ndarray, "node node"]:
        """Green's density G at all pairs of nodes, 1/volume times response per load; N × N, for small grids."""
        inverse = self.factor.solve(np.eye(self.matrix.shape[0]))
        if self.symmetric:
            inverse = (inverse + inverse.T) / 2  # reciprocity is exact; columns solved one by one only nearly so
        unknown = faces_of(self.grid).unknown
        green = np.zeros((self.grid.size, self.grid.size))
        green[np.ix_(unknown, unknown)] = inverse
        return green

    def _cell_loads(self, loads: Float[np.ndarray, "*batch_space"]) -> Float[np.ndarray, "pair unknown"]:
        self.grid.check(loads)
        unknown = faces_of(self.grid).unknown
        return loads.reshape(-1, self.grid.size)[:, unknown] * self.grid.weights.reshape(-1)[unknown]


def checked_solve(
    law: BalanceLaw, loads: Float[np.ndarray, "pair *space"]
) -> tuple[Float[np.ndarray, "pair *space"], Float[np.ndarray, " pair"]]:
    """Responses and their residuals, or a SolverError: nothing worse than the limit ever leaves."""
    responses = law.solve(loads)
    residual = law.residual(loads, responses)
    if not np.all(residual <= RESIDUAL_LIMIT):  # also true for NaN
        raise SolverError(
            f"pair {int(np.argmax(~(residual <= RESIDUAL_LIMIT)))} is not solved",
            expected=f"relative residual <= {RESIDUAL_LIMIT:g}",
            got=f"{np.max(residual):.2e}",
            remedy="check the coefficient's contrast and the load for non-finite values",
        )
    return responses, residual

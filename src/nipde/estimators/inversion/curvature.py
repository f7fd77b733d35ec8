"""Steps of (H + λR) s = -g and the freedom tr (H + λR)⁻¹ H: by a Cholesky factor, or by conjugate gradients.

H = Jᵀ q J is known as a matrix on small grids, and as a product on large ones.
"""

from abc import ABC, abstractmethod

import numpy as np
import scipy.linalg as dense
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator, cg, splu

from nipde.errors import SolverError
from nipde.estimators.inversion.linearisation import Linearisation

#: Beyond this many nodes matrices of all pairs of faces no longer fit; measured: products win there as well.
DENSE_UP_TO = 2500
#: Conjugate gradients stop at this relative residual: a step need not be exact.
CG_TOLERANCE = 1e-2
CG_STEPS = 100
#: Random signs that estimate a trace; the freedom is large where they are used, so few suffice.
PROBES = 4


class Curvature(ABC):
    """H at one state; R comes with every call."""

    #: Mean of H's diagonal.
    scale: float

    @abstractmethod
    def step(self, gradient: Float[np.ndarray, " node"], penalty: sparse.csr_array) -> Float[np.ndarray, " node"]:
        """-(H + penalty)⁻¹ gradient."""

    @abstractmethod
    def freedom(self, penalty: sparse.csr_array) -> float:
        """tr (H + penalty)⁻¹ H, the number of parameters that the data decide."""


class DenseCurvature(Curvature):
    """All of H."""

    def __init__(self, state: Linearisation) -> None:
        self.matrix = state.curvature()
        self.scale = float(np.trace(self.matrix)) / len(self.matrix)

    def step(self, gradient: Float[np.ndarray, " node"], penalty: sparse.csr_array) -> Float[np.ndarray, " node"]:
        """One triangular solve."""
        return -dense.cho_solve(self._factor(penalty), gradient, check_finite=False)

    def freedom(self, penalty: sparse.csr_array) -> float:
        """N - tr (H + penalty)⁻¹ penalty: only the entries of the inverse that the sparse penalty meets."""
        factor, lower = self._factor(penalty)
        inverse, _ = dense.lapack.dpotri(factor, lower=lower)
        entries = penalty.tocoo()
        rows, columns = np.maximum(entries.row, entries.col), np.minimum(entries.row, entries.col)
        held = np.sum(entries.data * (inverse[rows, columns] if lower else inverse[columns, rows]))
        return float(len(self.matrix) - held)

    def _factor(self, penalty: sparse.csr_array) -> tuple[np.ndarray, bool]:
        # The checkerboard and the corners are held by the penalty alone: rounding must not make them negative.
        for lift in (1e-15, 1e-13, 1e-11):
            total = self.matrix + penalty.toarray()
            total[np.diag_indices_from(total)] += lift * self.scale
            try:
                return dense.cho_factor(total, lower=True, overwrite_a=True, check_finite=False)
            except dense.LinAlgError:
                continue
        raise SolverError(
            "the curvature is not positive", expected="finite residuals", got=f"diagonals of mean {self.scale:g}",
            remedy="use a larger weight, or check the pairs",
        )  # fmt: skip


class IterativeCurvature(Curvature):
    """H as a product: every conjugate gradient step costs two solves per pair."""

    def __init__(self, state: Linearisation) -> None:
        self.state = state
        self.probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(PROBES, state.slopes.shape[1]))
        self.scale = float(np.mean([probe * state.product(probe) for probe in self.probes]))
        # H's diagonal is not known, but it follows the squares of what flows past a node.
        flows = state.slopes.power(2).T @ np.sum(state.drops**2, axis=1)
        self.diagonal = self.scale * np.maximum(flows / np.mean(flows), 1e-6)

    def step(self, gradient: Float[np.ndarray, " node"], penalty: sparse.csr_array) -> Float[np.ndarray, " node"]:
        """Preconditioned by the penalty plus a guess at H's diagonal."""
        return -self._solve(gradient, penalty)

    def freedom(self, penalty: sparse.csr_array) -> float:
        """N - zᵀ (H + penalty)⁻¹ penalty z, the mean over random signs z."""
        held = [probe @ self._solve(penalty @ probe, penalty) for probe in self.probes]
        return float(self.probes.shape[1] - np.mean(held))

    def _solve(self, right: np.ndarray, penalty: sparse.csr_array) -> np.ndarray:
        size = len(right)
        nearby = splu((penalty + sparse.diags_array(self.diagonal)).tocsc(), permc_spec="MMD_AT_PLUS_A")
        total = LinearOperator((size, size), matvec=lambda x: self.state.product(x) + penalty @ x, dtype=float)
        near = LinearOperator((size, size), matvec=nearby.solve, dtype=float)
        return cg(total, right, rtol=CG_TOLERANCE, maxiter=CG_STEPS, M=near)[0]


def curvature_of(state: Linearisation) -> Curvature:
    """The form that is faster for the size of the grid."""
    small = state.slopes.shape[1] <= DENSE_UP_TO
    return DenseCurvature(state) if small else IterativeCurvature(state)

"""The quadratic model near a state: r_i(log b + δ) ≈ r_i - A⁻¹ J_i δ, J = ∂(A u)/∂ log b, one column per pair i.

The same form serves the output error (A of the state, u predicted) and the equation error (A of a constant coefficient,
u measured). Mean squares are Σ q r², Σ q = 1. Steps solve (H + λR) s = -g: by a Cholesky factor on small grids, by
conjugate gradients on large ones, where H = Jᵀ A⁻¹ q A⁻¹ J is known as a product only.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg as dense
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator, cg, splu

from nipde.discretisation.sensitivity import Sensitivity
from nipde.errors import SolverError

#: More cells than this: matrices of all pairs of links no longer fit, and products are faster, too.
DENSE_UP_TO = 2500
#: Conjugate gradients stop at this relative residual: a step need not be exact.
CG_TOLERANCE = 1e-2
CG_STEPS = 100
#: Random signs that estimate a trace; F is large where they are used, so few suffice.
PROBES = 4


@dataclass(frozen=True, eq=False)
class Linearisation:
    """Value, gradient and Gauss-Newton curvature of ½ Σ q r² in log b."""

    sensitivity: Sensitivity
    #: A⁻¹, on columns.
    solve: Callable[[np.ndarray], np.ndarray]
    residual: Float[np.ndarray, "unknown pair"]
    #: q; one column if all pairs were measured at the same nodes.
    weights: Float[np.ndarray, "unknown #pair"]

    @property
    def mean_square(self) -> float:
        """Σ q r²."""
        return float(np.sum(self.weights * self.residual**2))

    def gradient(self) -> Float[np.ndarray, " cell"]:
        """-Jᵀ A⁻¹ q r: one more solve per pair, the adjoint one."""
        return -self.sensitivity.vjp(self.solve(self.weights * self.residual))

    def product(self, direction: Float[np.ndarray, " cell"]) -> Float[np.ndarray, " cell"]:
        """Jᵀ A⁻¹ q A⁻¹ J times a direction: two solves per pair, no matrix."""
        change = self.solve(self.sensitivity.jvp(direction))
        return self.sensitivity.vjp(self.solve(self.weights * change))

    def curvature(self) -> Float[np.ndarray, "cell cell"]:
        """Jᵀ A⁻¹ q A⁻¹ J, all of it."""
        if self.weights.shape[1] > 1:
            return self._pair_by_pair()
        green = self.solve(np.eye(len(self.residual)))
        return self.sensitivity.gram((green.T * self.weights[:, 0]) @ green)

    def _pair_by_pair(self) -> Float[np.ndarray, "cell cell"]:
        """Row by row, for pairs measured at different nodes."""
        slopes = self.sensitivity.slopes
        through_links = self.solve(self.sensitivity.difference.T.toarray())
        total = np.zeros((slopes.shape[1],) * 2)
        for drops, weights in zip(self.sensitivity.drops.T, self.weights.T, strict=True):
            measured = weights > 0
            rows = (slopes.T @ (through_links[measured] * drops).T) * np.sqrt(weights[measured])
            total += rows @ rows.T
        return total


class DenseCurvature:
    """All of H at one state; R comes with every call."""

    def __init__(self, state: Linearisation) -> None:
        self.matrix = state.curvature()
        self.scale = float(np.trace(self.matrix)) / len(self.matrix)

    def step(self, gradient: Float[np.ndarray, " cell"], penalty: sparse.csr_array) -> Float[np.ndarray, " cell"]:
        """-(H + penalty)⁻¹ gradient, by one triangular solve."""
        return -dense.cho_solve(self._factor(penalty), gradient, check_finite=False)

    def effective_dof(self, penalty: sparse.csr_array) -> float:
        """tr (H + penalty)⁻¹ H, the number of parameters that the data determine.

        It is N - tr (H + penalty)⁻¹ penalty: only the entries of the inverse that the sparse penalty meets count.
        """
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


class IterativeCurvature:
    """H as a product: every conjugate gradient step costs two solves per pair."""

    def __init__(self, state: Linearisation) -> None:
        self.state = state
        self.probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(PROBES, state.sensitivity.slopes.shape[1]))
        self.scale = float(np.mean([probe * state.product(probe) for probe in self.probes]))
        # H's diagonal is not known, but it follows the squares of what flows past a node.
        flows = state.sensitivity.slopes.power(2).T @ np.sum(state.sensitivity.drops**2, axis=1)
        self.diagonal = self.scale * np.maximum(flows / np.mean(flows), 1e-6)

    def step(self, gradient: Float[np.ndarray, " cell"], penalty: sparse.csr_array) -> Float[np.ndarray, " cell"]:
        """Preconditioned by the penalty plus a guess at H's diagonal."""
        return -self._solve(gradient, penalty)

    def effective_dof(self, penalty: sparse.csr_array) -> float:
        """N - zᵀ (H + penalty)⁻¹ penalty z, the mean over random signs z."""
        held = [probe @ self._solve(penalty @ probe, penalty) for probe in self.probes]
        return float(self.probes.shape[1] - np.mean(held))

    def _solve(self, right: np.ndarray, penalty: sparse.csr_array) -> np.ndarray:
        size = len(right)
        nearby = splu((penalty + sparse.diags_array(self.diagonal)).tocsc(), permc_spec="MMD_AT_PLUS_A")
        total = LinearOperator((size, size), matvec=lambda x: self.state.product(x) + penalty @ x, dtype=float)
        near = LinearOperator((size, size), matvec=nearby.solve, dtype=float)
        return cg(total, right, rtol=CG_TOLERANCE, maxiter=CG_STEPS, M=near)[0]


#: Both have `scale`, the mean of H's diagonal.
Curvature = DenseCurvature | IterativeCurvature


def curvature_of(state: Linearisation) -> Curvature:
    """The form that is faster for the size of the grid."""
    small = state.sensitivity.slopes.shape[1] <= DENSE_UP_TO
    return DenseCurvature(state) if small else IterativeCurvature(state)

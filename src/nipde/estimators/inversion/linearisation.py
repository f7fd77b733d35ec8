"""Residuals near a state: r_i(a + δ) ≈ r_i - A⁻¹ Dᵀ(v_i δ), one column per pair i, a the conductances of the faces.

v_i are the differences of response i across the faces. The same form serves the output error (A of the state, v
predicted) and the equation error (A of a constant medium, v measured). Mean squares are Σ q r², Σ q = 1.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.estimators.inversion.face_map import FaceMap


@dataclass(frozen=True, eq=False)
class Linearisation:
    """Value, gradient and Gauss-Newton curvature of ½ Σ q r² in log b."""

    faces: FaceMap
    #: A⁻¹, on columns.
    solve: Callable[[np.ndarray], np.ndarray]
    drops: Float[np.ndarray, "face pair"]
    residual: Float[np.ndarray, "free pair"]
    #: q; one column if all pairs were measured at the same nodes.
    weights: Float[np.ndarray, "free #pair"]
    #: ∂a/∂ log b.
    slopes: sparse.csr_array

    @property
    def mean_square(self) -> float:
        """Σ q r²."""
        return float(np.sum(self.weights * self.residual**2))

    def gradient(self) -> Float[np.ndarray, " node"]:
        """Jᵀ q r: one more solve per pair, the adjoint one."""
        return self._pull(self.weights * self.residual)

    def product(self, direction: Float[np.ndarray, " node"]) -> Float[np.ndarray, " node"]:
        """Jᵀ q J times a direction: two solves per pair, no matrix."""
        conductance = self.slopes @ direction
        change = self.solve(self.faces.differences.T @ (self.drops * -conductance[:, None]))
        return self._pull(self.weights * change)

    def curvature(self) -> Float[np.ndarray, "node node"]:
        """Jᵀ q J, all of it."""
        on_faces = self._alike() if self.weights.shape[1] == 1 else None
        if on_faces is None:
            return self._pair_by_pair()
        return np.asarray(self.slopes.T @ (self.slopes.T @ on_faces).T)

    def _pull(self, weighted: Float[np.ndarray, "free pair"]) -> Float[np.ndarray, " node"]:
        on_faces = np.einsum("fp,fp->f", self.drops, self.faces.differences @ self.solve(weighted))
        return np.asarray(self.slopes.T @ -on_faces)

    def _alike(self) -> Float[np.ndarray, "face face"]:
        """With one q for all pairs, (D A⁻¹ q A⁻¹ Dᵀ) ∘ (Σ_i v_i v_iᵀ): the pairs cost one product."""
        differences = self.faces.differences
        green = self.solve(np.eye(differences.shape[1]))
        inner = (green.T * self.weights[:, 0]) @ green
        outer = np.asarray(differences @ (differences @ inner).T)
        outer *= self.drops @ self.drops.T
        return outer

    def _pair_by_pair(self) -> Float[np.ndarray, "node node"]:
        """Row by row of J, for pairs measured at different nodes."""
        through_faces = self.solve(self.faces.differences.T.toarray())
        total = np.zeros((self.slopes.shape[1],) * 2)
        for drops, weights in zip(self.drops.T, self.weights.T, strict=True):
            seen = weights > 0
            rows = (self.slopes.T @ (through_faces[seen] * drops).T) * np.sqrt(weights[seen])
            total += rows @ rows.T
        return total

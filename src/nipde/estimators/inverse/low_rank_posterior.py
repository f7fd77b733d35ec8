"""Laplace approximation of many unknowns: Cov(θ) = (JᵀPJ + C⁻¹)⁻¹ = C - C^½ V diag(λ/(1+λ)) Vᵀ C^½ᵀ, never formed.

V, λ are eigenpairs of C^½ᵀ JᵀPJ C^½: how much more the readings tell about a direction than the prior. Where λ ≪ 1 the
posterior is the prior, and few directions have more. What is left out only widens the posterior.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from jaxtyping import Float

from nipde.errors import ShapeError
from nipde.estimators.inverse.randomised_eigenpairs import Eigenpairs, eigenpairs
from nipde.estimators.inverse.reading_jacobian import ReadingJacobian
from nipde.estimators.inverse.readings import Readings
from nipde.estimators.inverse.whitened_readings import WhitenedReadings
from nipde.grid import Grid

#: Directions that the readings tell less about, over the prior, are left out.
SMALLEST = 0.1
Fields = Float[np.ndarray, "column *space"]


class GaussianPrior(Protocol):
    """N(·, C) of a field at the nodes of a grid, C known by a root."""

    @property
    def grid(self) -> Grid:
        """Of the nodes."""

    def root(self, white: Fields) -> Fields:
        """C^½ ξ."""

    def root_transposed(self, fields: Fields) -> Fields:
        """C^½ᵀ of fields."""

    def variance(self) -> Float[np.ndarray, "*space"]:
        """The diagonal of C."""


@dataclass(frozen=True, eq=False)
class LowRankPosterior:
    """Of a field at the nodes of the prior's grid, around its estimate."""

    prior: GaussianPrior
    pairs: Eigenpairs

    @classmethod
    def of(
        cls, jacobian: ReadingJacobian, readings: Readings, prior: GaussianPrior, *, smallest: float = SMALLEST,
        seed: int = 0,
    ) -> "LowRankPosterior":  # fmt: skip
        """By products with J and Jᵀ; `smallest` is the λ up to which directions are left out."""
        space, size = prior.grid.shape, prior.grid.size
        if jacobian.parameters != size:
            raise ShapeError(
                "prior and readings differ", expected=f"derivatives by {size} nodes", got=jacobian.parameters,
                remedy="take the prior on the grid of the parameters",
            )  # fmt: skip
        whitened = WhitenedReadings.of(readings)

        def forward(white: np.ndarray) -> np.ndarray:
            return whitened(jacobian.jvp(prior.root(white.reshape(-1, *space)).reshape(-1, size)))

        def adjoint(rows: np.ndarray) -> np.ndarray:
            fields = jacobian.vjp(whitened.transposed(rows))
            return prior.root_transposed(fields.reshape(-1, *space)).reshape(-1, size)

        count = int(np.prod(jacobian.readings))
        return cls(
            prior, eigenpairs(forward, adjoint, unknowns=size, readings=count, smallest=smallest, seed=seed)
        )  # fmt: skip

    @property
    def rank(self) -> int:
        """Number of directions that are kept."""
        return len(self.pairs.values)

    @cached_property
    def variance(self) -> Float[np.ndarray, "*space"]:
        """Of every node: the prior's less Σ λ/(1+λ) (C^½ v)²."""
        total, first = self.prior.variance(), 0
        for vectors in self.pairs.vectors:
            fields = self.prior.root(vectors.astype(np.float64).reshape(-1, *self._space))
            total -= np.einsum("k,k...->...", self._shares[first : first + len(vectors)], fields**2)
            first += len(vectors)
        return np.maximum(total, 0.0)

    def deviation(self) -> Float[np.ndarray, "*space"]:
        """Standard deviation of every node."""
        return np.sqrt(self.variance)

    def samples(self, count: int, *, seed: int) -> Fields:
        """Draws of what the field may be beside its estimate: C^½ (I - V (1 - 1/√(1+λ)) Vᵀ) ξ, ξ white."""
        white = np.random.default_rng(seed).standard_normal((count, self.prior.grid.size))
        return self.prior.root(self._less(white, 1 - 1 / np.sqrt(1 + self.pairs.values)).reshape(-1, *self._space))

    def product(self, fields: Fields) -> Fields:
        """Cov(θ) times fields; of a gradient, less the Gauss-Newton step."""
        white = self.prior.root_transposed(fields).reshape(len(fields), -1)
        return self.prior.root(self._less(white, self._shares).reshape(-1, *self._space))

    def deviation_of(self, functionals: Fields) -> Float[np.ndarray, " column"]:
        """Of Σ over the nodes of a functional times the field, for every functional."""
        white = self.prior.root_transposed(functionals).reshape(len(functionals), -1)
        known = self._along(white) ** 2 @ self._shares
        return np.sqrt(np.maximum(np.einsum("ki,ki->k", white, white) - known, 0.0))

    @property
    def _space(self) -> tuple[int, ...]:
        return self.prior.grid.shape

    @property
    def _shares(self) -> Float[np.ndarray, " rank"]:
        return self.pairs.values / (1 + self.pairs.values)

    def _less(self, white: Float[np.ndarray, "column unknown"], shares: Float[np.ndarray, " rank"]) -> np.ndarray:
        """(I - V diag(shares) Vᵀ) ξ."""
        along, first = (self._along(white) * shares).astype(np.float32), 0
        for vectors in self.pairs.vectors:
            white = white - along[:, first : first + len(vectors)] @ vectors
            first += len(vectors)
        return white

    def _along(self, white: Float[np.ndarray, "column unknown"]) -> Float[np.ndarray, "column rank"]:
        """Vᵀ ξ; vectors stay in single precision, where they take half the memory."""
        single = white.astype(np.float32)
        return np.hstack([single @ vectors.T for vectors in self.pairs.vectors]).astype(np.float64)

"""Values that were read, and P = W - W B Cov(a) Bᵀ W, the precision of their errors: noise and patterns B a."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.estimators.inverse.nuisance import ErrorPatterns

Values = Float[np.ndarray, "sensor pair"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Readings:
    """Values of one system and their weights 1 / deviation², 0 where nothing was measured."""

    values: Values
    weights: Values
    #: What rows of H are multiplied with so that errors of the values are independent; None: nothing.
    whitening: Float[np.ndarray, "sensor sensor"] | None = None
    #: Errors with a pattern, beside the noise.
    nuisance: ErrorPatterns | None = None

    def weighted(self, residual: Values) -> Values:
        """P r, P the precision of the readings' errors; its product with r is the misfit."""
        weighted = self.weights * residual
        if self.nuisance is None:
            return weighted
        return weighted - self.weights * self.nuisance.explained(weighted, self.weights)

    @property
    def count(self) -> int:
        """Number of measured values."""
        return int(np.count_nonzero(self.weights))


def separable(weights: Values) -> tuple[Float[np.ndarray, " sensor"], Float[np.ndarray, " pair"]]:
    """One weight per sensor and one per pair whose product is nearest in sums: exact where they are separable."""
    total = weights.sum()
    return weights.sum(axis=1), weights.sum(axis=0) / total

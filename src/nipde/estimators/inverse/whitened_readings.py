"""Readings in units of their errors: S with Sᵀ S = P, the precision of the errors; so that S (y - H u) is white.

P = W - W B Cov(a) Bᵀ W with errors B a that have a pattern, so S = (I - E (1 - √(1-m)) Eᵀ) W^½ where
W^½ B Cov(a) Bᵀ W^½ = E m Eᵀ: of as many directions as there are sizes a.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.estimators.inverse.readings import Readings

OfReadings = Float[np.ndarray, "column sensor pair"]


@dataclass(frozen=True, eq=False)
class WhitenedReadings:
    """S and its transpose, on blocks of columns."""

    #: W^½.
    scale: Float[np.ndarray, "sensor pair"]
    #: E and 1 - √(1-m); none without patterns.
    directions: Float[np.ndarray, "reading direction"]
    shrinkage: Float[np.ndarray, " direction"]

    @classmethod
    def of(cls, readings: Readings) -> "WhitenedReadings":
        """From weights and patterns of errors."""
        scale = np.sqrt(readings.weights)
        if readings.nuisance is None:
            return cls(scale, np.zeros((scale.size, 0)), np.zeros(0))
        basis, triangle = np.linalg.qr(scale.reshape(-1, 1) * readings.nuisance.columns)
        share, turned = np.linalg.eigh(triangle @ readings.nuisance.covariance(readings.weights) @ triangle.T)
        return cls(scale, basis @ turned, 1 - np.sqrt(1 - np.clip(share, 0, 1)))

    def __call__(self, values: OfReadings) -> Float[np.ndarray, "column reading"]:
        """S v."""
        return self._shrunk((values * self.scale).reshape(len(values), -1))

    def transposed(self, white: Float[np.ndarray, "column reading"]) -> OfReadings:
        """Sᵀ v."""
        return self._shrunk(white).reshape(-1, *self.scale.shape) * self.scale

    def _shrunk(self, rows: Float[np.ndarray, "column reading"]) -> Float[np.ndarray, "column reading"]:
        return rows - (rows @ self.directions * self.shrinkage) @ self.directions.T

"""Errors of a measurement that have a pattern: y = H u + Σ_k a_k B_k + noise, a_k ~ N(0, s_k²) for every pair.

A load that is off by a gain changes all readings of its pair in proportion, a shifted zero by the same amount; of an
unknown level nothing is expected, so that only differences between the sensors of a pair count. The numbers a are
integrated out: the precision of the readings is W - W B Cov(a) Bᵀ W. Gains have mean 0 over the pairs: one that all
loads have in common cannot be told from a stiffer material.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.linalg import block_diag, null_space

NuisanceKind = Literal["gain", "offset", "level", "outliers"]
#: A residual beyond so many deviations is an outlier: its deviation is then what makes it so many.
OUTLYING = 3.0
#: Prior deviation of a gain, and of an offset and of a level as shares of the readings' root mean square.
GAIN, OFFSET, LEVEL = 0.1, 0.3, 100.0
Values = Float[np.ndarray, "sensor pair"]


class ErrorPatterns(ABC):
    """y = H u + B a + noise, a normal: what is known of a, and what it takes from the readings."""

    @property
    @abstractmethod
    def columns(self) -> Float[np.ndarray, "reading size"]:
        """B, readings sensor by sensor."""

    @abstractmethod
    def covariance(self, weights: Values) -> Float[np.ndarray, "size size"]:
        """Of a, given the readings."""

    @abstractmethod
    def explained(self, weighted: Values, weights: Values) -> Values:
        """B a, from residuals that are multiplied with their weights."""

    @abstractmethod
    def dof(self, weights: Values) -> float:
        """Effective number of the sizes."""


@dataclass(frozen=True, eq=False)
class Nuisance(ErrorPatterns):
    """Patterns B over the sensors of every pair, and the deviations s of their sizes."""

    patterns: Float[np.ndarray, "kind sensor pair"]
    deviations: Float[np.ndarray, " kind"]
    #: Whether the sizes have mean 0 over the pairs.
    centred: tuple[bool, ...]

    @classmethod
    def of(cls, kinds: tuple[NuisanceKind, ...], predicted: Values) -> "Nuisance | None":
        """Around predicted readings; None where no kind has a pattern."""
        size = float(np.sqrt(np.mean(predicted**2)))
        ones = np.ones_like(predicted)
        known = {
            "gain": (predicted, GAIN, True),
            "offset": (ones, OFFSET * size, False),
            "level": (ones, LEVEL * size, False),
        }
        chosen = [known[kind] for kind in kinds if kind in known]
        if not chosen:
            return None
        patterns, deviations, centred = zip(*chosen, strict=True)
        return cls(np.stack(patterns), np.array(deviations), centred)

    @property
    def columns(self) -> Float[np.ndarray, "reading size"]:
        """One of every kind and pair."""
        kinds, sensors, pairs = self.patterns.shape
        return np.einsum("ksp,pq->spkq", self.patterns, np.eye(pairs)).reshape(sensors * pairs, kinds * pairs)

    def covariance(self, weights: Values) -> Float[np.ndarray, "size size"]:
        """Of all sizes a, kind by kind, given the readings: N (S⁻² + Nᵀ Bᵀ W B N)⁻¹ Nᵀ, N the free directions."""
        free = self._free()
        prior = np.repeat(self.deviations**-2, self.patterns.shape[2])
        return np.asarray(free @ np.linalg.solve(free.T @ (np.diag(prior) + self._products(weights)) @ free, free.T))

    def estimated(self, weighted: Values, weights: Values) -> Float[np.ndarray, "kind pair"]:
        """a, from residuals that are multiplied with their weights."""
        forms = np.einsum("ksp,sp->kp", self.patterns, weighted)
        return (self.covariance(weights) @ forms.ravel()).reshape(forms.shape)

    def explained(self, weighted: Values, weights: Values) -> Values:
        """B a."""
        return np.einsum("ksp,kp->sp", self.patterns, self.estimated(weighted, weights))

    def dof(self, weights: Values) -> float:
        """Effective number of the sizes."""
        return float(np.sum(self.covariance(weights) * self._products(weights)))

    def _free(self) -> Float[np.ndarray, "size direction"]:
        pairs = self.patterns.shape[2]
        without_mean = null_space(np.ones((1, pairs)))
        return np.asarray(block_diag(*(without_mean if centred else np.eye(pairs) for centred in self.centred)))

    def _products(self, weights: Values) -> Float[np.ndarray, "size size"]:
        """Bᵀ W B."""
        products = np.einsum("ksp,sp,lsp->klp", self.patterns, weights, self.patterns)
        return np.block([[np.diag(one) for one in row] for row in products])


@dataclass(frozen=True, eq=False)
class LinearErrors(ErrorPatterns):
    """Any patterns over all readings, and the deviations of their sizes."""

    patterns: Float[np.ndarray, "size sensor pair"]
    deviations: Float[np.ndarray, " size"]

    @property
    def columns(self) -> Float[np.ndarray, "reading size"]:
        """One of every size."""
        return self.patterns.reshape(len(self.patterns), -1).T

    def covariance(self, weights: Values) -> Float[np.ndarray, "size size"]:
        """(S⁻² + Bᵀ W B)⁻¹."""
        return np.linalg.inv(np.diag(self.deviations**-2) + self._products(weights))

    def estimated(self, weighted: Values, weights: Values) -> Float[np.ndarray, " size"]:
        """a, from residuals that are multiplied with their weights."""
        return np.asarray(self.covariance(weights) @ (self.columns.T @ weighted.ravel()))

    def explained(self, weighted: Values, weights: Values) -> Values:
        """B a."""
        return np.einsum("ksp,k->sp", self.patterns, self.estimated(weighted, weights))

    def dof(self, weights: Values) -> float:
        """Effective number of the sizes."""
        return float(np.sum(self.covariance(weights) * self._products(weights)))

    def _products(self, weights: Values) -> Float[np.ndarray, "size size"]:
        return np.asarray((self.columns.T * weights.ravel()) @ self.columns)


def bearing_outliers(deviation: Values, residual: Values) -> Values:
    """Deviations that are larger where a residual is an outlier, by the noise or by most of the residuals."""
    return deviation * np.maximum(1, np.abs(residual) / (OUTLYING * np.maximum(deviation, usual_size(residual))))


def usual_size(residual: Values) -> float:
    """Standard deviation of most of the residuals."""
    shown = residual[residual != 0]
    return 1.4826 * float(np.median(np.abs(shown))) if len(shown) else 0.0

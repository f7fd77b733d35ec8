"""y = A c + e: data with a few common patterns, c ~ N(0, I), and independent errors of variance s + ν².

-2 log p(y) = log det(I + Aᵀ D A) - log det D + yᵀ D y - bᵀ (I + Aᵀ D A)⁻¹ b,   D = 1/(s + ν²),  b = Aᵀ D y
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

#: The noise is sought where loads say least about the kernel: there it dominates the data, and few data suffice.
WEAKEST = 4
#: log10 of the noise over the root mean square of the responses; what is below counts as none.
RANGE = (-6.0, 0.0)
STEPS = 13
REFINEMENTS = 3


@dataclass(frozen=True, eq=False)
class Observation:
    """`residuals` y, `patterns` A and the variance `remainder` s, each by mode and pair."""

    residuals: Float[Tensor, "mode pair"]
    patterns: Float[Tensor, "component mode pair"]
    remainder: Float[Tensor, "mode pair"]

    def condition(self, noise: float) -> tuple[Float[Tensor, " component"], Float[Tensor, "mode pair"]]:
        """The mean of c given y, and (y - A c) / (s + ν²)."""
        precision = self._precision(noise)
        factor, moments = self._normal(precision)
        amounts = torch.cholesky_solve(moments[:, None], factor)[:, 0]
        return amounts, (self.residuals - torch.tensordot(amounts, self.patterns, dims=1)) * precision

    def surprise(self, noise: float) -> float:
        """-2 log p(y), up to a constant."""
        precision = self._precision(noise)
        factor, moments = self._normal(precision)
        explained = torch.linalg.solve_triangular(factor, moments[:, None], upper=False).square().sum()
        counted = precision > 0
        logs = 2 * factor.diagonal().log().sum() - precision[counted].log().sum()
        return float(logs + (self.residuals.square() * precision).sum() - explained)

    def weakest(self, pairs: int) -> "Observation":
        """The pairs with the least variance; they come in rising order of it."""
        return Observation(
            self.residuals[:, :pairs].contiguous(), self.patterns[:, :, :pairs].contiguous(), self.remainder[:, :pairs]
        )

    def _precision(self, noise: float) -> Float[Tensor, "mode pair"]:
        """1 / (s + ν²); what has no variance at all, such as a load given twice without noise, is left out."""
        variance = self.remainder + noise**2
        present = variance > torch.finfo(variance.dtype).eps * variance.shape[1] * variance.amax(1, keepdim=True)
        return present / torch.where(present, variance, 1)

    def _normal(self, precision: Tensor) -> tuple[Float[Tensor, "component component"], Float[Tensor, " component"]]:
        """Cholesky factor of I + Aᵀ D A, and b."""
        flat = self.patterns.flatten(1)
        weighted = flat * precision.flatten()
        normal = weighted @ flat.mT
        normal.diagonal().add_(1)
        return torch.linalg.cholesky(normal), weighted @ self.residuals.flatten()


def most_likely_noise(observation: Observation) -> float:
    """ν of maximum marginal likelihood: a sweep in half decades, three halvings of the step, a parabola."""
    weakest = observation.weakest(WEAKEST)
    step = (RANGE[1] - RANGE[0]) / (STEPS - 1)
    scores = {RANGE[0] + step * place: 0.0 for place in range(STEPS)}
    scores = {exponent: weakest.surprise(10**exponent) for exponent in scores}
    best = min(scores, key=lambda exponent: scores[exponent])
    for _ in range(REFINEMENTS):
        step /= 2
        for exponent in (best - step, best + step):
            scores[exponent] = weakest.surprise(10**exponent)
        best = min(scores, key=lambda exponent: scores[exponent])
    below, above = (scores.get(best + side * step) for side in (-1, 1))
    if below is None or above is None or below + above <= 2 * scores[best]:
        return 10**best
    return 10 ** (best + step * (below - above) / (below + above - 2 * scores[best]) / 2)

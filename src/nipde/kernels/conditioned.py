"""A prior kernel and what the pairs add to it: K = K_θ + Σ_j l_j(x) r_j(y), with a variance for every query.

    v(f) = fᵀΣf - Σ_j (∫ r_j f)² / (s_j + λ),   r = Σ F V

s and V are eigenvalues and eigenvectors of FᵀΣF: v is how much of a load the pairs have not seen, in the metric Σ.
"""

from dataclasses import dataclass, replace
from typing import Self

from jaxtyping import Float
from torch import Tensor

from nipde.errors import KernelError
from nipde.kernels.acting import ActingKernel
from nipde.kernels.elliptic import EllipticKernel
from nipde.kernels.gated import GatedKernel
from nipde.kernels.low_rank import LowRankKernel
from nipde.spectral.transform import transform

Prior = EllipticKernel | GatedKernel


@dataclass(frozen=True, eq=False)
class Seen:
    """The part of the space of loads that the pairs span."""

    #: σ(k), the multipliers of Σ.
    metric: Float[Tensor, "*mode"]
    #: s_j + λ.
    strengths: Float[Tensor, "*batch rank"]
    #: λ: how much of a strength is noise.
    noise: Float[Tensor, "*batch"]


@dataclass(frozen=True, eq=False)
class ConditionedKernel(ActingKernel):
    """`prior` is inferred from what the pairs share, `correction` reproduces what they say."""

    prior: Prior
    correction: LowRankKernel
    seen: Seen | None = None

    @property
    def components(self) -> tuple[int, int]:
        """Those of the prior."""
        return self.prior.components

    @property
    def batch(self) -> tuple[int, ...]:
        """Those of the correction."""
        return self.correction.batch

    @property
    def T(self) -> Self:
        """Both parts transposed; the variance is one of loads, and stays behind."""
        return replace(self, prior=self.prior.T, correction=self.correction.T, seen=None)

    def __mul__(self, factor: Float[Tensor, "*batch"] | float) -> Self:
        return replace(self, prior=self.prior * factor, correction=self.correction * factor)

    def predict(
        self, loads: Float[Tensor, "*batch_pair_component_space"]
    ) -> Float[Tensor, "*batch_pair_component_space"]:
        """The prior's answer, corrected."""
        return self.predict_with_prior(loads)[0]

    def predict_with_prior(self, loads: Tensor) -> tuple[Tensor, Tensor]:
        """The answer, and the one the prior alone would give."""
        alone = self.prior.predict(loads)
        return alone + self.correction.predict(loads), alone

    def variance(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> Float[Tensor, "*batch_pair"]:
        """v(f) of every load: 0 for loads of the context at zero noise, fᵀΣf for what no pair has touched."""
        seen = self._seen()
        waves = transform(self.grid)
        energy = (waves.analysis(loads.to(seen.strengths)).square() * seen.metric).flatten(-self.grid.dimension - 1)
        return (energy.sum(-1) - (self._amounts(loads).square() / seen.strengths.unsqueeze(-2)).sum(-1)).clamp(min=0)

    def unseen_share(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> Float[Tensor, "*batch_pair"]:
        """v(f) / fᵀΣf, 0 to 1."""
        waves = transform(self.grid)
        energy = (waves.analysis(loads.to(self._ones())).square() * self._seen().metric).flatten(
            -self.grid.dimension - 1
        )
        return self.variance(loads) / energy.sum(-1)

    def dense(self) -> Float[Tensor, "*batch row column"]:
        """Both parts."""
        return self.prior.dense() + self.correction.dense()

    def diagonal(self) -> Float[Tensor, "*batch_component_space"]:
        """Both parts."""
        return self.prior.diagonal() + self.correction.diagonal()

    @property
    def coefficient(self) -> Float[Tensor, "*batch_space"] | None:
        """The microstructure that an elliptic prior has inferred; None where no law was assumed."""
        return self.prior.coefficient if isinstance(self.prior, EllipticKernel) else None

    def system(self, number: int) -> Self:
        """One of a batch with one axis."""
        seen = self.seen
        if seen is not None:
            seen = replace(seen, strengths=seen.strengths[number], noise=seen.noise[number])
        return replace(self, prior=self.prior.system(number), correction=self.correction.system(number), seen=seen)

    def with_batch(self, batch: tuple[int, ...]) -> Self:
        """The same systems, their axes folded otherwise."""
        seen = self.seen
        if seen is not None:
            strengths = seen.strengths.reshape(*batch, seen.strengths.shape[-1])
            seen = replace(seen, strengths=strengths, noise=seen.noise.reshape(batch))
        return replace(
            self, prior=self.prior.with_batch(batch), correction=self.correction.with_batch(batch), seen=seen
        )

    def _amounts(self, loads: Tensor) -> Float[Tensor, "*batch pair rank"]:
        """∫ r_j f."""
        right = self.correction.right.flatten(-self.grid.dimension - 1)
        return self._weighted(loads).flatten(-self.grid.dimension - 1) @ right.mT

    def _seen(self) -> Seen:
        if self.seen is None:
            raise KernelError(expected="a kernel as estimated", got="a transpose", remedy="ask the kernel itself")
        return self.seen

    def _ones(self) -> Float[Tensor, "*space"]:
        return self.correction.left.new_ones(self.grid.shape)

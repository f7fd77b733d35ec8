"""A prior kernel and what the pairs add to it: K = K_θ + Σ_j l_j(x) r_j(y), with a variance for every query.

    v(f) = fᵀΣf - Σ_j (∫ r_j f)² / (s_j + λ),   r = Σ F V

s and V are eigenvalues and eigenvectors of FᵀΣF: v is how much of a load the pairs have not seen, in the metric Σ.
"""

from collections.abc import Callable
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
    #: Stiffness of the best constant medium, load per response.
    level: Float[Tensor, "*batch"]
    #: ‖U - K_θ F‖ / ‖U‖: how much of the responses the prior leaves to the correction.
    misfit: Float[Tensor, "*batch"]

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """All but the metric, which systems share, changed."""
        names = ("strengths", "noise", "level", "misfit")
        return replace(self, **{name: change(getattr(self, name)) for name in names})


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

    def covariance(self, first: Tensor, second: Tensor) -> Float[Tensor, "*batch pair pair"]:
        """How much what is not known of the answers to two loads has in common, in the metric Σ."""
        seen, waves, flat = self._seen(), transform(self.grid), -self.grid.dimension - 1
        root = seen.metric.sqrt()
        rough = [(waves.analysis(loads.to(root)) * root).flatten(flat) for loads in (first, second)]
        known = [self._amounts(loads) / seen.strengths.sqrt().unsqueeze(-2) for loads in (first, second)]
        return rough[0] @ rough[1].mT - known[0] @ known[1].mT

    def variance(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> Float[Tensor, "*batch_pair"]:
        """v(f) of every load: 0 for loads of the context at zero noise, fᵀΣf for what no pair has touched."""
        known = self._amounts(loads).square() / self._seen().strengths.unsqueeze(-2)
        return (self._energy(loads) - known.sum(-1)).clamp(min=0)

    def unseen_share(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> Float[Tensor, "*batch_pair"]:
        """v(f) / fᵀΣf, 0 to 1."""
        return self.variance(loads) / self._energy(loads)

    def spread(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> Float[Tensor, "*batch_pair"]:
        """A size for the error of every answer, in the unit of the response, up to a factor that calibration finds.

        √(v(f) + fᵀΣf/100) over the stiffness of the medium: what was seen is not free of error, either.
        """
        seen = self._seen()
        return (self.variance(loads) + self._energy(loads) / 100).sqrt() / seen.level.unsqueeze(-1)

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
            seen = seen.map(lambda value: value[number])
        return replace(self, prior=self.prior.system(number), correction=self.correction.system(number), seen=seen)

    def with_batch(self, batch: tuple[int, ...]) -> Self:
        """The same systems, their axes folded otherwise."""
        seen = self.seen
        if seen is not None:
            seen = seen.map(lambda value: value.reshape((*batch, *value.shape[1:])))
        return replace(
            self, prior=self.prior.with_batch(batch), correction=self.correction.with_batch(batch), seen=seen
        )

    def _amounts(self, loads: Tensor) -> Float[Tensor, "*batch pair rank"]:
        """∫ r_j f."""
        right = self.correction.right.flatten(-self.grid.dimension - 1)
        return self._weighted(loads).flatten(-self.grid.dimension - 1) @ right.mT

    def _energy(self, loads: Tensor) -> Float[Tensor, "*batch pair"]:
        """fᵀΣf."""
        metric = self._seen().metric
        squares = transform(self.grid).analysis(loads.to(metric)).square() * metric
        return squares.flatten(-self.grid.dimension - 1).sum(-1)

    def _seen(self) -> Seen:
        if self.seen is None:
            raise KernelError(expected="a kernel as estimated", got="a transpose", remedy="ask the kernel itself")
        return self.seen

    def _ones(self) -> Float[Tensor, "*space"]:
        return self.correction.left.new_ones(self.grid.shape)

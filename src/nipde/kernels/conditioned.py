"""A prior kernel and what the pairs add to it: K = K_θ + Σ_j l_j(x) r_j(y), with a variance for every query.

    v(f) = fᵀΣf - Σ_j (∫ r_j f)² / (s_j + λ),   r = Σ F V

s and V are eigenvalues and eigenvectors of FᵀΣF: v is how much of a load the pairs have not seen, in the metric Σ.
Where weights were calibrated on other systems, the kernel also gives bands, and says whether to trust them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.errors import KernelError
from nipde.grid import Grid
from nipde.kernels.acting import ActingKernel
from nipde.kernels.body import BodyAtRest
from nipde.kernels.elliptic import EllipticKernel
from nipde.kernels.gated import GatedKernel
from nipde.kernels.low_rank import LowRankKernel
from nipde.kernels.trust import Alarm, Trust
from nipde.spectral.transform import transform

Prior = EllipticKernel | GatedKernel | BodyAtRest


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
    #: None unless weights were calibrated, loads are exact and gaps few.
    trust: Trust | None = None

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
        """Both parts transposed; the variance is one of loads, and stays behind with what follows from it."""
        return replace(self, prior=self.prior.T, correction=self.correction.T, seen=None, trust=None)

    def __mul__(self, factor: Float[Tensor, "*batch"] | float) -> Self:
        seen = self.seen
        if seen is not None:  # errors are in the unit of the response, too
            seen = replace(seen, level=seen.level / torch.as_tensor(factor).to(seen.level).abs())
        return replace(self, prior=self.prior * factor, correction=self.correction * factor, seen=seen)

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

    def band(self, loads: Float[Tensor, "*batch_pair_component_space"], *, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Two fields like the prediction: a share `level` of the true, noiseless responses lies between them.

        The share is one over nodes, loads and systems like those of calibration; loads of another smoothness and
        systems that raise the `alarm` are not.
        """
        self.check_loads(loads)
        factors, spread = self._trusted().at(level), self.spread(loads)
        axes = (None,) * self.grid.dimension
        inside, edge = (factors.new_tensor(mask) for mask in (self.grid.interior, self.grid.edge))
        widths = factors[(..., 0, *axes)] * inside + factors[(..., 1, *axes)] * edge
        half = spread[(..., None, *axes)] * widths[(..., None, None, *(slice(None),) * self.grid.dimension)]
        answer = self.predict(loads)
        return answer - half, answer + half

    @property
    def alarm(self) -> Alarm:
        """Whether the pairs look like those that bands and weights were tried on."""
        return self._trusted().alarm

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
        seen, trust = self._told(lambda value: value[number])
        prior, correction = self.prior.system(number), self.correction.system(number)
        return replace(self, prior=prior, correction=correction, seen=seen, trust=trust)

    def with_batch(self, batch: tuple[int, ...]) -> Self:
        """The same systems, their axes folded otherwise."""
        seen, trust = self._told(lambda value: value.reshape((*batch, *value.shape[len(self.batch) :])))
        prior, correction = self.prior.with_batch(batch), self.correction.with_batch(batch)
        return replace(self, prior=prior, correction=correction, seen=seen, trust=trust)

    def stretched(self, to: Grid) -> Self:
        """The same answers to the same loads, and their bands, on a similar box: lengths in another unit."""
        seen = self.seen
        if isinstance(self.prior, BodyAtRest):
            raise KernelError(expected="a law without a unit of length", got="a body", remedy="estimate on that box")
        if seen is not None:
            seen = replace(seen, metric=seen.metric / self.grid.ratio(to) ** to.dimension)
        prior, correction = self.prior.stretched(to), self.correction.stretched(to)
        return replace(self, grid=to, prior=prior, correction=correction, seen=seen)

    def _told(self, change: Callable[[Tensor], Tensor]) -> tuple[Seen | None, Trust | None]:
        """What is known besides the kernel, changed."""
        seen, trust = self.seen, self.trust
        return None if seen is None else seen.map(change), None if trust is None else trust.map(change)

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

    def _trusted(self) -> Trust:
        self._seen()
        if self.trust is None:
            raise KernelError(
                "nothing is known of errors like these", expected="calibrated weights, exact loads and few gaps",
                got="others", remedy="load pretrained weights, or see nipde.evaluation.calibrate.calibrated",
            )  # fmt: skip
        return self.trust

    def _ones(self) -> Float[Tensor, "*space"]:
        return self.correction.left.new_ones(self.grid.shape)

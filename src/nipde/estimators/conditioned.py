"""Conditioned NIPS: infer a prior kernel from what the pairs share, then condition it exactly on the pairs.

    K = K_θ + Φ [(Φᵀ (U - K_θ F) V) / (s + λ/γ(k))] Vᵀ Fᵀ Σ

Any number of pairs, any grid, one set of weights. (F Q, U Q) gives the same kernel for orthogonal Q at any noise, and
for every invertible Q at zero noise; then the kernel reproduces its context. See docs/conditioned.md.

Of laws that are not linear K_θ f is replaced by what a body answers, or by K_θ (f + g) with g from a network; what is
left of the context is taken as linear as far as it is. Then the order of the pairs does not matter, and no more.
"""

import copy
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.estimators.conditioning.calibration import Calibration, noise_share
from nipde.estimators.conditioning.completion import completed
from nipde.estimators.conditioning.elastic_prior import ElasticPrior
from nipde.estimators.conditioning.elliptic_prior import EllipticPrior
from nipde.estimators.conditioning.gated_prior import GatedPrior
from nipde.estimators.conditioning.linear_part import linear_part
from nipde.estimators.conditioning.material_posterior import MaterialPosterior
from nipde.estimators.conditioning.noise_level import noise_level
from nipde.estimators.conditioning.query_head import QueryHead
from nipde.estimators.conditioning.wavenumber import WaveFunction, inverse_square
from nipde.estimators.conditioning.whitening import Whitened, level_or_zero, whiten
from nipde.grid import Grid
from nipde.kernels.body import BodyPredictor
from nipde.kernels.conditioned import ConditionedKernel, Prior, Seen
from nipde.kernels.corrected import CorrectedPredictor, HeadedPredictor
from nipde.kernels.gated import GatedKernel
from nipde.kernels.low_rank import LowRankKernel
from nipde.spectral.transform import transform

#: Share of gaps up to which bands were found to hold, and the noise that filling them is at least worth, over the
#: root mean square of the responses.
MOST_GAPS, FILLED = 0.3, 0.002
#: Numbers per node that tell a head about the place.
TOLD = 8


class ConditionedNIPS(nn.Module):
    """`prior`: a balance law with inferred coefficients (`elliptic`, with `drift` or without), or `gated`, no law.

    For plane solids: `elastic`, a body of inferred stiffness and fibres that may deform much; or `gated` with a `head`
    for what is not linear in the load.
    """

    def __init__(
        self,
        *,
        dimension: int,
        components: tuple[int, int] = (1, 1),
        prior: Literal["elliptic", "gated", "elastic"] = "elliptic",
        drift: bool = False,
        head: bool = False,
        channels: int = 32,
        terms: int = 12,
    ) -> None:
        super().__init__()
        self.dimension, self.components = dimension, components
        if head and prior != "gated":
            raise PairsError(expected="a head on prior='gated'", got=f"on {prior!r}", remedy="leave it out")
        if prior == "elliptic" and components != (1, 1):
            raise PairsError(
                "the elliptic prior is a scalar law", expected="1 component", got=components, remedy="use prior='gated'"
            )
        self.prior: nn.Module
        if prior == "elliptic":
            self.prior = EllipticPrior(dimension, channels=channels, drift=drift)
        elif prior == "elastic":
            self.prior = ElasticPrior()
        else:
            told = TOLD if head else 0
            self.prior = GatedPrior(
                dimension, components=components, channels=channels, terms=terms, drift=drift, told=told
            )
        self.head = QueryHead(dimension, components=components, fields=TOLD) if head else None
        #: log of σ(k)·|k|⁴ and of γ(k).
        self.waves = WaveFunction(2)
        #: log of the weight of noise against what the prior does not know.
        self.balance = nn.Parameter(torch.tensor(4.0))
        #: What errors on other systems were; it stands on the card of weights, not among them.
        self.calibration: Calibration | None = None
        #: How the weights are called, if they have a name.
        self.name = ""

    def forward(self, pairs: Pairs) -> ConditionedKernel | CorrectedPredictor:
        """The kernel in physical units, in the precision of the weights; batch axes of the pairs are its batch axes.

        A predictor that is not linear, if the prior is a body or has a head.
        """
        self._check(pairs)
        pairs = pairs.to(dtype=self.balance.dtype, device=self.balance.device)
        flat = _on_unit_box(pairs.along_one_axis())
        if isinstance(self.prior, ElasticPrior) or self.head is not None:
            return self._nonlinear(pairs, flat)
        kernel = self._of(flat) if flat.mask is None else self._with_gaps(flat, flat.mask)
        return kernel.with_batch(pairs.batch).stretched(pairs.grid)

    def posterior(self, pairs: Pairs) -> MaterialPosterior:
        """How sure the inferred coefficients of one system are; where a law was assumed."""
        return self.with_posterior(pairs)[1]

    def with_posterior(self, pairs: Pairs) -> tuple[ConditionedKernel, MaterialPosterior]:
        """The kernel of one system, and how sure the coefficients that it has inferred are."""
        if pairs.batch:
            raise PairsError(expected="one system", got=f"a batch {pairs.batch}", remedy="use with_posteriors")
        kernel, (posterior,) = self.with_posteriors(pairs)
        return kernel, posterior

    @torch.no_grad()
    def with_posteriors(self, pairs: Pairs) -> tuple[ConditionedKernel, list[MaterialPosterior]]:
        """The kernel of a batch, and a posterior for every system in it, in the order of the batch."""
        self._check(pairs)
        if not isinstance(self.prior, EllipticPrior):
            raise PairsError(
                expected="weights that infer a material",
                got="weights that infer none",
                remedy="use an elliptic prior",
            )
        pairs = pairs.to(dtype=self.balance.dtype, device=self.balance.device)
        flat = _on_unit_box(pairs.along_one_axis())
        whole = flat if flat.mask is None else completed(flat, self._of)
        noise = self._noise(whole)
        whitened = self._whitened(whole, noise)
        prior, posteriors = self.prior.with_posteriors(whitened)
        kernel = self._conditioned(whole, noise, whitened, prior)
        if flat.mask is not None:
            measured = flat.mask.flatten(1).to(noise).mean(1)
            # What was filled in tells nothing: the same values, each a little less certain.
            posteriors = self.prior.with_posteriors(self._whitened(whole, noise / measured**0.5))[1]
            kernel = self._distrusted(kernel, whole, noise, flat.mask)
        unit = flat.grid.ratio(pairs.grid) ** 2
        posteriors = [replace(one, coefficient=one.coefficient * unit) for one in posteriors]
        return kernel.with_batch(pairs.batch).stretched(pairs.grid), posteriors

    @property
    def sharp(self) -> bool:
        """Whether b is taken to be even but for jumps."""
        return isinstance(self.prior, EllipticPrior) and self.prior.sharp

    def sharpened(self) -> "ConditionedNIPS":
        """The same weights for a material of few phases: b even but for jumps."""
        if not isinstance(self.prior, EllipticPrior):
            raise PairsError(expected="weights that infer a material", got="others", remedy="use an elliptic prior")
        found = copy.deepcopy(self)
        assert isinstance(found.prior, EllipticPrior)
        found.prior.sharp = True
        found.calibration = None if self.calibration is None else self.calibration.sharpened()
        return found

    def _nonlinear(self, pairs: Pairs, flat: Pairs) -> CorrectedPredictor:
        """What the prior answers, corrected by as much of the rest as is linear."""
        pairs.refuse_mask("ConditionedNIPS of a law that is not linear")
        noise = level_or_zero(flat.noise, flat.loads).expand(flat.batch)
        whitened = self._whitened(flat, noise)
        alone = self._alone(pairs, flat, whitened)
        answers = alone.attempt(flat.loads) if isinstance(alone, BodyPredictor) else alone.predict(flat.loads)
        residual = whitened.turned(flat.responses - answers)
        kept, score = linear_part(residual, whitened)
        if isinstance(alone, BodyPredictor) or not self.training:
            # What explains less than its linear part does, or than any linear map, is not believed: a body that noise
            # has spoilt or that does not stand its loads, a head under loads far larger than those it has learned from.
            other = flat.responses
            if isinstance(alone, HeadedPredictor):
                other = other - alone.kernel.predict(flat.loads)
            other = whitened.turned(other)
            linear, without = linear_part(other, whitened)
            worse = ~(score <= without)
            alone = alone.without(worse)
            axes = (..., *(None,) * (self.dimension + 2))
            residual, kept = torch.where(worse[axes], other, residual), torch.where(worse[:, None], linear, kept)
        left = residual * kept[..., *(None,) * (self.dimension + 1)]
        correction = LowRankKernel(flat.grid, left, self._right(whitened, flat, self._functions(flat.grid)[0]))
        correction = correction.with_batch(pairs.batch).stretched(pairs.grid)
        linear_prior: Prior = alone.kernel.with_batch(pairs.batch)
        if isinstance(linear_prior, GatedKernel):
            linear_prior = linear_prior.stretched(pairs.grid)
        kernel = ConditionedKernel(pairs.grid, linear_prior, correction)
        return CorrectedPredictor(pairs.grid, kernel, alone, correction, pairs.batch)

    def _alone(self, pairs: Pairs, flat: Pairs, whitened: Whitened) -> BodyPredictor | HeadedPredictor:
        """The prior, systems along one axis; a body lives on the grid as it is: strains have no unit."""
        if isinstance(self.prior, ElasticPrior):
            return self.prior(pairs.along_one_axis())
        assert isinstance(self.prior, GatedPrior)
        assert self.head is not None
        prior, fields = self.prior.with_fields(whitened)
        level = whitened.level.to(flat.loads)
        prior, head = prior * (1 / level), self.head
        size = float(pairs.grid.volume) ** (1 / self.dimension)

        def added(loads: Tensor, answers: Tensor) -> Tensor:
            return head(flat.grid, loads, answers, fields, level=level, size=size)

        return HeadedPredictor(flat.grid, prior, added)

    def _of(self, flat: Pairs) -> ConditionedKernel:
        """Of systems along one axis, all nodes known."""
        return self._kernel(flat, self._noise(flat))

    def _with_gaps(self, flat: Pairs, mask: Tensor) -> ConditionedKernel:
        """The same of pairs with gaps."""
        whole = completed(flat, self._of)
        noise = self._noise(whole)
        return self._distrusted(self._kernel(whole, noise), whole, noise, mask)

    def _distrusted(self, kernel: ConditionedKernel, whole: Pairs, noise: Tensor, mask: Tensor) -> ConditionedKernel:
        """With what calibration says of pairs with gaps: it has seen none, but fewer and noisier pairs."""
        measured = mask.flatten(1).to(self.balance).mean(1)
        if kernel.trust is None or self.calibration is None or float(measured.min()) < 1 - MOST_GAPS:
            return replace(kernel, trust=None)
        share = noise_share(noise, whole.responses).clamp(min=FILLED) / measured**0.5
        trust = self.calibration.trust(kernel, pairs=max(1, int(float(measured.min()) * whole.count)), share=share)
        return replace(kernel, trust=trust)

    def _noise(self, flat: Pairs) -> Float[Tensor, " system"]:
        """As told, or as found: responses are rough themselves, but what a first kernel leaves of them is noise."""
        if flat.noise is not None:
            return torch.as_tensor(flat.noise).to(flat.loads).expand(flat.batch)
        first = self._kernel(flat, noise_level(flat.grid, flat.responses)).prior
        return noise_level(flat.grid, flat.responses - first.predict(flat.loads))

    def _whitened(self, flat: Pairs, noise: Float[Tensor, " system"]) -> Whitened:
        return whiten(flat, metric=self._functions(flat.grid)[0], noise=noise, balance=self.balance.exp())

    def _kernel(self, flat: Pairs, noise: Float[Tensor, " system"]) -> ConditionedKernel:
        """The same, their noise known, too."""
        whitened = self._whitened(flat, noise)
        return self._conditioned(flat, noise, whitened, self.prior(whitened))

    def _conditioned(
        self, flat: Pairs, noise: Float[Tensor, " system"], whitened: Whitened, prior: Prior
    ) -> ConditionedKernel:
        """The prior of whitened pairs, conditioned on the pairs."""
        metric, smoothness = self._functions(flat.grid)
        prior = prior * (1 / whitened.level).to(flat.loads)
        rest = flat.responses - prior.predict(flat.loads)
        residual = whitened.turned(rest)
        left = self._shared_out(residual, whitened, smoothness)
        right = self._right(whitened, flat, metric)
        misfit = (rest.square().flatten(1).sum(1) / flat.responses.square().flatten(1).sum(1)).sqrt()
        strengths, penalty, level = (
            value.to(flat.loads) for value in (whitened.strengths, whitened.penalty, whitened.level)
        )
        kernel = ConditionedKernel(
            flat.grid, prior, LowRankKernel(flat.grid, left, right), Seen(metric, strengths, penalty, level, misfit)
        )
        if self.calibration is None or (flat.load_noise is not None and bool(torch.as_tensor(flat.load_noise).any())):
            return kernel  # noisy loads it has not seen, either
        share = noise_share(noise, flat.responses)
        return replace(kernel, trust=self.calibration.trust(kernel, pairs=flat.count, share=share))

    def _functions(self, grid: Grid) -> tuple[Float[Tensor, "*mode"], Float[Tensor, "*mode"]]:
        """σ(k) and γ(k)."""
        metric, smoothness = self.waves(grid).exp()
        inverse = inverse_square(grid, metric)
        return metric * inverse.square(), smoothness * inverse / inverse.max()

    def _shared_out(
        self, residual: Float[Tensor, "system pair component *space"], whitened: Whitened, smoothness: Tensor
    ) -> Tensor:
        """What every direction of loads adds: all of its residual at zero noise, else what is not noise."""
        strengths, penalty = whitened.strengths.to(residual), whitened.penalty.to(residual)
        axes = (..., None, *(None,) * self.dimension)
        signal = (strengths - penalty[:, None]).clamp(min=0)
        waves = transform(whitened.grid)
        kept = 1 / (signal[axes] + penalty[:, None][axes] / smoothness)
        return waves.synthesis(waves.analysis(residual) * kept)

    def _right(self, whitened: Whitened, pairs: Pairs, metric: Tensor) -> Tensor:
        waves = transform(pairs.grid)
        return waves.synthesis(waves.analysis(whitened.turned(pairs.loads)) * metric)

    def _check(self, pairs: Pairs) -> None:
        if pairs.grid.dimension != self.dimension or pairs.components != self.components:
            raise PairsError(
                "pairs do not fit the weights",
                expected=f"{self.dimension} axes and components {self.components} of response and load",
                got=f"{pairs.grid.dimension} and {pairs.components}",
                remedy="choose other weights",
            )


def _on_unit_box(pairs: Pairs) -> Pairs:
    """What is believed of coefficients holds on a box of volume 1, whatever the unit of length."""
    return replace(pairs, grid=pairs.grid.stretched(pairs.grid.volume ** (-1 / pairs.grid.dimension)))

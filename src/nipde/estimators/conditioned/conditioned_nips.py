"""Conditioned NIPS: infer a prior kernel from whitened pairs, then condition it on the pairs.

    K = K_θ + Φ [(Φᵀ (U - K_θ F) V) / (s + λ/γ(k))] Vᵀ Fᵀ Σ

Any number of pairs, any grid, one set of weights. (F Q, U Q) gives the same kernel for orthogonal Q at any noise, and
for every invertible Q at zero noise; then the kernel reproduces its context. See docs/conditioned.md.

For laws that are not linear K_θ f is replaced by the responses of a nonlinear prior, and the correction is the part of
the residual that is linear in the load. Then the order of the pairs does not matter, and no more is invariant.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from nipde.constants import constant
from nipde.context.noise import level_like
from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.estimators.base import Model, ModelConfig
from nipde.estimators.conditioned.calibration import Calibration, noise_share
from nipde.estimators.conditioned.elastic_prior import ElasticPrior
from nipde.estimators.conditioned.elliptic_prior import EllipticPrior
from nipde.estimators.conditioned.gated_prior import FIELDS, CorrectedGatedPrior, GatedPrior, NonlinearCorrection
from nipde.estimators.conditioned.prior import Prior, PriorEstimate, WaveFunction
from nipde.estimators.conditioned.whitening import Whitened, impute, noise_level, noise_or_zero, whiten
from nipde.kernels.base import CoefficientPosterior
from nipde.kernels.conditioned import ConditionedKernel, ContextSubspace
from nipde.kernels.low_rank import LowRankKernel
from nipde.kernels.nonlinear import CorrectedPredictor
from nipde.spectral.full_precision import full_precision
from nipde.spectral.partition import Partition
from nipde.spectral.slab_transform import SlabTransform
from nipde.spectral.transform import transform

#: Share of gaps up to which bands hold, and the least noise of filled values, over the rms of the responses.
MOST_GAPS, FILLED = 0.3, 0.002
#: Share of measured values that a prior without a law needs: else it mostly explains what it filled in itself.
LEAST_MEASURED = 0.3
#: Penalties of cross-validation, over the strongest direction.
PENALTIES = tuple(10.0**power for power in range(-10, 3))


@dataclass(frozen=True)
class ConditionedConfig(ModelConfig):
    """`components` are those of a response and of a load; `modes` per axis are retained by a gated prior, or all."""

    kind = "conditioned"
    dimension: int
    components: tuple[int, int] = (1, 1)
    prior: Literal["elliptic", "gated", "elastic"] = "elliptic"
    drift: bool = False
    head: bool = False
    channels: int = 32
    terms: int = 12
    modes: Sequence[int] | None = None


class ConditionedNIPS(Model):
    """`prior`: `elliptic`, a conservation law with inferred coefficients (with `drift` or without), or `gated`, no law.

    For plane solids: `elastic`, a body of inferred stiffness and fibres under large deformations; or `gated` with a
    `head`, a nonlinear correction.
    """

    Config = ConditionedConfig
    config: ConditionedConfig

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        config, prior = self.config, self.config.prior
        self.dimension, self.components = config.dimension, config.components
        if config.head and prior != "gated":
            raise PairsError(expected="a head on prior='gated'", got=f"on {prior!r}", remedy="leave it out")
        modes = config.modes
        if modes is not None and (prior != "gated" or len(modes) != config.dimension):
            raise PairsError(
                expected=f"modes of prior='gated', along each of {config.dimension} axes",
                got=f"{tuple(modes)} of {prior!r}", remedy="leave it out to retain all",
            )  # fmt: skip
        self.prior: EllipticPrior | ElasticPrior | GatedPrior
        if prior == "elliptic":
            if self.components != (1, 1):
                raise PairsError(expected="1 component of each", got=self.components, remedy="use prior='gated'")
            self.prior = EllipticPrior(self.dimension, channels=config.channels, drift=config.drift)
        elif prior == "elastic":
            self.prior = ElasticPrior()
        else:
            self.prior = GatedPrior(
                self.dimension, components=self.components, channels=config.channels, terms=config.terms,
                drift=config.drift, fields=FIELDS if config.head else 0, modes=config.modes,
            )  # fmt: skip
        self.head = NonlinearCorrection(self.dimension, components=self.components) if config.head else None
        #: log of σ(k)·|k|⁴ and of γ(k).
        self.waves = WaveFunction(2)
        #: log of the weight of noise against the uncertainty of the prior.
        self.balance = nn.Parameter(torch.tensor(4.0))
        #: Table of errors on other systems; kept on the card of the weights, not among them.
        self.calibration: Calibration | None = None

    def forward(self, pairs: Pairs) -> ConditionedKernel | CorrectedPredictor:
        """The kernel in physical units, in the precision of the weights; batch axes of the pairs are its batch axes.

        A predictor that is not linear, if the prior is not.
        """
        with full_precision(self.balance):
            return self._forward(pairs)

    def _forward(self, pairs: Pairs) -> ConditionedKernel | CorrectedPredictor:
        self._check(pairs)
        pairs = pairs.to(dtype=self.balance.dtype, device=self.balance.device)
        flat = pairs.along_one_axis()
        if not self.inference.linear:
            predictor = self._nonlinear(flat)
            self._check_result(predictor.kernel, flat)
            return predictor.with_batch(pairs.batch)
        kernel = self._estimate(flat) if flat.mask is None else self._with_gaps(flat, flat.mask)
        self._check_result(kernel, flat)
        return kernel.with_batch(pairs.batch)

    @property
    def inference(self) -> Prior:
        """The prior, with its nonlinear correction if there is one."""
        if self.head is None:
            return self.prior
        assert isinstance(self.prior, GatedPrior)
        return CorrectedGatedPrior(self.prior, self.head)

    def settings(self) -> dict[str, Any]:
        """Prior and calibration."""
        calibration = None if self.calibration is None else self.calibration.to_dict()
        return {"piecewise_constant": self.piecewise_constant, "calibration": calibration}

    def restore(self, settings: dict[str, Any]) -> None:
        """Take over prior and calibration where they are given."""
        calibration = settings.get("calibration")
        self.calibration = None if calibration is None else Calibration.from_dict(calibration)
        if self.infers_coefficient:
            self.prior.piecewise_constant = bool(settings.get("piecewise_constant", False))

    @property
    def piecewise_constant(self) -> bool:
        """Whether the coefficient has a piecewise-constant prior."""
        return bool(self.prior.piecewise_constant)

    @property
    def infers_coefficient(self) -> bool:  # type: ignore[override]
        """Whether its kernels have a coefficient."""
        return self.prior.piecewise_constant is not None

    def with_piecewise_constant_prior(self) -> "ConditionedNIPS":
        """The same weights with a piecewise-constant prior, for a material of few phases."""
        if not self.infers_coefficient:
            raise PairsError(
                expected="weights that infer a coefficient", got=self.config.prior, remedy="use an elliptic prior"
            )
        model = copy.deepcopy(self)
        model.prior.piecewise_constant = True
        model.calibration = None if self.calibration is None else self.calibration.with_piecewise_constant_prior()
        return model

    def _estimate(self, pairs: Pairs, noise: Float[Tensor, " system"] | None = None) -> ConditionedKernel:
        """Whiten, infer the prior, condition; systems along one axis, every node measured."""
        noise = self._noise(pairs) if noise is None else noise
        whitened = self._whitened(pairs, noise)
        kernel = self._conditioned(pairs, whitened, self.inference(whitened, pairs)).stretched(pairs.grid)
        exact = pairs.load_noise is None or not bool(noise_or_zero(pairs.load_noise, pairs.loads).any())
        if self.calibration is None or not exact:
            return kernel  # calibration is for exact loads
        share = noise_share(noise, pairs.responses)
        return replace(kernel, bands=self.calibration.bands(kernel, pairs=pairs.count, share=share))

    def _with_gaps(self, pairs: Pairs, mask: Tensor) -> ConditionedKernel:
        """The same for pairs with gaps: calibration has none, but it has fewer and noisier pairs."""
        lawless, measured = self.config.prior == "gated", mask.flatten(1).to(self.balance).mean(1)
        if lawless and float(measured.min()) < LEAST_MEASURED:
            raise PairsError(
                "gated weights cannot use so few values", expected=f"at least {LEAST_MEASURED:.0%} measured",
                got=f"{float(measured.min()):.1%}", remedy="use SensorInversion (output-error), or weights with a law",
            )  # fmt: skip
        # Without a law a network takes kinks of a first filling for material.
        filled = impute(pairs, self._estimate, loaded=lawless)
        noise = self._noise(filled)
        kernel, least = self._estimate(filled, noise), float(measured.min())
        bands = None
        if kernel.bands is not None and self.calibration is not None and least >= 1 - MOST_GAPS:
            share = noise_share(noise, filled.responses).clamp(min=FILLED) / measured**0.5
            bands = self.calibration.bands(kernel, pairs=max(1, int(least * filled.count)), share=share)
        posteriors = kernel.posteriors
        if kernel.coefficient is not None:
            # Values that were filled in carry no information: the same values, each a little less certain.
            later = _Reestimated(self, filled, noise / measured**0.5, kernel.coefficient)
            posteriors = tuple(partial(later.posterior, number) for number in range(len(noise)))
        return replace(kernel, bands=bands, posteriors=posteriors)

    def _nonlinear(self, pairs: Pairs) -> CorrectedPredictor:
        """Whiten, infer a prior that is not linear, add as much of its residual as is linear."""
        pairs.refuse_mask("ConditionedNIPS of a law that is not linear")
        whitened = self._whitened(pairs, noise_or_zero(pairs.noise, pairs.loads).expand(pairs.batch))
        estimate = self.inference(whitened, pairs)
        alone = estimate.nonlinear
        assert alone is not None
        residual = whitened.mixed(pairs.responses - alone.attempt(pairs.loads))
        kept, score = gcv_weights(residual, whitened)
        if not (self.training and any(True for _ in self.prior.parameters())):
            # A nonlinear part that explains less than none is rejected: a body spoilt by noise or that fails under its
            # loads, a network under loads far larger than those of training.
            plain = alone.without(torch.ones_like(score, dtype=torch.bool)).predict(pairs.loads)
            other = whitened.mixed(pairs.responses - plain)
            linear, without = gcv_weights(other, whitened)
            worse = ~(score <= without)
            alone = alone.without(worse)
            axes = (..., *(None,) * (self.dimension + 2))
            residual, kept = torch.where(worse[axes], other, residual), torch.where(worse[:, None], linear, kept)
        left = residual * kept[..., *(None,) * (self.dimension + 1)]
        correction = LowRankKernel(whitened.grid, left, self._right(whitened, pairs.loads))
        kernel = ConditionedKernel(whitened.grid, alone.kernel, correction)
        return CorrectedPredictor(whitened.grid, kernel, alone).stretched(pairs.grid)

    def _noise(self, pairs: Pairs) -> Float[Tensor, " system"]:
        """Given, or estimated: responses are rough themselves, but what a first prior leaves of them is noise."""
        if pairs.noise is not None:
            return level_like(pairs.noise, pairs.loads).expand(pairs.batch)
        first = self._estimate(pairs, noise_level(pairs.grid, pairs.responses)).prior
        return noise_level(pairs.grid, pairs.responses - first.predict(pairs.loads))

    def _whitened(self, pairs: Pairs, noise: Float[Tensor, " system"]) -> Whitened:
        """On a box of volume 1: there priors hold, whatever the unit of length."""
        return self.whitened(
            pairs.loads, pairs.responses, partition=Partition(pairs.grid), noise=noise, load_noise=pairs.load_noise
        )

    def whitened(
        self, loads: Tensor, responses: Tensor, *, partition: Partition, noise: Float[Tensor, " system"],
        load_noise: Tensor | float | None = None,
    ) -> Whitened:  # fmt: skip
        """The same of fields at the rows of a partition."""
        grid = partition.grid
        unit = replace(partition, grid=grid.stretched(grid.volume ** (-1 / grid.dimension)))
        waves = SlabTransform(unit)
        return whiten(
            loads, responses, waves=waves, metric=self._functions(waves)[0], noise=noise, load_noise=load_noise,
            balance=self.balance.exp(),
        )  # fmt: skip

    def _conditioned(self, pairs: Pairs, whitened: Whitened, estimate: PriorEstimate) -> ConditionedKernel:
        """All of the residual is kept at zero noise, else what is not noise."""
        rest = pairs.responses - estimate.kernel.predict(pairs.loads)
        left, right = self.correction(whitened, pairs.loads, rest)
        strengths, penalty, stiffness = (
            value.to(rest) for value in (whitened.strengths, whitened.penalty, whitened.stiffness_scale)
        )
        metric = self._functions(whitened.waves)[0]
        misfit = (rest.square().flatten(1).sum(1) / pairs.responses.square().flatten(1).sum(1)).sqrt()
        return ConditionedKernel(
            whitened.grid,
            estimate.kernel,
            LowRankKernel(whitened.grid, left, right),
            ContextSubspace(metric, strengths, penalty, stiffness, misfit),
            posteriors=estimate.posteriors,
        )

    def correction(self, whitened: Whitened, loads: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
        """Fields l and r of Σ l_j(x) r_j(y): what is kept of the residual of the pairs, and r = Σ F V."""
        smoothness, waves = self._functions(whitened.waves)[1], whitened.waves
        strengths, penalty = whitened.strengths.to(rest), whitened.penalty.to(rest)[:, None]
        axes = (..., None, *(None,) * self.dimension)
        kept = 1 / ((strengths - penalty).clamp(min=0)[axes] + penalty[axes] / smoothness)
        return waves.synthesis(waves.analysis(whitened.mixed(rest)) * kept), self._right(whitened, loads)

    def _right(self, whitened: Whitened, loads: Tensor) -> Tensor:
        waves, metric = whitened.waves, self._functions(whitened.waves)[0]
        return waves.synthesis(waves.analysis(whitened.mixed(loads)) * metric)

    def _functions(self, waves: SlabTransform) -> tuple[Float[Tensor, "*mode"], Float[Tensor, "*mode"]]:
        """σ(k) and γ(k)."""
        metric, smoothness = self.waves(waves).exp()
        inverse = transform(waves.grid).inverse_laplacian(metric)
        longest, inverse = inverse.max(), waves.cut(inverse)
        return metric * inverse.square(), smoothness * inverse / longest

    def _check_result(self, kernel: ConditionedKernel, pairs: Pairs) -> None:
        """A kernel that is not a number never leaves; in training the loop notices it."""
        if self.training or bool(torch.isfinite(kernel.correction.predict(pairs.loads)).all()):
            return
        pairs.check_finite()
        size = float(pairs.loads.double().square().mean().sqrt())
        raise PairsError(
            "the kernel is not finite", expected="loads of a size near 1", got=f"root mean square {size:.1e}",
            remedy="scale them, model(pairs.scaled(load=a)) * a, or use double precision",
        )  # fmt: skip

    def _check(self, pairs: Pairs) -> None:
        if pairs.grid.dimension != self.dimension or pairs.components != self.components:
            raise PairsError(
                "pairs do not fit the weights",
                expected=f"{self.dimension} axes and components {self.components} of response and load",
                got=f"{pairs.grid.dimension} and {pairs.components}", remedy="choose other weights",
            )  # fmt: skip


def elastic() -> ConditionedNIPS:
    """With an elastic body as its prior, which needs no weights."""
    return ConditionedNIPS(dimension=2, components=(2, 2), prior="elastic").double()


@dataclass(frozen=True, eq=False)
class _Reestimated:
    """An estimate with other noise, made when a posterior is read."""

    model: ConditionedNIPS
    pairs: Pairs
    noise: Float[Tensor, " system"]
    #: What the first estimate inferred; kernels in other units have a multiple of it.
    coefficient: Float[Tensor, "system *space"]

    def posterior(self, number: int, coefficient: Float[Tensor, "*space"]) -> CoefficientPosterior:
        """Of one system, in the unit of its kernel's coefficient."""
        own = self._kernel.system(number)
        assert own.coefficient is not None
        return own.posteriors[0](own.coefficient * (coefficient / self.coefficient[number]).mean())

    @cached_property
    def _kernel(self) -> ConditionedKernel:
        with torch.no_grad():
            return self.model._estimate(self.pairs, self.noise)


@torch.no_grad()
def gcv_weights(
    residual: Float[Tensor, "system pair component *space"], whitened: Whitened
) -> tuple[Float[Tensor, "system pair"], Float[Tensor, " system"]]:
    """How much of a residual is linear in the load, by generalised cross-validation over λ.

        GCV(λ) = Σ_j (λ/(s_j + λ))² ‖r_j‖² / (1 - Σ_j s_j/(s_j + λ) / d)²

    Returns the weights 1/(s_j + λ), 0 for systems whose least score is that of λ = ∞; and the score.
    """
    strengths = (whitened.strengths - whitened.penalty[:, None]).clamp(min=0)
    sizes = residual.double().square().flatten(2).sum(2)
    penalties = constant(np.array, PENALTIES, like=strengths)[:, None] * strengths.amax(1)
    share = penalties[..., None] / (strengths + penalties[..., None])
    scores = (share.square() * sizes).sum(-1) / share.mean(-1).square()
    best = scores.argmin(0)
    selected = penalties.gather(0, best[None]).squeeze(0)
    lowest, nothing = scores.gather(0, best[None]).squeeze(0), sizes.sum(1)
    kept = torch.where((lowest < nothing)[:, None], 1 / (strengths + selected[:, None]), 0.0)
    return kept.to(residual), torch.minimum(lowest, nothing)

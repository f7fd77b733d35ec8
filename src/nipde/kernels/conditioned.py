"""A prior kernel and what the pairs add to it: K = K_θ + Σ_j l_j(x) r_j(y), with a variance for every query.

    v(f) = fᵀΣf - Σ_j (∫ r_j f)² / (s_j + λ),   r = Σ F V

s and V are eigenvalues and eigenvectors of FᵀΣF: v is the part of a load outside the span of the pairs, in the metric
Σ. With weights calibrated on other systems the kernel also has prediction bands and an outlier test.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.errors import KernelError
from nipde.grid import Grid
from nipde.kernels.base import CoefficientPosterior, Fields
from nipde.kernels.low_rank import LowRankKernel
from nipde.kernels.matrix_free import MatrixFreeKernel
from nipde.kernels.prediction_bands import NO_CALIBRATION, PredictionBands
from nipde.kernels.solved import along_batch
from nipde.physics.elastic import ElasticBody
from nipde.spectral.transform import transform


@dataclass(frozen=True, eq=False)
class ContextSubspace:
    """The part of the space of loads that the pairs span."""

    #: σ(k), the multipliers of Σ.
    metric: Float[Tensor, "*mode"]
    #: s_j + λ.
    strengths: Float[Tensor, "*batch rank"]
    #: λ: how much of a strength is noise.
    noise: Float[Tensor, "*batch"]
    #: Stiffness of the best constant coefficient, load per response.
    stiffness_scale: Float[Tensor, "*batch"]
    #: ‖U - K_θ F‖ / ‖U‖: how much of the responses the prior leaves to the correction.
    misfit: Float[Tensor, "*batch"]

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """All but the metric, which systems share, changed."""
        names = ("strengths", "noise", "stiffness_scale", "misfit")
        return replace(self, **{name: change(getattr(self, name)) for name in names})


@dataclass(frozen=True, eq=False)
class ConditionedKernel(MatrixFreeKernel):
    """`prior` is inferred from what the pairs share, `correction` reproduces what they say."""

    prior: MatrixFreeKernel
    correction: LowRankKernel
    subspace: ContextSubspace | None = None
    #: None unless weights were calibrated, loads are exact and gaps few.
    bands: PredictionBands | None = None
    #: For every system in row-major order, its coefficient to its posterior; empty where no coefficient is inferred.
    posteriors: tuple[Callable[[Tensor], CoefficientPosterior], ...] = ()

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
        return replace(self, prior=self.prior.T, correction=self.correction.T, subspace=None, bands=None, posteriors=())

    def __mul__(self, factor: Float[Tensor, "*batch"] | float) -> Self:
        subspace = self.subspace
        if subspace is not None:  # errors are in the unit of the response, too
            scale = subspace.stiffness_scale
            size = torch.as_tensor(factor, dtype=scale.dtype, device=scale.device).abs()
            subspace = replace(subspace, stiffness_scale=scale / size)
        return replace(self, prior=self.prior * factor, correction=self.correction * factor, subspace=subspace)

    def predict(self, loads: Fields) -> Fields:
        """The response of the prior, corrected."""
        return self.predict_with_prior(loads)[0]

    def predict_with_prior(self, loads: Tensor) -> tuple[Tensor, Tensor]:
        """The response, and that of the prior alone."""
        alone = self.prior.predict(loads)
        return alone + self.correction.predict(loads), alone

    def covariance(self, first: Tensor, second: Tensor) -> Float[Tensor, "*batch pair pair"]:
        """Posterior covariance of two loads, in the metric Σ."""
        subspace, waves, flat = self._subspace(), transform(self.grid), -self.grid.dimension - 1
        root = subspace.metric.sqrt()
        rough = [(waves.analysis(loads.to(root)) * root).flatten(flat) for loads in (first, second)]
        known = [self._amounts(loads) / subspace.strengths.sqrt().unsqueeze(-2) for loads in (first, second)]
        return rough[0] @ rough[1].mT - known[0] @ known[1].mT

    def variance(self, loads: Fields) -> Float[Tensor, "*batch_pair"]:
        """v(f) of every load: 0 for loads of the context at zero noise, fᵀΣf for loads orthogonal to all of them."""
        known = self._amounts(loads).square() / self._subspace().strengths.unsqueeze(-2)
        return (self._energy(loads) - known.sum(-1)).clamp(min=0)

    def unseen_share(self, loads: Fields) -> Float[Tensor, "*batch_pair"]:
        """v(f) / fᵀΣf, 0 to 1."""
        return self.variance(loads) / self._energy(loads)

    def spread(self, loads: Fields) -> Float[Tensor, "*batch_pair"]:
        """Scale of the error of every response, in its unit, up to a factor of the calibration.

        √(v(f) + fᵀΣf/100) over the stiffness scale: responses to loads of the context have an error, too.
        """
        subspace = self._subspace()
        return (self.variance(loads) + self._energy(loads) / 100).sqrt() / subspace.stiffness_scale.unsqueeze(-1)

    def band(self, loads: Fields, *, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Two fields like the prediction: a share `level` of the true, noiseless responses lies between them.

        The share is one over nodes, loads and systems like those of calibration; loads of another smoothness and
        outliers are not.
        """
        self.check_loads(loads)
        spread = self.spread(loads)
        if self.bands is None:
            return super().band(loads, level=level)
        factors = self.bands.at(level)
        axes = (None,) * self.grid.dimension
        inside, edge = (factors.new_tensor(mask) for mask in (self.grid.interior, self.grid.edge))
        widths = factors[(..., 0, *axes)] * inside + factors[(..., 1, *axes)] * edge
        half = spread[(..., None, *axes)] * widths[(..., None, None, *(slice(None),) * self.grid.dimension)]
        responses = self.predict(loads)
        return responses - half, responses + half

    def dense(self) -> Float[Tensor, "*batch row column"]:
        """Both parts."""
        return self.prior.dense() + self.correction.dense()

    def diagonal(self) -> Float[Tensor, "*batch_component_space"]:
        """Both parts."""
        return self.prior.diagonal() + self.correction.diagonal()

    @property
    def coefficient(self) -> Float[Tensor, "*batch_space"] | None:
        """That of the prior, if it assumes a law."""
        return self.prior.coefficient

    @property
    def body(self) -> ElasticBody | None:
        """That of the prior."""
        return self.prior.body

    @cached_property
    def posterior(self) -> CoefficientPosterior | None:
        """Computed when first read."""
        if not self.posteriors:
            return None
        if self.batch or self.coefficient is None:
            raise KernelError(expected="one system", got=f"a batch {self.batch}", remedy="take one: kernel.system(0)")
        return self.posteriors[0](self.coefficient)

    @property
    def not_calibrated(self) -> tuple[str, ...]:
        """Why its bands are not known to hold."""
        return (NO_CALIBRATION,) if self.bands is None else self.bands.not_covered

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """All parts, and the posteriors with them."""
        return replace(
            self, prior=self.prior.map(change), correction=self.correction.map(change),
            subspace=None if self.subspace is None else self.subspace.map(change),
            bands=None if self.bands is None else self.bands.map(change),
            posteriors=along_batch(self.posteriors, self.batch, change) if self.posteriors else (),
        )  # fmt: skip

    def stretched(self, to: Grid) -> Self:
        """The same responses to the same loads, and their bands, on a similar box: lengths in another unit."""
        subspace = self.subspace
        if subspace is not None:
            subspace = replace(subspace, metric=subspace.metric / self.grid.ratio(to) ** to.dimension)
        prior, correction = self.prior.stretched(to), self.correction.stretched(to)
        return replace(self, grid=to, prior=prior, correction=correction, subspace=subspace)

    def _amounts(self, loads: Tensor) -> Float[Tensor, "*batch pair rank"]:
        """∫ r_j f."""
        right = self.correction.right.flatten(-self.grid.dimension - 1)
        return self._weighted(loads).flatten(-self.grid.dimension - 1) @ right.mT

    def _energy(self, loads: Tensor) -> Float[Tensor, "*batch pair"]:
        """fᵀΣf."""
        metric = self._subspace().metric
        squares = transform(self.grid).analysis(loads.to(metric)).square() * metric
        return squares.flatten(-self.grid.dimension - 1).sum(-1)

    def _subspace(self) -> ContextSubspace:
        if self.subspace is None:
            raise KernelError(expected="a kernel as estimated", got="a transpose", remedy="ask the kernel itself")
        return self.subspace

    def _ones(self) -> Float[Tensor, "*space"]:
        return self.correction.left.new_ones(self.grid.shape)

"""A prior that inverts -∇·(b ∇u) + ∇·(v u) = f, with b and v inferred from the pairs.

First an equation-error fit from a constant coefficient; then a network, trained on many systems, gives a Gaussian prior
of the coefficients; then the fit again with this prior, with slopes of solved instead of measured responses. Training
uses no true coefficient.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from nipde.constants import constant
from nipde.context.pairs import Pairs
from nipde.discretisation.checkerboard import fix_checkerboard_gauge
from nipde.errors import PairsError
from nipde.estimators.conditioned.equation_error_fit import EquationErrorFit, GaussianPrior, Linearised
from nipde.estimators.conditioned.material_posterior import MaterialPosterior
from nipde.estimators.conditioned.prior import PriorEstimate, PriorNet
from nipde.estimators.conditioned.whitening import Whitened
from nipde.grid import Axis, Grid
from nipde.kernels.elliptic import EllipticKernel

#: Prior of the first fit: log b within about 1/2 of a constant over a tenth of the box, and slow drift.
PRECISION, SMOOTHNESS = 400.0, 0.3
#: In three dimensions jumps between neighbours must cost more: the same cost leaves b at single nodes nearly free.
SPATIAL_SMOOTHNESS = 60.0
#: The same for drift, in units of the diffusivity over the size of the box.
DRIFT_PRECISION, DRIFT_SMOOTHNESS = 4.0, 0.01
#: τ and ε of the piecewise-constant prior, its precision, and rounds of reweighting.
JUMP_COST, SMALL_JUMP, JUMP_PRECISION, JUMP_STEPS = 10.0, 0.02, 1e-3, 6
#: The same of the field of least total variation.
VARIATION_COST, VARIATION_STEPS = 100.0, 4

#: From jump² + ε² to the smoothness of a link.
LinkSmoothness = Callable[[Tensor], Tensor]


class EllipticPrior(nn.Module):
    """Whitened pairs to a kernel A⁻¹."""

    linear = True

    def __init__(self, dimension: int, *, channels: int, drift: bool) -> None:
        super().__init__()
        self.coefficients = 1 + (dimension if drift else 0)
        self.first_steps, self.second_steps, self.iterations = 3, 2, 20
        #: Whether the coefficient is piecewise constant: an option of the user, not a weight.
        self.piecewise_constant: bool | None = False
        self.model_error = nn.Parameter(torch.tensor(-6.0))
        self.mean_power = nn.Parameter(torch.tensor(-1.0))
        inputs = 3 * self.coefficients + 4
        self.net = PriorNet(dimension, inputs=inputs, outputs=3 * self.coefficients, channels=channels)

    def forward(self, whitened: Whitened, pairs: Pairs) -> PriorEstimate:
        """Coefficients by equation error, learned prior, equation error."""
        fit, coefficients, prior = self._fitted(whitened)
        before = GaussianPrior(torch.zeros_like(coefficients), *self._constants(coefficients))
        fitted = _Fitted(fit, self.model_error.detach().exp(), coefficients.detach(), prior, before)
        posteriors = tuple(partial(fitted.posterior, number) for number in range(len(coefficients)))
        log = fix_checkerboard_gauge(whitened.grid, coefficients[:, 0], self.mean_power)
        coefficients = torch.cat([log.unsqueeze(1), coefficients[:, 1:]], 1)
        kernel = _kernel(whitened.grid, coefficients, self.mean_power)
        return PriorEstimate(kernel * (1 / whitened.stiffness_scale).to(coefficients), posteriors)

    def _fitted(self, pairs: Whitened) -> tuple[EquationErrorFit, Tensor, GaussianPrior]:
        """Coefficients before the checkerboard gauge, and their prior."""
        if not any(axis.boundary.essential for axis in pairs.grid.axes):
            raise PairsError(
                "the elliptic prior solves its law",
                expected="a Dirichlet axis", got="none: u is free up to a constant",
                remedy="give one axis a Dirichlet boundary, or use a gated prior",
            )  # fmt: skip
        fit = EquationErrorFit(pairs, model_error=self.model_error.exp(), mean_power=self.mean_power)
        shape = (len(pairs.loads), self.coefficients, *pairs.grid.shape)
        coefficients = pairs.loads.new_zeros(shape)
        prior = GaussianPrior(coefficients, *self._constants(coefficients))
        with torch.no_grad():
            for _ in range(self.first_steps):
                coefficients = fit.step(
                    coefficients, prior, slopes_of=fit.smoothed, iterations=self.iterations, careful=True
                )
            solved = self._solved(pairs, coefficients)
            numbers = self._numbers(fit, coefficients, solved)
        found = self.net(numbers, pairs.waves.partition)
        mean, precision, smoothness = found.unflatten(1, (3, self.coefficients)).unbind(1)
        prior = GaussianPrior(
            coefficients + mean, prior.precision * precision.exp(), prior.smoothness * smoothness.exp()
        )
        for number in range(self.second_steps):
            if number:
                with torch.no_grad():
                    solved = self._solved(pairs, coefficients.detach())
            coefficients = fit.step(coefficients, prior, slopes_of=solved, iterations=self.iterations)
        return self._piecewise_constant(fit, coefficients) if self.piecewise_constant else (fit, coefficients, prior)

    @torch.no_grad()
    def _piecewise_constant(
        self, fit: EquationErrorFit, coefficients: Tensor
    ) -> tuple[EquationErrorFit, Tensor, GaussianPrior]:
        """A piecewise-constant prior instead of the learned one: a jump costs τ log(1 + (jump/ε)²).

        Such a cost has many minima. Two are computed, from the fitted coefficients and from the field of least total
        variation near them; the better one is kept, system by system.
        """
        varied = self._reweighted(fit, coefficients, VARIATION_STEPS, lambda jump: VARIATION_COST * jump.rsqrt())
        starts = (coefficients, varied)
        ends = [self._reweighted(fit, start, JUMP_STEPS, lambda jump: JUMP_COST / jump) for start in starts]
        costs = torch.stack([self._cost(fit, end) for end in ends])
        better = (costs[1] < costs[0])[(..., *(None,) * (coefficients.ndim - 1))]
        coefficients = torch.where(better, ends[1], ends[0])
        return fit, coefficients, self._piecewise_constant_prior(fit, coefficients, lambda jump: JUMP_COST / jump)

    def _reweighted(
        self, fit: EquationErrorFit, coefficients: Tensor, steps: int, smoothness: LinkSmoothness
    ) -> Tensor:
        """Iteratively reweighted steps: the smoothness of a link follows from its jump after the step before."""
        for _ in range(steps):
            prior = self._piecewise_constant_prior(fit, coefficients, smoothness)
            slopes = self._solved(fit.pairs, coefficients)
            coefficients = fit.step(coefficients, prior, slopes_of=slopes, iterations=2 * self.iterations)
        return coefficients

    def _piecewise_constant_prior(
        self, fit: EquationErrorFit, coefficients: Tensor, smoothness: LinkSmoothness
    ) -> GaussianPrior:
        links = tuple(smoothness(jump.square() + SMALL_JUMP**2) for jump in fit.links.difference(coefficients))
        constants = torch.full_like(coefficients, JUMP_PRECISION)
        return GaussianPrior(coefficients, constants, constants, links)

    def _cost(self, fit: EquationErrorFit, coefficients: Tensor) -> Float[Tensor, " system"]:
        """Squared misfit of the responses over their noise, and the cost of the jumps."""
        missed = (self._solved(fit.pairs, coefficients) - fit.responses).square().flatten(2).sum(2)
        data = (missed / fit.pairs.noise.square()).sum(1)
        jumps = zip(fit.links.difference(coefficients), fit.links.factors, strict=True)
        rough = [(shape * (jump / SMALL_JUMP).square().log1p()).flatten(1).sum(1) for jump, shape in jumps]
        return data + JUMP_COST * sum(rough)

    def _solved(self, pairs: Whitened, coefficients: Tensor) -> Tensor:
        return _kernel(pairs.grid, coefficients, self.mean_power).predict(pairs.loads)[:, :, 0]

    def _constants(self, like: Tensor) -> tuple[Tensor, Tensor]:
        axes = (..., *(None,) * (like.ndim - 2))
        smoothness = SPATIAL_SMOOTHNESS if like.ndim == 5 else SMOOTHNESS
        both = ((PRECISION, DRIFT_PRECISION), (smoothness, DRIFT_SMOOTHNESS))
        first, second = (constant(_each, *one, self.coefficients, like=like)[axes].expand_as(like) for one in both)
        return first, second

    def _numbers(
        self, fit: EquationErrorFit, coefficients: Tensor, solved: Tensor
    ) -> Float[Tensor, "system number *space"]:
        """Per node: coefficients, gradient and information of the data, noise, pairs, misfit, distance to the wall."""
        view = Linearised(fit, coefficients, solved)
        information = view.information()
        pull = view.vjp(view.residual) / (information + 1)
        size = float(fit.grid.volume) ** (1 / fit.grid.dimension)
        axes = (..., None, *(None,) * fit.grid.dimension)
        units = constant(_each, 1.0, size / 20, self.coefficients, like=coefficients)[axes].squeeze(1)
        noise = fit.pairs.noise.square().mean(1).sqrt()
        pairs = coefficients.new_full(noise.shape, float(fit.loads.shape[1]))
        misfit = (fit.responses - solved).square().flatten(1).mean(1).sqrt()
        scalars = [(noise + 1e-5).log() / 4 + 1, pairs.log() / 4 - 1, (misfit + 1e-5).log() / 4 + 1]
        constants = [value[axes].expand(-1, 1, *fit.grid.shape) for value in scalars]
        wall = _distance_to_wall(fit.grid, coefficients).expand(len(coefficients), 1, *fit.grid.shape)
        return torch.cat([coefficients * units, pull * units, (information + 1).log() / 8, *constants, wall], 1)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Fitted coefficients of a batch, the learned prior and the one before any data: what a posterior is made of."""

    fit: EquationErrorFit
    model_error: Float[Tensor, ""]
    coefficients: Float[Tensor, "system coefficient *space"]
    prior: GaussianPrior
    before: GaussianPrior

    @torch.no_grad()
    def posterior(self, number: int, coefficient: Float[Tensor, "*space"]) -> MaterialPosterior:
        """Of one system, whose coefficient in physical units is given."""
        one = slice(number, number + 1)
        fit = EquationErrorFit(self.fit.pairs[one], model_error=self.model_error, mean_power=self.fit.mean_power)
        view = Linearised(fit, self.coefficients[one], self._solved[one])
        return MaterialPosterior(view, self.prior[one], self.before[one], coefficient)

    @cached_property
    def _solved(self) -> Float[Tensor, "system pair *space"]:
        """Responses of the fitted coefficients, all systems at once."""
        pairs = self.fit.pairs
        return _kernel(pairs.grid, self.coefficients, self.fit.mean_power).predict(pairs.loads)[:, :, 0]


def _kernel(grid: Grid, coefficients: Tensor, mean_power: Tensor) -> EllipticKernel:
    """A⁻¹ in whitened units."""
    log, drift = coefficients[:, 0], coefficients[:, 1:]
    ones = log.new_ones(len(log))
    return EllipticKernel(grid, log, ones, drift if drift.shape[1] else None, mean_power)


def _distance_to_wall(grid: Grid, like: Tensor) -> Float[Tensor, "*space"]:
    """0 on Dirichlet sides, 1 far away."""
    size = float(grid.volume) ** (1 / grid.dimension)
    nearest = like.new_full(grid.shape, 1.0)
    for place, axis in enumerate(grid.axes):
        if axis.boundary.essential:
            along = constant(_coordinates, axis, like=like)
            distance = torch.minimum(along, axis.length - along) * (10 / size)
            nearest = torch.minimum(nearest, grid.along(place, distance))
    return nearest


def _coordinates(axis: Axis) -> Float[np.ndarray, " node"]:
    return axis.coordinates


def _each(material: float, drift: float, count: int) -> Float[np.ndarray, " coefficient"]:
    """One number for the material's coefficient, another for those of the drift."""
    return np.array([material, *[drift] * (count - 1)])

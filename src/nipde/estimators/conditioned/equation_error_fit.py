"""Equation error of whitened pairs: Gauss-Newton steps for -∇·(b ∇u) + ∇·(v u) = f, b and v unknown.

    min over θ = (log b, v) of  Σ_j ‖f_j - A(θ) u_j‖²_Q(j)  +  Σ (θ - θ₀)² p w  +  Σ_links q (Dθ)²
    Q(j) = Φ diag(1 / (m² + ν_j² λ_k²)) Φᵀ / cell      (m² holds the noise of the loads, if they have any)

The residual is linear in the conductances, and its noise, A times that of u_j, is known: Q weighs it down where it is
rough. Without noise the equation holds in every cell and θ is exact after a few steps; with noise the slopes of u that
multiply the unknowns come from the solution of the step before, or the noise in them would bias θ. All sums run over
pairs, so rotating the pairs changes nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.constants import constant
from nipde.discretisation.conjugate_gradients import reorthogonalised_steps
from nipde.discretisation.operator import EllipticOperator, TensorSensitivity
from nipde.discretisation.tensor_links import OnLinks, TensorLinks, tensor_links
from nipde.estimators.conditioned.whitening import Whitened
from nipde.spectral.transform import Transform, transform

#: Longest step of a coefficient.
LONGEST = 2.0
#: Largest logarithm of b over the best constant.
EXTREME = 4.0
#: Step lengths that are compared.
SHARES = (1.0, 0.5, 0.2, 0.05)

Coefficients = Float[Tensor, "system coefficient *space"]


@dataclass(frozen=True, eq=False)
class White:
    """White numbers z, `draws` of them for every number of one system: `white * root` has the covariance root²."""

    draws: int
    generator: torch.Generator
    like: Tensor

    def __mul__(self, root: Float[Tensor, "1 *space"]) -> Float[Tensor, "draw *space"]:
        return root * torch.randn(self.draws, *root.shape[1:], generator=self.generator).to(self.like)


@dataclass(frozen=True, eq=False)
class GaussianPrior:
    """exp -½[Σ p w (θ - mean)² + Σ_links q (Dθ)²]: `precision` p, `smoothness` q, w the volume of a cell.

    `links`, one field per axis, is q of every link, where it is not the mean of its two cells.
    """

    mean: Coefficients
    precision: Coefficients
    smoothness: Coefficients
    links: OnLinks | None = None

    def __getitem__(self, systems: slice) -> "GaussianPrior":
        links = None if self.links is None else tuple(link[systems] for link in self.links)
        return GaussianPrior(self.mean[systems], self.precision[systems], self.smoothness[systems], links)

    def energy(self, links: TensorLinks, coefficients: Tensor) -> Float[Tensor, " system"]:
        """Σ p w (θ - mean)² + Σ_links q (Dθ)²."""
        near = self.precision * links.volume * (coefficients - self.mean).square()
        drops = zip(self._link_smoothness(links), links.difference(coefficients), strict=True)
        rough = [(q * drop.square()).flatten(1).sum(1) for q, drop in drops]
        return near.flatten(1).sum(1) + sum(rough)

    def product(self, links: TensorLinks, distance: Tensor, field: Tensor | None = None) -> Tensor:
        """p w · distance + Dᵀ q D · field; the field is the distance unless given."""
        drops = zip(self._link_smoothness(links), links.difference(distance if field is None else field), strict=True)
        return self.precision * links.volume * distance + links.divergence(tuple(q * drop for q, drop in drops))

    def diagonal(self, links: TensorLinks) -> Tensor:
        """Of the precision matrix."""
        own = self._link_smoothness(links)
        return self.precision * links.volume + links.scattered(own, own)

    def drawn(self, links: TensorLinks, white: "White") -> Float[Tensor, "draw coefficient *space"]:
        """Vectors whose covariance is the precision matrix: (p w)^½ z + Dᵀ q^½ z'."""
        own = white * (self.precision * links.volume).sqrt()
        return own + links.divergence(tuple(white * q.sqrt() for q in self._link_smoothness(links)))

    def _link_smoothness(self, links: TensorLinks) -> list[Tensor]:
        values = links.means(self.smoothness) if self.links is None else self.links
        return [q * factor for q, factor in zip(values, links.factors, strict=True)]


class EquationErrorFit:
    """Residuals of whitened pairs of a scalar law, and Gauss-Newton steps."""

    def __init__(self, pairs: Whitened, *, model_error: Float[Tensor, ""], mean_power: float | Tensor) -> None:
        self.pairs, self.grid = pairs, pairs.grid
        self.links: TensorLinks = tensor_links(pairs.grid, pairs.loads)
        self.waves: Transform = transform(pairs.grid)
        self.mean_power = torch.as_tensor(mean_power).detach()
        self.loads, self.responses = pairs.loads[:, :, 0], pairs.responses[:, :, 0] * self.links.is_unknown
        self.cell = float(pairs.grid.volume) / pairs.grid.size
        eigenvalues = self.links.eigenvalues
        power = self.waves.analysis(self.loads).square().mean(self.space, keepdim=True)
        size = model_error**2 * power.mean(1, keepdim=True) / self.cell
        axes = (..., *(None,) * self.grid.dimension)
        noise = pairs.noise.square()[axes] * eigenvalues.square()
        #: Weight of every mode of every pair's residual.
        self.weights = 1 / (size + pairs.load_noise.square()[axes] + noise) / self.cell
        #: Responses without the waves that are mostly noise.
        kept = power / (power + noise * self.cell)
        self.smoothed = self.waves.synthesis(self.waves.analysis(self.responses) * kept)

    def step(
        self, coefficients: Coefficients, prior: GaussianPrior, *, slopes_of: Float[Tensor, "system pair *space"],
        iterations: int, careful: bool = False,
    ) -> Coefficients:  # fmt: skip
        """The next coefficients, differentiable in prior and model error; `careful` compares step lengths."""
        view = Linearised(self, coefficients.detach(), slopes_of.detach())
        with torch.no_grad():
            gradient = self._descent(view, prior, torch.zeros_like(coefficients))
            diagonal = view.information() + prior.diagonal(self.links)

            def normal(change: Tensor) -> Tensor:
                return view.normal(change) + prior.product(self.links, change)

            def solve(right: Tensor) -> Tensor:
                return reorthogonalised_steps(normal, right, diagonal=diagonal, iterations=iterations)

            # Pairs that obey no such law may leave no finite step; then the coefficients stay as they are.
            change = torch.nan_to_num(solve(gradient), 0.0, 0.0, 0.0)
            share = self._share(view, prior, change) if careful else 1.0
        if prior.mean.requires_grad:
            change = change + _Through.apply(self._descent(view, prior, change), solve)  # type: ignore[no-untyped-call]
        log, *drift = (view.point + share * change.clamp(-LONGEST, LONGEST)).unbind(1)
        return torch.stack([log.clamp(-EXTREME, EXTREME), *drift], 1)

    def _share(self, view: "Linearised", prior: GaussianPrior, change: Tensor) -> Float[Tensor, "system 1 *one"]:
        """The step length of least objective among a few."""
        change = change.clamp(-LONGEST, LONGEST)
        objectives = torch.stack([self._objective(view.point + share * change, prior) for share in SHARES])
        best = constant(np.array, SHARES, like=change)[objectives.nan_to_num(torch.inf).argmin(0)]
        return best[(..., *(None,) * (change.ndim - 1))]

    def _objective(self, coefficients: Tensor, prior: GaussianPrior) -> Float[Tensor, " system"]:
        residual = self.residual(coefficients)
        data = (self.waves.analysis(residual / self.links.volume).square() * self.weights).flatten(1).sum(1)
        return data + prior.energy(self.links, coefficients)

    def residual(self, coefficients: Tensor) -> Float[Tensor, "system pair *space"]:
        """W f - A u in every cell."""
        drift = coefficients[:, 1:] if coefficients.shape[1] > 1 else None
        operator = EllipticOperator.of(self.grid, coefficients[:, 0], drift, self.mean_power)
        return self.loads * self.links.volume * self.links.is_unknown - operator(self.responses)

    def _descent(self, view: "Linearised", prior: GaussianPrior, change: Tensor) -> Tensor:
        """Minus the gradient of the quadratic at a change."""
        data, field = view.vjp(view.residual - view.jvp(change)), view.point + change
        return data - prior.product(self.links, field - prior.mean, field)

    @property
    def space(self) -> tuple[int, ...]:
        """Axes of the nodes."""
        return tuple(range(-self.grid.dimension, 0))


class Linearised:
    """The residual around one set of coefficients: r - J δ, weighted with Q; J at the slopes of given responses."""

    def __init__(self, fit: EquationErrorFit, point: Tensor, slopes_of: Tensor) -> None:
        self.fit, self.point, self.residual = fit, point, fit.residual(point)
        self.sensitivity = TensorSensitivity(fit.links, point, slopes_of, mean_power=fit.mean_power.to(point))
        self.jvp = self.sensitivity.jvp

    def vjp(self, outflow: Float[Tensor, "system pair *space"]) -> Float[Tensor, "system coefficient *space"]:
        """Jᵀ Q."""
        return self.sensitivity.vjp(self._weigh(outflow, slice(None)))

    def chi_squared(self) -> Float[Tensor, " system"]:
        """Square of the residual over its variance, mean of all modes and pairs."""
        modes = self.fit.waves.analysis(self.residual / self.fit.links.volume)
        return (modes.square() * self.fit.weights).flatten(1).mean(1)

    def normal(self, change: Tensor) -> Tensor:
        """Jᵀ Q J."""
        return self.sensitivity.normal(change, weigh=self._weigh)

    def _weigh(self, outflow: Float[Tensor, "system pair *space"], pairs: slice) -> Tensor:
        """Q of some of the pairs."""
        waves = self.fit.waves
        return waves.synthesis(waves.analysis(outflow / self.fit.links.volume) * self.fit.weights[:, pairs])

    def drawn(self, white: "White") -> Float[Tensor, "draw coefficient *space"]:
        """Vectors Jᵀ Q^½ z, whose covariance is Jᵀ Q J."""
        return self.sensitivity.vjp(self.fit.waves.synthesis(white * self.fit.weights.sqrt()))

    def information(self) -> Float[Tensor, "system coefficient *space"]:
        """The diagonal of Jᵀ Q J, roughly."""
        return self.sensitivity.diagonal(self.fit.weights.mean(self.fit.space, keepdim=True))


class _Through(torch.autograd.Function):
    """0 forward; backward the gradient of M⁻¹ r at r = 0: M⁻¹ again."""

    @staticmethod
    def forward(context: Any, residual: Tensor, solve: Any) -> Tensor:
        context.solve = solve
        return torch.zeros_like(residual)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return context.solve(gradients[0]), None

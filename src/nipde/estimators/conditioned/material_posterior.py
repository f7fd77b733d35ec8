"""How sure log b is, of one system: the curvature of the equation error and of its priors, inverted on the diagonal.

    H = JᵀQJ + P + DᵀqD,    deviation(x) = √(H⁻¹)(x, x),    identifiable(x) = 1 - (JᵀQJ + B)⁻¹(x, x) / B⁻¹(x, x)

Of some thousand unknowns by all columns. Of more by draws: a vector of covariance H, JᵀQ^½ z + P^½ z' + Dᵀq^½ z'' with
white z, is solved for x = H⁻¹ of it, whose covariance is H⁻¹. A deviation from n draws has itself one of 1/√(2n).
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.discretisation.conjugate_gradients import reorthogonalised_steps
from nipde.estimators.conditioned.equation_error_fit import GaussianPrior, Linearised, White

#: Unknowns up to which all columns are made; more are drawn.
DENSE = 3000
#: Draws, steps of conjugate gradients of each, and the seed.
DRAWS, STEPS, SEED = 24, 50, 0
#: Values of all pairs that one block of columns may hold.
BLOCK = 2**24


@dataclass(frozen=True, eq=False)
class MaterialPosterior:
    """Of one system: the linearised residual at the estimate, the prior of the network, and the one before any data."""

    view: Linearised
    prior: GaussianPrior
    #: B is its precision.
    before: GaussianPrior
    #: b itself, in the unit of load · length² / response.
    coefficient: Float[Tensor, "*space"]

    @torch.no_grad()
    def deviation(self) -> Float[Tensor, "*space"]:
        """Standard deviation of log b at every node."""
        return self._variance(self.prior).sqrt()

    @property
    def widening(self) -> float:
        """√χ² of the residual, at least 1: what noise and prior do not explain is error of the law or of its grid."""
        return max(1.0, float(self.view.chi_squared())) ** 0.5

    @torch.no_grad()
    def identifiable(self) -> Float[Tensor, "*space"]:
        """0 where the pairs do not determine b, 1 where they do."""
        return (1 - self._variance(self.before) / self._variance(self.before, data=False)).clamp(0, 1)

    def _variance(self, prior: GaussianPrior, *, data: bool = True) -> Float[Tensor, "*space"]:
        """The material's part of the inverse's diagonal."""
        if self.view.point.numel() > DENSE:
            return self._drawn_variance(prior, data=data)
        return self._inverse_diagonal(self._precision(prior) + (self._data if data else 0.0))

    def _drawn_variance(self, prior: GaussianPrior, *, data: bool) -> Float[Tensor, "*space"]:
        """Mean squares of draws, the prior's the same with data and without: what no pair sees is not identifiable."""
        view, links = self.view, self.view.fit.links
        generators = [torch.Generator().manual_seed(seed) for seed in (SEED, SEED + 1)]
        diagonal = prior.diagonal(links) + (view.information() if data else 0.0)

        def normal(change: Tensor) -> Tensor:
            own = prior.product(links, change)
            return own + view.normal(change) if data else own

        total = torch.zeros_like(view.point[0, 0])
        for some in torch.arange(DRAWS).split(max(1, BLOCK // view.residual[0].numel())):
            of_prior, of_data = (White(len(some), generator, like=view.point) for generator in generators)
            right = prior.drawn(links, of_prior) + (view.drawn(of_data) if data else 0.0)
            solved = reorthogonalised_steps(normal, right, diagonal=diagonal, iterations=STEPS)
            total += solved[:, 0].square().sum(0)
        return total / DRAWS

    @cached_property
    def _data(self) -> Float[Tensor, "number number"]:
        """JᵀQJ; columns in blocks."""
        block = max(1, BLOCK // self.view.residual[0].numel())
        return torch.cat([self.view.normal(some).flatten(1) for some in self._columns.split(block)])

    def _precision(self, prior: GaussianPrior) -> Float[Tensor, "number number"]:
        return prior.product(self.view.fit.links, self._columns).flatten(1)

    @cached_property
    def _columns(self) -> Float[Tensor, "number coefficient *space"]:
        point = self.view.point[0]
        return torch.eye(point.numel(), dtype=point.dtype, device=point.device).view(-1, *point.shape)

    def _inverse_diagonal(self, precision: Float[Tensor, "number number"]) -> Float[Tensor, "*space"]:
        """By a Cholesky factor."""
        point = self.view.point[0]
        precision = precision.double()
        precision = (precision + precision.mT) / 2
        # Its size varies over many orders: scaled to a unit diagonal before it is factored.
        scale = precision.diagonal().rsqrt()
        rounding = (
            torch.finfo(point.dtype).eps
            * len(scale)
            * torch.eye(len(scale), dtype=precision.dtype, device=precision.device)
        )
        lower = torch.linalg.cholesky(precision * scale[:, None] * scale + rounding)
        inverse = torch.cholesky_inverse(lower).diagonal()
        return (inverse * scale.square()).view(point.shape)[0].to(point)

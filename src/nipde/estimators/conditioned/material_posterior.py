"""Posterior of the coefficients: a normal distribution around their estimate, its precision that of the fit.

    H = JᵀQJ + P + DᵀqD,     deviation(x) = √(H⁻¹)(x, x),     identifiable(x) = 1 - (JᵀQJ + B)⁻¹(x, x) / B⁻¹(x, x)

B is the precision of the prior before any data. Both need all columns of a matrix as large as the grid: for up to some
thousand nodes.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.estimators.conditioned.equation_error_fit import GaussianPrior, Linearised

#: Values of all pairs that one block of columns may hold.
BLOCK = 2**24


@dataclass(frozen=True, eq=False)
class MaterialPosterior:
    """Of one system: the linearised residual at the estimate, the prior of the network, and the one before any data."""

    view: Linearised
    prior: GaussianPrior
    before: GaussianPrior
    #: b itself, in the unit of load · length² / response.
    coefficient: Float[Tensor, "*space"]

    @torch.no_grad()
    def deviation(self) -> Float[Tensor, "*space"]:
        """Standard deviation of log b at every node."""
        return self._variance(self._precision(self.prior) + self._data).sqrt()

    @torch.no_grad()
    def identifiable(self) -> Float[Tensor, "*space"]:
        """0 where the pairs do not determine b, 1 where they do."""
        before = self._precision(self.before)
        return (1 - self._variance(before + self._data) / self._variance(before)).clamp(0, 1)

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

    def _variance(self, precision: Float[Tensor, "number number"]) -> Float[Tensor, "*space"]:
        """Diagonal of the inverse, the material's part."""
        point = self.view.point[0]
        precision = precision.double()
        precision = (precision + precision.mT) / 2
        # Its size varies over many orders: scaled to a unit diagonal before it is factored.
        scale = precision.diagonal().rsqrt()
        rounding = torch.finfo(point.dtype).eps * len(scale) * torch.eye(len(scale)).to(precision)
        lower = torch.linalg.cholesky(precision * scale[:, None] * scale + rounding)
        inverse = torch.cholesky_inverse(lower).diagonal()
        return (inverse * scale.square()).view(point.shape)[0].to(point)

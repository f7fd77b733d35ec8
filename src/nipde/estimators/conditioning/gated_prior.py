"""A prior that assumes no law: gated convolutions, the gates from what the pairs share at every node."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nipde.estimators.conditioning.invariants import field_count, invariants, local_count
from nipde.estimators.conditioning.prior_net import PriorNet
from nipde.estimators.conditioning.wavenumber import WaveFunction, inverse_square
from nipde.estimators.conditioning.whitening import Whitened
from nipde.grid import Grid
from nipde.kernels.gated import GatedKernel

#: Odd terms along every axis, where there is a drift.
ODD = 2
#: An odd gate of size 1, in box sizes: what moves with v has the kernel (1 + v·(x - y)/2 + …) Δ⁻¹, and v may be 20.
REACH = 10.0


class GatedPrior(nn.Module):
    """Whitened pairs to Σ_r a_r Φ m_r Φᵀ c_r in whitened units; at the start Δ⁻¹ and small terms.

    Convolutions with even multipliers are symmetric, and only gates could tell x from y. With `drift` there are terms
    a(x) (x - y) Φ m Φᵀ c(y), too: odd along an axis, each made of two gated convolutions.
    """

    def __init__(
        self,
        dimension: int,
        *,
        components: tuple[int, int],
        channels: int,
        terms: int,
        drift: bool = False,
        told: int = 0,
    ) -> None:
        super().__init__()
        self.components, self.terms, self.odd = components, terms, ODD * dimension if drift else 0
        self.strengths = nn.Parameter(torch.zeros(field_count(dimension, components)))
        numbers = local_count(dimension, components) + 3
        gates = (terms + self.odd) * sum(components)
        self.net = PriorNet(dimension, inputs=numbers, outputs=gates + told, channels=channels)
        self.multipliers = WaveFunction(terms + self.odd)
        self.starts = nn.Parameter(torch.zeros(terms + self.odd))
        with torch.no_grad():
            self.starts[0] = 1.0
            self.starts[terms:] = 1.0
            nn.init.normal_(self.multipliers.outer.weight, std=0.1)

    def forward(self, pairs: Whitened) -> GatedKernel:
        """Gates near 1."""
        return self.with_fields(pairs)[0]

    def with_fields(self, pairs: Whitened) -> tuple[GatedKernel, Float[Tensor, "system field *space"]]:
        """The same, and what else is `told` about every place."""
        numbers = torch.cat([invariants(pairs, self.strengths), self._constants(pairs)], 1)
        (out, into), count = self.components, self.terms + self.odd
        left, right, told = self.net(numbers).tensor_split([count * out, count * (out + into)], 1)
        left, right = left.unflatten(1, (count, out)), 1 + right.unflatten(1, (count, into))
        starts = self.starts[:, *(None,) * pairs.grid.dimension]
        multipliers = (starts + self.multipliers(pairs.grid)) * inverse_square(pairs.grid, left)
        # Terms, then x times odd ones, then odd ones times y.
        odd, along = REACH * left[:, self.terms :], _positions(pairs.grid, left).repeat_interleave(ODD, 0)[: self.odd]
        along = along.unsqueeze(1)
        left = torch.cat([1 + left[:, : self.terms], along * odd, -odd], 1)
        right = torch.cat([right, along * right[:, self.terms :]], 1)
        return GatedKernel(pairs.grid, left, right, torch.cat([multipliers, multipliers[self.terms :]])), told

    def _constants(self, pairs: Whitened) -> Tensor:
        noise = pairs.noise.square().mean(1).sqrt()
        count = torch.full_like(noise, float(pairs.loads.shape[1]))
        told = [
            (noise + 1e-5).log() / 4 + 1,
            count.log() / 4 - 1,
            torch.full_like(noise, pairs.grid.axes[0].spacing).log() / 4,
        ]
        axes = (..., None, *(None,) * pairs.grid.dimension)
        return torch.cat([value[axes].expand(-1, 1, *pairs.grid.shape) for value in told], 1)


def _positions(grid: Grid, like: Tensor) -> Float[Tensor, "axis *space"]:
    """Along every axis, from the middle of the box."""
    along = (place - axis.length / 2 for place, axis in zip(grid.coordinates, grid.axes, strict=True))
    return torch.stack([like.new_tensor(place) for place in along])

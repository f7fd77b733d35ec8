"""A prior that assumes no law: gated convolutions, the gates from what the pairs share at every node."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nipde.estimators.conditioning.invariants import field_count, invariants, local_count
from nipde.estimators.conditioning.prior_net import PriorNet
from nipde.estimators.conditioning.wavenumber import WaveFunction, inverse_square
from nipde.estimators.conditioning.whitening import Whitened
from nipde.kernels.gated import GatedKernel


class GatedPrior(nn.Module):
    """Whitened pairs to Σ_r a_r Φ m_r Φᵀ c_r in whitened units; at the start Δ⁻¹ and small terms."""

    def __init__(
        self, dimension: int, *, components: tuple[int, int], channels: int, terms: int, told: int = 0
    ) -> None:
        super().__init__()
        self.components, self.terms = components, terms
        self.strengths = nn.Parameter(torch.zeros(field_count(dimension, components)))
        numbers = local_count(dimension, components) + 3
        self.net = PriorNet(dimension, inputs=numbers, outputs=terms * sum(components) + told, channels=channels)
        self.multipliers = WaveFunction(terms)
        self.starts = nn.Parameter(torch.zeros(terms))
        with torch.no_grad():
            self.starts[0] = 1.0
            nn.init.normal_(self.multipliers.outer.weight, std=0.1)

    def forward(self, pairs: Whitened) -> GatedKernel:
        """Gates near 1."""
        return self.with_fields(pairs)[0]

    def with_fields(self, pairs: Whitened) -> tuple[GatedKernel, Float[Tensor, "system field *space"]]:
        """The same, and what else is `told` about every place."""
        numbers = torch.cat([invariants(pairs, self.strengths), self._constants(pairs)], 1)
        found, (out, into) = self.net(numbers), self.components
        gates, told = 1 + found[:, : self.terms * (out + into)], found[:, self.terms * (out + into) :]
        left, right = gates.split([self.terms * out, self.terms * into], 1)
        starts = self.starts[:, *(None,) * pairs.grid.dimension]
        multipliers = (starts + self.multipliers(pairs.grid)) * inverse_square(pairs.grid, gates)
        left, right = left.unflatten(1, (self.terms, out)), right.unflatten(1, (self.terms, into))
        return GatedKernel(pairs.grid, left, right, multipliers), told

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

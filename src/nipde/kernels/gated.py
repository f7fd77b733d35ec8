"""A sum of gated convolutions, K = Σ_r diag(a_r) Φ diag(m_r) Φᵀ diag(c_r): no law is assumed, no N × N matrix stored.

Φ are the waves that fit the grid's boundary. Applying it costs one transform there and back per term.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nipde.grid import Grid
from nipde.kernels.base import Fields
from nipde.kernels.low_rank import FactoredKernel
from nipde.kernels.matrix_free import MatrixFreeKernel
from nipde.spectral.slab_transform import SlabTransform
from nipde.spectral.transform import Transform, transform


@dataclass(frozen=True, eq=False)
class GatedKernel(FactoredKernel, MatrixFreeKernel):
    """`left` holds the gates a_r of the response, `right` the gates c_r of the load, `multipliers` the even m_r."""

    multipliers: Float[Tensor, "term *mode"]

    def predict(self, loads: Fields) -> Fields:
        """Gate, transform, multiply, transform back, gate."""
        return gated_responses(loads, self.left, self.right, self.multipliers, waves=transform(self.grid))

    def homogeneous_in(self, systems: Bool[Tensor, "*batch"], compliance: Float[Tensor, "*batch"]) -> Self:
        """The same, some systems replaced by `compliance` (-Δ)⁻¹ of every component, or 0 if loads have others."""
        (out, into), space = self.components, self.grid.shape
        count, last = out if out == into else 0, (None,) * len(space)
        replaced, scale = (one[(..., None, None, *last)] for one in (systems, compliance.to(self.left)))
        gates = []
        for gate, factor in ((self.left, scale), (self.right, torch.ones_like(scale))):
            units = torch.eye(count, gate.shape[-len(space) - 1]).to(gate)[(..., *last)] * factor * replaced
            more = units.expand(*units.shape[: -len(space)], *space)
            gates.append(torch.cat([gate.masked_fill(replaced, 0), more], -len(space) - 2))
        plain = transform(self.grid).inverse_laplacian(self.left).expand(count, *self.multipliers.shape[1:])
        return replace(self, left=gates[0], right=gates[1], multipliers=torch.cat([self.multipliers, plain]))

    def stretched(self, to: Grid) -> Self:
        """The same answers to the same loads on a similar box."""
        return replace(self, grid=to)


def gated_responses(
    loads: Fields, left: Tensor, right: Tensor, multipliers: Tensor, *, waves: Transform | SlabTransform
) -> Fields:
    """Σ_r a_r Φ m_r Φᵀ c_r f, on the rows that the transform has."""
    component = -waves.grid.dimension - 1
    # Component by component: their products with all gates at once would not fit the cache.
    loads, right, left = loads.to(left), right.unsqueeze(component - 2), left.unsqueeze(component - 2)
    inner = loads.select(component, 0).unsqueeze(component) * right.select(component, 0)
    for place in range(1, right.shape[component]):
        inner = torch.addcmul(
            inner, loads.select(component, place).unsqueeze(component), right.select(component, place)
        )
    answers = waves.synthesis(waves.analysis(inner) * multipliers)
    responses = [(answers * left.select(component, place)).sum(component) for place in range(left.shape[component])]
    return torch.stack(responses, component)

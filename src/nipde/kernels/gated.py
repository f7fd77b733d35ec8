"""A sum of gated convolutions, K = Σ_r diag(a_r) Φ diag(m_r) Φᵀ diag(c_r): no law is assumed, no N × N matrix stored.

Φ are the waves that fit the grid's boundary. Applying it costs one transform there and back per term.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.grid import Grid
from nipde.kernels.matrix_free import MatrixFreeKernel
from nipde.spectral.transform import transform


@dataclass(frozen=True, eq=False)
class GatedKernel(MatrixFreeKernel):
    """`left` holds the gates a_r of the response, `right` the gates c_r of the load, `multipliers` the m_r."""

    left: Float[Tensor, "*batch_term_component_space"]
    right: Float[Tensor, "*batch_term_component_space"]
    multipliers: Float[Tensor, "term *mode"]

    @property
    def components(self) -> tuple[int, int]:
        """Components of the gates."""
        place = -self.grid.dimension - 1
        return int(self.left.shape[place]), int(self.right.shape[place])

    @property
    def batch(self) -> tuple[int, ...]:
        """Axes in front of the terms."""
        return tuple(self.left.shape[: -self.grid.dimension - 2])

    @property
    def T(self) -> Self:
        """The gates exchanged: convolutions with even multipliers are symmetric."""
        return replace(self, left=self.right, right=self.left)

    def __mul__(self, factor: Float[Tensor, "*batch"] | float) -> Self:
        factor = torch.as_tensor(factor, dtype=self.left.dtype, device=self.left.device)
        return replace(self, left=self.left * factor[(..., *(None,) * (self.grid.dimension + 2))])

    def predict(
        self, loads: Float[Tensor, "*batch_pair_component_space"]
    ) -> Float[Tensor, "*batch_pair_component_space"]:
        """Gate, transform, multiply, transform back, gate."""
        waves, component = transform(self.grid), -self.grid.dimension - 1
        # Component by component: their products with all gates at once would not fit the cache.
        loads, right = loads.to(self.left), self.right.unsqueeze(component - 2)
        inner = loads.select(component, 0).unsqueeze(component) * right.select(component, 0)
        for place in range(1, self.components[1]):
            inner = torch.addcmul(
                inner, loads.select(component, place).unsqueeze(component), right.select(component, place)
            )
        answers = waves.synthesis(waves.analysis(inner) * self.multipliers)
        left = self.left.unsqueeze(component - 2)
        responses = [(answers * left.select(component, place)).sum(component) for place in range(self.components[0])]
        return torch.stack(responses, component)

    def with_batch(self, batch: tuple[int, ...]) -> Self:
        """The same systems, their axes folded otherwise."""
        place = -self.grid.dimension - 2
        left, right = (gates.reshape(*batch, *gates.shape[place:]) for gates in (self.left, self.right))
        return replace(self, left=left, right=right)

    def system(self, number: int) -> Self:
        """One of a batch with one axis."""
        return replace(self, left=self.left[number], right=self.right[number])

    def stretched(self, to: Grid) -> Self:
        """The same answers to the same loads on a similar box."""
        return replace(self, grid=to)

    def _ones(self) -> Float[Tensor, "*space"]:
        return self.left.new_ones(self.grid.shape)

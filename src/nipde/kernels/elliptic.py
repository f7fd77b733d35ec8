"""The inverse of a local operator: K = A⁻¹ of -∇·(b ∇u) + ∇·(v u) = f, its coefficients tensors with gradients.

Where `LawKernel` holds laws that are known, this one holds coefficients that were inferred, for all systems of a batch
at once. Between two nodes b is their mean of power p: harmonic at p = -1, arithmetic at p = 1.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.discretisation.operator import EllipticOperator
from nipde.grid import Grid
from nipde.kernels.solved import SolvedKernel


@dataclass(frozen=True, eq=False)
class EllipticKernel(SolvedKernel):
    """factor·A⁻¹; the material of system i is b = exp(log_coefficient) / factor, and v = drift / factor."""

    log_coefficient: Float[Tensor, "*batch_space"]
    factor: Float[Tensor, "*batch"]
    drift: Float[Tensor, "*batch_axis_space"] | None = None
    mean_power: float | Float[Tensor, ""] = -1.0
    transposed: bool = False

    @property
    def components(self) -> tuple[int, int]:
        """A scalar law."""
        return 1, 1

    @property
    def coefficient(self) -> Float[Tensor, "*batch_space"]:
        """b in physical units: the microstructure."""
        return self.log_coefficient.exp() / self.factor[(..., *(None,) * self.grid.dimension)]

    def predict(
        self, loads: Float[Tensor, "*batch_pair_component_space"]
    ) -> Float[Tensor, "*batch_pair_component_space"]:
        """One solve per load."""
        place = -self.grid.dimension - 1
        moments = self._weighted(loads).squeeze(place)
        batch = torch.broadcast_shapes(self.batch, moments.shape[:place])
        moments = moments.expand(*batch, *moments.shape[place:])
        # Flattened to systems × pairs; a kernel that several batches of loads share is factored for each of them.
        right = moments.reshape(-1, *moments.shape[place:])
        responses = self._expanded(batch).operator().solve(right, transposed=self.transposed).view(moments.shape)
        return (responses * self._per_system(-place)).unsqueeze(place)

    def dense(self) -> Float[Tensor, "*batch row column"]:
        """A⁻¹ itself, N × N; zero where the value is given."""
        operator = self.operator()
        matrix = operator.matrix()
        inverse = torch.linalg.inv(matrix)
        if self.drift is None:
            inverse = (inverse + inverse.mT) / 2  # reciprocity is exact
        values = matrix.new_zeros(len(matrix), self.grid.size, self.grid.size)
        unknown = operator.links.unknown
        values[:, unknown[:, None], unknown] = inverse
        values = values.view(*self.batch, *values.shape[1:]) * self._per_system(2)
        return values.mT if self.transposed else values

    def operator(self) -> EllipticOperator:
        """A of every system, batch axes flattened."""
        log = self.log_coefficient.reshape(-1, *self.grid.shape)
        drift = None if self.drift is None else self.drift.reshape(-1, self.grid.dimension, *self.grid.shape)
        return EllipticOperator.of(self.grid, log, drift, self.mean_power)

    def with_batch(self, batch: tuple[int, ...]) -> Self:
        """The same systems, their axes folded otherwise."""
        shape = self.grid.shape
        drift = None if self.drift is None else self.drift.reshape(*batch, self.grid.dimension, *shape)
        log = self.log_coefficient.reshape(*batch, *shape)
        return replace(self, log_coefficient=log, drift=drift, factor=self.factor.reshape(batch))

    def system(self, number: int) -> Self:
        """One of a batch with one axis."""
        drift = None if self.drift is None else self.drift[number]
        return replace(self, log_coefficient=self.log_coefficient[number], drift=drift, factor=self.factor[number])

    def stretched(self, to: Grid) -> Self:
        """The same responses on a similar box: b grows with the square of its size, v with the size."""
        size = self.grid.ratio(to)
        drift = None if self.drift is None else self.drift / size
        return replace(self, grid=to, drift=drift, factor=self.factor / size**2)

    def _expanded(self, batch: tuple[int, ...]) -> Self:
        if batch == self.batch:
            return self
        log = self.log_coefficient.expand(*batch, *self.grid.shape)
        drift = None if self.drift is None else self.drift.expand(*batch, self.grid.dimension, *self.grid.shape)
        return replace(self, log_coefficient=log, drift=drift, factor=self.factor.expand(batch))

"""The inverse of a local operator: K = A⁻¹ of -∇·(b ∇u) + ∇·(v u) = f, its coefficients tensors with gradients.

Where `LawKernel` holds laws that are known, this one holds coefficients that were inferred, for all systems of a batch
at once. Between two nodes b is their mean of power p: harmonic at p = -1, arithmetic at p = 1.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.discretisation.operator import EllipticOperator
from nipde.grid import Grid
from nipde.kernels.base import Fields
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

    def predict(self, loads: Fields) -> Fields:
        """One solve per load."""
        place = -self.grid.dimension - 1
        moments = self._weighted(loads).squeeze(place)
        batch = np.broadcast_shapes(self.batch, moments.shape[:place])
        moments = moments.expand(*batch, *moments.shape[place:])
        # Flattened to systems × pairs; a kernel that several batches of loads share is factored for each of them.
        right = moments.reshape(-1, *moments.shape[place:])
        shared = self.map(lambda value: value.expand((*batch, *value.shape[len(self.batch) :])))
        responses = shared.operator().solve(right, transposed=self.transposed).view(moments.shape)
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

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Coefficients and factor."""
        drift = None if self.drift is None else change(self.drift)
        return replace(self, log_coefficient=change(self.log_coefficient), drift=drift, factor=change(self.factor))

    def stretched(self, to: Grid) -> Self:
        """The same responses on a similar box: b grows with the square of its size, v with the size."""
        size = self.grid.ratio(to)
        drift = None if self.drift is None else self.drift / size
        return replace(self, grid=to, drift=drift, factor=self.factor / size**2)

"""Kernels that predict by solving their law: factor·A⁻¹ of every system of a batch, or of its transpose."""

from dataclasses import replace
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.kernels.matrix_free import MatrixFreeKernel


class SolvedKernel(MatrixFreeKernel):
    """Final classes are dataclasses with these two fields, and hold the law."""

    factor: Float[Tensor, "*batch"]
    transposed: bool

    @property
    def batch(self) -> tuple[int, ...]:
        """Axes of the factor."""
        return tuple(self.factor.shape)

    @property
    def T(self) -> Self:
        """Of the adjoint law."""
        return self._with(transposed=not self.transposed)

    def __mul__(self, factor: Float[Tensor, "*batch"] | float) -> Self:
        factor = torch.as_tensor(factor, dtype=self.factor.dtype, device=self.factor.device)
        return self._with(factor=self.factor * factor)

    def _with(self, **fields: Any) -> Self:
        return replace(self, **fields)

    def _per_system(self, axes: int) -> Tensor:
        return self.factor[(..., *(None,) * axes)]

    def _ones(self) -> Float[Tensor, "*space"]:
        return self.factor.new_ones(self.grid.shape)

"""Kernels known by their action: values, diagonal and products come from answers to point loads."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.constants import quadrature
from nipde.grid import Grid
from nipde.kernels.base import Kernel
from nipde.kernels.dense import DenseKernel
from nipde.kernels.low_rank import LowRankKernel

#: Point loads that are answered together.
COLUMNS = 1024


@dataclass(frozen=True, eq=False)
class MatrixFreeKernel(Kernel):
    """Needs no more than `predict`."""

    @abstractmethod
    def stretched(self, to: Grid) -> Self:
        """The same responses to the same loads on a similar box."""

    def compose(self, inner: Kernel) -> Kernel:
        """Answers to the inner kernel's columns: thin if it is thin, else dense."""
        if isinstance(inner, LowRankKernel):
            left, space = self.predict(inner.left), self.grid.dimension + 1
            return LowRankKernel(self.grid, left, inner.right.expand(*left.shape[:-space], *inner.right.shape[-space:]))
        columns = inner.dense().mT.unflatten(-1, (self.components[1], *self.grid.shape))
        return DenseKernel(self.grid, self.predict(columns).flatten(-self.grid.dimension - 1).mT)

    def dense(self) -> Float[Tensor, "*batch row column"]:
        """Answers to a point load of strength 1 in every node and component."""
        count = self.components[1] * self.grid.size
        return torch.cat([self._columns(first, min(first + COLUMNS, count)) for first in range(0, count, COLUMNS)], -1)

    def diagonal(self) -> Float[Tensor, "*batch_component_space"]:
        """A block of columns at a time."""
        self._check_square()
        count = self.components[1] * self.grid.size
        parts = [
            self._columns(first, min(first + COLUMNS, count))[..., first : first + COLUMNS, :].diagonal(
                dim1=-2, dim2=-1
            )
            for first in range(0, count, COLUMNS)
        ]
        return torch.cat(parts, -1).unflatten(-1, (self.components[0], *self.grid.shape))

    def _columns(self, first: int, last: int) -> Float[Tensor, "*batch row column"]:
        ones = self._ones()
        weights = quadrature(self.grid, like=ones).flatten().repeat(self.components[1])
        places = torch.arange(first, last, device=ones.device)
        loads = ones.new_zeros(last - first, len(weights))
        loads[torch.arange(last - first, device=ones.device), places] = 1 / weights[places]
        loads = loads.view(-1, self.components[1], *self.grid.shape)
        return self.predict(loads).flatten(-self.grid.dimension - 1).mT

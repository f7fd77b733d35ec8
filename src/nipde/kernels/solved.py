"""Kernels that predict by solving their law: factor·A⁻¹ of every system of a batch, or of its transpose."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.errors import KernelError
from nipde.grid import Grid
from nipde.kernels.matrix_free import MatrixFreeKernel


class OnGrid(Protocol):
    """A law on a grid."""

    @property
    def grid(self) -> Grid:
        """Of its loads and responses."""


Law = TypeVar("Law", bound=OnGrid)
Item = TypeVar("Item")


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
        return self._with(factor=self.factor * self._spread(factor, 0))

    def _with(self, **fields: Any) -> Self:
        return replace(self, **fields)

    def _per_system(self, axes: int) -> Tensor:
        return self.factor[(..., *(None,) * axes)]

    def _ones(self) -> Float[Tensor, "*space"]:
        return self.factor.new_ones(self.grid.shape)


@dataclass(frozen=True, eq=False)
class KernelOfLaws(SolvedKernel, Generic[Law]):
    """`laws` are the systems of the batch in row-major order, one law if there is no batch.

    `factor` gives the batch axes, the precision and the place of the kernel; solves are in double precision.
    """

    laws: tuple[Law, ...]
    factor: Float[Tensor, "*batch"]
    transposed: bool = False

    def __post_init__(self) -> None:
        if self.factor.numel() != len(self.laws) or any(law.grid != self.grid for law in self.laws):
            raise KernelError(
                "laws do not fit the batch", expected=f"{self.factor.numel()} on {self.grid}",
                got=[law.grid for law in self.laws], remedy="give one factor per law, all on one grid",
            )  # fmt: skip

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Laws and factors."""
        return replace(self, laws=along_batch(self.laws, self.batch, change), factor=change(self.factor))

    def stretched(self, to: Grid) -> Self:
        """Only its own box: a law has a length."""
        if to != self.grid:
            raise KernelError(expected=f"the box of the law, {self.grid}", got=to, remedy="state the law on that box")
        return self

    def _laws_of(self, batch: tuple[int, ...]) -> tuple[Law, ...]:
        """A law for every system of the loads' batch."""
        return along_batch(self.laws, self.batch, lambda numbers: numbers.expand(batch))


def along_batch(
    items: tuple[Item, ...], batch: tuple[int, ...], change: Callable[[Tensor], Tensor]
) -> tuple[Item, ...]:
    """Items of all systems in row-major order, changed as tensors with the axes of the batch are."""
    numbers = change(torch.arange(len(items)).reshape(batch))
    return tuple(items[number] for number in numbers.flatten().tolist())

"""The kernel of a known law: u = A⁻¹ W f by sparse solves; Green's density G = A⁻¹ is formed only on request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.discretisation.links import blocks, links_of, solved
from nipde.errors import KernelError
from nipde.grid import Grid
from nipde.kernels.solved import SolvedKernel
from nipde.physics.balance import BalanceLaw
from nipde.physics.darcy import Darcy

Law = TypeVar("Law", bound=BalanceLaw)


@dataclass(frozen=True, eq=False)
class LawKernel(SolvedKernel, Generic[Law]):
    """factor·G of every law; `laws` are the systems of the batch in row-major order, one law if there is no batch.

    `factor` gives the batch axes, the precision and the place of the kernel; solves are in double precision.
    """

    laws: tuple[Law, ...]
    factor: Float[Tensor, "*batch"]
    transposed: bool = False

    def __post_init__(self) -> None:
        if self.factor.numel() != len(self.laws):
            raise KernelError(
                "laws do not fit the batch", expected=f"{self.factor.numel()} law(s)", got=len(self.laws),
                remedy="give one factor per law",
            )  # fmt: skip
        for law in self.laws:
            if law.grid != self.grid:
                raise KernelError(expected=f"laws on {self.grid}", got=law.grid, remedy="a batch shares its grid")

    @classmethod
    def of(cls, laws: Law | Sequence[Law], *, dtype: torch.dtype = torch.float64) -> Self:
        """The kernel of a law, or of a batch of laws."""
        if isinstance(laws, BalanceLaw):
            return cls(laws.grid, (laws,), torch.ones((), dtype=dtype))
        if not laws:
            raise KernelError(expected="at least one law", got="none")
        return cls(laws[0].grid, tuple(laws), torch.ones(len(laws), dtype=dtype))

    @property
    def components(self) -> tuple[int, int]:
        """Balance laws are scalar."""
        return 1, 1

    @property
    def coefficient(self) -> Float[Tensor, "*batch_space"] | None:
        """The permeability, the factor with it, where the laws are Darcy's."""
        fields = [law.permeability for law in self.laws if isinstance(law, Darcy)]
        if len(fields) < len(self.laws):
            return None
        values = self.factor.new_tensor(np.stack(fields)).reshape(*self.batch, *self.grid.shape)
        return values / self._per_system(self.grid.dimension)

    def with_batch(self, batch: tuple[int, ...]) -> Self:
        """The same systems, their axes folded otherwise."""
        return replace(self, factor=self.factor.reshape(batch))

    def stretched(self, to: Grid) -> Self:
        """Only its own box: a law has a length."""
        if to != self.grid:
            raise KernelError(expected=f"the box of the law, {self.grid}", got=to, remedy="state the law on that box")
        return self

    def system(self, number: int) -> Self:
        """One of a batch with one axis."""
        return replace(self, laws=self.laws[number : number + 1], factor=self.factor[number])

    def predict(
        self, loads: Float[Tensor, "*batch_pair_component_space"]
    ) -> Float[Tensor, "*batch_pair_component_space"]:
        """One solve per load; differentiable in the loads and the factor."""
        space = self.grid.dimension + 2
        batch = torch.broadcast_shapes(self.batch, loads.shape[:-space])
        moments = self._weighted(loads).expand(*batch, *loads.shape[-space:])
        return _solve(moments, self._laws_of(batch), self.transposed) * self._per_system(space)

    def diagonal(self) -> Float[Tensor, "*batch_component_space"]:
        """G(x, x), a block of columns at a time."""
        fields = np.stack([_diagonal(law) for law in self.laws])
        values = self.factor.new_tensor(fields).reshape(*self.batch, *self.grid.shape)
        return (values * self._per_system(self.grid.dimension)).unsqueeze(-self.grid.dimension - 1)

    def dense(self) -> Float[Tensor, "*batch row column"]:
        """G itself, N × N."""
        values = self.factor.new_tensor(np.stack([law.green() for law in self.laws]))
        values = values.reshape(*self.batch, self.grid.size, self.grid.size) * self._per_system(2)
        return values.mT if self.transposed else values

    def _laws_of(self, batch: tuple[int, ...]) -> tuple[Law, ...]:
        """A law for every system of the loads' batch."""
        numbers = np.broadcast_to(np.arange(len(self.laws)).reshape(self.batch), batch)
        return tuple(self.laws[number] for number in numbers.reshape(-1))


class _Solve(torch.autograd.Function):
    """A⁻¹ or A⁻ᵀ on cell integrals; the derivative of one is the other."""

    @staticmethod
    def forward(
        context: Any,
        moments: Float[Tensor, "*batch_pair_component_space"],
        laws: tuple[BalanceLaw, ...],
        transposed: bool,
    ) -> Tensor:
        context.laws, context.transposed = laws, transposed
        right = moments.detach().cpu().double().reshape(len(laws), -1, laws[0].grid.size).numpy()
        responses = np.stack([_solved(law, rows, transposed=transposed) for law, rows in zip(laws, right, strict=True)])
        return moments.new_tensor(responses).reshape(moments.shape)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _solve(gradients[0], context.laws, not context.transposed), None, None


def _solve(moments: Tensor, laws: Sequence[BalanceLaw], transposed: bool) -> Tensor:
    apply: Callable[..., Tensor] = _Solve.apply
    return apply(moments, laws, transposed)


def _solved(
    law: BalanceLaw, moments: Float[np.ndarray, "pair node"], *, transposed: bool = False
) -> Float[np.ndarray, "pair node"]:
    """Responses to cell integrals, a block of pairs at a time; zero where the value is given."""
    unknown = links_of(law.grid).unknown
    responses = np.zeros_like(moments)
    for block in blocks(len(moments), len(unknown)):
        right = moments[block].take(unknown, axis=1)
        responses[block, unknown] = solved(law.factor, right, transposed=transposed)
    return responses


def _diagonal(law: BalanceLaw) -> Float[np.ndarray, "*space"]:
    unknown = links_of(law.grid).unknown
    diagonal = np.zeros(law.grid.size)
    for block in blocks(len(unknown), len(unknown)):
        cells = np.arange(len(unknown))[block]
        columns = law.factor.solve(np.eye(len(unknown), len(cells), -block.start))
        diagonal[unknown[cells]] = columns[cells, np.arange(len(cells))]
    return diagonal.reshape(law.grid.shape)

"""The kernel of a known law: u = A⁻¹ W f by sparse solves; Green's density G = A⁻¹ is formed only on request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.discretisation.links import blocks, links_of, solved
from nipde.errors import KernelError
from nipde.kernels.base import Fields
from nipde.kernels.solved import KernelOfLaws
from nipde.physics.balance import BalanceLaw
from nipde.physics.darcy import Darcy

Law = TypeVar("Law", bound=BalanceLaw)


@dataclass(frozen=True, eq=False)
class LawKernel(KernelOfLaws[Law]):
    """factor·G of every law."""

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

    def predict(self, loads: Fields) -> Fields:
        """One solve per load; differentiable in the loads and the factor."""
        space = self.grid.dimension + 2
        batch = np.broadcast_shapes(self.batch, loads.shape[:-space])
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


class _Solve(torch.autograd.Function):
    """A⁻¹ or A⁻ᵀ on cell integrals; the derivative of one is the other."""

    @staticmethod
    def forward(context: Any, moments: Fields, laws: tuple[BalanceLaw, ...], transposed: bool) -> Tensor:
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

"""K(x, y) = Σ_r a_r(x) b_r(y): the form of every kernel made from d pairs, at a cost of O(N r) in time and memory."""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.errors import ShapeError
from nipde.grid import Grid
from nipde.kernels.base import Kernel


@dataclass(frozen=True, eq=False)
class LowRankKernel(Kernel):
    """`left` holds the fields a_r, `right` the fields b_r."""

    left: Float[Tensor, "*batch_rank_component_space"]
    right: Float[Tensor, "*batch_rank_component_space"]

    def __post_init__(self) -> None:
        for field in (self.left, self.right):
            self.grid.check(field)
            if field.ndim < self.grid.dimension + 2:
                raise ShapeError(
                    "factors lack axes", expected="(*batch, rank, component, *space)", got=tuple(field.shape)
                )
        component = -self.grid.dimension - 1
        if self.left.shape[:component] != self.right.shape[:component]:
            raise ShapeError(
                "factors do not fit", expected=f"(*batch, rank) = {tuple(self.left.shape[:component])}",
                got=tuple(self.right.shape[:component]), remedy="give as many left fields as right ones",
            )  # fmt: skip

    @property
    def components(self) -> tuple[int, int]:
        """Components of the two factors."""
        place = -self.grid.dimension - 1
        return int(self.left.shape[place]), int(self.right.shape[place])

    @property
    def batch(self) -> tuple[int, ...]:
        """Axes in front of the rank."""
        return tuple(self.left.shape[: -self.grid.dimension - 2])

    @property
    def rank(self) -> int:
        """Number of terms."""
        return int(self.left.shape[-self.grid.dimension - 2])

    @property
    def T(self) -> Self:
        """The factors exchanged."""
        return type(self)(self.grid, self.right, self.left)

    def __mul__(self, factor: Float[Tensor, "*batch"] | float) -> Self:
        factor = torch.as_tensor(factor, dtype=self.left.dtype, device=self.left.device)
        return self._of(self.left * factor[(..., *(None,) * (self.grid.dimension + 2))], self.right)

    def predict(
        self, loads: Float[Tensor, "*batch_pair_component_space"]
    ) -> Float[Tensor, "*batch_pair_component_space"]:
        """Two thin products: ∫ b_r f dy, then Σ_r a_r of them."""
        return self._combine(self._weighted(loads).flatten(-self.grid.dimension - 1) @ self._flat(self.right).mT)

    def compose(self, inner: Kernel) -> "LowRankKernel":
        """The right fields seen through the inner kernel; the rank stays, or falls to the inner one's."""
        if isinstance(inner, LowRankKernel) and inner.rank < self.rank:
            return self._of(self.predict(inner.left), inner.right)
        return self._of(self.left, inner.T.predict(self.right))

    def diagonal(self) -> Float[Tensor, "*batch_component_space"]:
        """Σ_r a_r(x) b_r(x); needs as many components out as in."""
        self._check_square()
        return (self.left * self.right).sum(-self.grid.dimension - 2)

    def dense(self) -> Float[Tensor, "*batch row column"]:
        """The outer product of the factors."""
        return self._flat(self.left).mT @ self._flat(self.right)

    def system(self, number: int) -> Self:
        """One of a batch with one axis."""
        return type(self)(self.grid, self.left[number], self.right[number])

    def with_batch(self, batch: tuple[int, ...]) -> Self:
        """The same systems, their axes folded otherwise."""
        place = -self.grid.dimension - 2
        return type(self)(
            self.grid, *(field.reshape(*batch, *field.shape[place:]) for field in (self.left, self.right))
        )

    def stretched(self, to: Grid) -> Self:
        """The same answers to the same loads on a similar box: a density thins out."""
        return type(self)(to, self.left, self.right / self.grid.ratio(to) ** to.dimension)

    def _of(self, left: Tensor, right: Tensor) -> Self:
        """Factors of one system are shared by the batch of the others."""
        place = -self.grid.dimension - 2
        batch = torch.broadcast_shapes(left.shape[:place], right.shape[:place])
        left, right = (field.expand(*batch, *field.shape[place:]) for field in (left, right))
        return type(self)(self.grid, left, right)

    def _combine(self, amounts: Float[Tensor, "*batch pair rank"]) -> Float[Tensor, "*batch_pair_component_space"]:
        return (amounts @ self._flat(self.left)).unflatten(-1, (self.components[0], *self.grid.shape))

    def _flat(self, field: Tensor) -> Float[Tensor, "*batch rank node"]:
        return field.flatten(-self.grid.dimension - 1)

    def _ones(self) -> Float[Tensor, "*space"]:
        return self.left.new_ones(self.grid.shape)

"""K(x, y) = Σ_r a_r(x) b_r(y): the form of every kernel made from d pairs, at a cost of O(N r) in time and memory."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from jaxtyping import Float
from torch import Tensor

from nipde.errors import ShapeError
from nipde.grid import Grid
from nipde.kernels.base import Fields, Kernel


@dataclass(frozen=True, eq=False)
class FactoredKernel(Kernel):
    """A sum of terms, each with a field `left` for the response and a field `right` for the load."""

    left: Float[Tensor, "*batch_term_component_space"]
    right: Float[Tensor, "*batch_term_component_space"]

    @property
    def components(self) -> tuple[int, int]:
        """Components of the two factors."""
        place = -self.grid.dimension - 1
        return int(self.left.shape[place]), int(self.right.shape[place])

    @property
    def batch(self) -> tuple[int, ...]:
        """Axes in front of the terms."""
        return tuple(self.left.shape[: -self.grid.dimension - 2])

    @property
    def T(self) -> Self:
        """The factors exchanged."""
        return replace(self, left=self.right, right=self.left)

    def __mul__(self, factor: Float[Tensor, "*batch"] | float) -> Self:
        return self._of(self.left * self._spread(factor, self.grid.dimension + 2), self.right)

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Both factors."""
        return replace(self, left=change(self.left), right=change(self.right))

    def _of(self, left: Tensor, right: Tensor) -> Self:
        """Factors of one system are shared by the batch of the others."""
        place = -self.grid.dimension - 2
        batch = np.broadcast_shapes(left.shape[:place], right.shape[:place])
        left, right = (field.expand(*batch, *field.shape[place:]) for field in (left, right))
        return replace(self, left=left, right=right)

    def _ones(self) -> Float[Tensor, "*space"]:
        return self.left.new_ones(self.grid.shape)


@dataclass(frozen=True, eq=False)
class LowRankKernel(FactoredKernel):
    """`left` holds the fields a_r, `right` the fields b_r."""

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
    def rank(self) -> int:
        """Number of terms."""
        return int(self.left.shape[-self.grid.dimension - 2])

    def predict(self, loads: Fields) -> Fields:
        """Two thin products: ∫ b_r f dy, then Σ_r a_r of them."""
        amounts = self._flat(self._weighted(loads)) @ self._flat(self.right).mT
        return (amounts @ self._flat(self.left)).unflatten(-1, (self.components[0], *self.grid.shape))

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

    def stretched(self, to: Grid) -> Self:
        """The same answers to the same loads on a similar box: a density thins out."""
        return replace(self, grid=to, right=self.right / self.grid.ratio(to) ** to.dimension)

    def _flat(self, field: Tensor) -> Float[Tensor, "*batch rank node"]:
        return field.flatten(-self.grid.dimension - 1)

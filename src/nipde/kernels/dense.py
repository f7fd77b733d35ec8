"""A kernel by all its values K(x, y): N × N numbers, for small grids and as the oracle of every other form."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from jaxtyping import Float
from torch import Tensor

from nipde.constants import quadrature
from nipde.errors import ShapeError
from nipde.kernels.base import Fields, Kernel


@dataclass(frozen=True, eq=False)
class DenseKernel(Kernel):
    """`values` has rows (component, node) of the response and columns (component, node) of the load."""

    values: Float[Tensor, "*batch row column"]

    def __post_init__(self) -> None:
        rows, columns = self.values.shape[-2:]
        if rows % self.grid.size or columns % self.grid.size:
            raise ShapeError(
                "kernel does not fit its grid", expected=f"multiples of {self.grid.size} rows and columns",
                got=f"{rows} × {columns}", remedy="rows and columns run over components, then nodes",
            )  # fmt: skip

    @property
    def components(self) -> tuple[int, int]:
        """From the shape of the values."""
        rows, columns = self.values.shape[-2:]
        return rows // self.grid.size, columns // self.grid.size

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading axes of the values."""
        return tuple(self.values.shape[:-2])

    @property
    def T(self) -> Self:
        """Rows and columns exchanged."""
        return replace(self, values=self.values.mT)

    def __mul__(self, factor: Float[Tensor, "*batch"] | float) -> Self:
        return replace(self, values=self.values * self._spread(factor, 2))

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The values."""
        return replace(self, values=change(self.values))

    def predict(self, loads: Fields) -> Fields:
        """One matrix product."""
        flat = self._weighted(loads).flatten(-self.grid.dimension - 1)
        responses = (self.values @ flat.mT).mT
        return responses.reshape(*responses.shape[:-1], self.components[0], *self.grid.shape)

    def compose(self, inner: Kernel) -> "DenseKernel":
        """A product of matrices with the quadrature between them."""
        weights = quadrature(self.grid, like=self._ones()).flatten().repeat(self.components[1])
        return DenseKernel(self.grid, (self.values * weights) @ inner.dense())

    def diagonal(self) -> Float[Tensor, "*batch_component_space"]:
        """The diagonal of the matrix; needs as many components out as in."""
        self._check_square()
        return self.values.diagonal(dim1=-2, dim2=-1).unflatten(-1, (self.components[0], *self.grid.shape))

    def dense(self) -> Float[Tensor, "*batch row column"]:
        """The values themselves."""
        return self.values

    def _ones(self) -> Float[Tensor, "*space"]:
        return self.values.new_ones(self.grid.shape)

"""What estimators return: u(x) = ∫ K(x, y) f(y) dy by the grid's quadrature; K is response per load and volume.

A kernel is at once the forward solver (`kernel @ load`) and the inverse solution (its readouts). Loads are
`(*batch, pair, component, *space)`, or `(*space)` alone for one scalar load.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, overload

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from nipde.constants import quadrature
from nipde.errors import KernelError
from nipde.grid import Grid
from nipde.kernels.prediction_bands import OutlierTest, PredictionBands
from nipde.physics.elastic import ElasticBody

#: Loads or responses.
Fields = Float[Tensor, "*batch_pair_component_space"]


class CoefficientPosterior(Protocol):
    """Normal distribution of the logarithm of one system's coefficient."""

    @property
    def coefficient(self) -> Float[Tensor, "*space"]:
        """The estimate, in physical units."""

    def deviation(self) -> Float[Tensor, "*space"]:
        """Standard deviation of its logarithm at every node."""

    @property
    def widening(self) -> float:
        """Factor on the deviation for a misfit larger than the noise; 1 where the deviation contains it."""

    def identifiable(self) -> Float[Tensor, "*space"]:
        """From 0, where the pairs say nothing about the coefficient, to 1, where they determine it."""


@dataclass(frozen=True, eq=False)
class Predictor(ABC):
    """A map from loads to responses; `linear` says whether sums of loads give sums of responses.

    What else can be read from it is a capability: a property that is None for predictors without it.
    """

    grid: Grid

    @property
    @abstractmethod
    def linear(self) -> bool:
        """Whether the response is linear in the load."""

    @property
    @abstractmethod
    def components(self) -> tuple[int, int]:
        """Components of a response and of a load."""

    @abstractmethod
    def predict(self, loads: Fields) -> Fields:
        """Responses to loads."""

    @property
    def interior(self) -> Bool[np.ndarray, "*space"]:
        """Nodes of the specimen whose response is not given."""
        return np.asarray(self.grid.unknown)

    @property
    def linear_part(self) -> "Kernel | None":
        """The kernel of the linear part; a linear predictor itself."""
        return None

    @property
    def coefficient(self) -> Float[Tensor, "*batch_space"] | None:
        """The coefficient of the law, where one is known or inferred."""
        return None

    @property
    def posterior(self) -> CoefficientPosterior | None:
        """Uncertainty of the inferred coefficient of one system; of a batch, ask `system(number)`."""
        return None

    @property
    def bands(self) -> PredictionBands | None:
        """Calibrated bands of the responses."""
        return None

    @property
    def outlier_test(self) -> OutlierTest | None:
        """Whether the pairs look like those of calibration."""
        return None if self.bands is None else self.bands.outlier_test

    def band(self, loads: Fields, *, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Two fields like the prediction that hold a share `level` of the true responses; an error without `bands`."""
        raise KernelError(
            "no prediction bands", expected="calibrated weights, exact loads and few gaps", got=type(self).__name__,
            remedy="load pretrained weights, or see nipde.evaluation.calibrate.calibrated",
        )  # fmt: skip

    @property
    def body(self) -> ElasticBody | None:
        """The elastic body of one system; of a batch, ask `system(number)`."""
        return None

    @overload
    def __matmul__(self, other: Tensor) -> Tensor: ...
    @overload
    def __matmul__(self, other: "Predictor") -> "Kernel": ...
    def __matmul__(self, other: Any) -> Any:
        """Responses to loads (one scalar load may come as `(*space)` alone), or a kernel after another kernel."""
        if isinstance(other, Predictor):
            if not (isinstance(self, Kernel) and isinstance(other, Kernel)):
                raise KernelError(
                    expected="two kernels", got="a predictor that is not linear", remedy="apply it to loads"
                )
            self._check_composition(other)
            return self.compose(other)
        if other.ndim == self.grid.dimension and self.components == (1, 1):
            self.grid.check(other)
            return self.predict(other[None, None]).squeeze(-self.grid.dimension - 1).squeeze(-self.grid.dimension - 1)
        self.check_loads(other)
        return self.predict(other)

    def check_loads(self, loads: Tensor) -> None:
        """Raise unless the loads live on this grid and have this many components."""
        self.grid.check(loads)
        found = loads.shape[-self.grid.dimension - 1] if loads.ndim > self.grid.dimension + 1 else None
        if found != self.components[1]:
            raise KernelError(
                "load does not fit the kernel",
                expected=f"axes (*batch, pair, component, *space) with {self.components[1]} component(s)",
                got=f"shape {tuple(loads.shape)}",
                remedy="add the missing axes, e.g. load[None, None] for one scalar load",
            )


@dataclass(frozen=True, eq=False)
class Kernel(Predictor):
    """A linear operator between fields of one grid."""

    @property
    def linear(self) -> bool:
        """Always."""
        return True

    @property
    def linear_part(self) -> "Kernel":
        """Itself."""
        return self

    @property
    @abstractmethod
    def batch(self) -> tuple[int, ...]:
        """Axes of the systems whose kernels these are."""

    @property
    @abstractmethod
    def T(self) -> Self:
        """The transpose Kᵀ(x, y) = K(y, x)."""

    @abstractmethod
    def __mul__(self, factor: Float[Tensor, "*batch"] | float) -> Self:
        """Every kernel times a number: a change of units."""

    def __rmul__(self, factor: Float[Tensor, "*batch"] | float) -> Self:
        return self * factor

    @abstractmethod
    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """All that has the axes of the batch, changed along these."""

    def system(self, number: int) -> Self:
        """The kernel of one of a batch with one axis."""
        return self.map(lambda value: value[number])

    def with_batch(self, batch: tuple[int, ...]) -> Self:
        """The same systems, their axes folded otherwise."""
        return self.map(lambda value: value.reshape((*batch, *value.shape[len(self.batch) :])))

    @abstractmethod
    def compose(self, inner: "Kernel") -> "Kernel":
        """(K ∘ L)(x, y) = ∫ K(x, z) L(z, y) dz, a density again."""

    @abstractmethod
    def diagonal(self) -> Float[Tensor, "*batch_component_space"]:
        """K(x, x), component by component."""

    @abstractmethod
    def dense(self) -> Float[Tensor, "*batch row column"]:
        """All values K(x, y): rows and columns run over components, then nodes; for small grids."""

    def row_integral(self) -> Float[Tensor, "*batch_component_space"]:
        """∫ K(x, y) dy, the response to a load of 1 everywhere: the paper's interaction strength of a point."""
        ones = self._ones().expand(*self.batch, 1, self.components[1], *self.grid.shape)
        return self.predict(ones).squeeze(-self.grid.dimension - 2)

    def as_linear_operator(self) -> LinearOperator:
        """For SciPy: the map from nodal values of a load to nodal values of the response, both flattened."""
        if self.batch:
            raise KernelError(expected="one system", got=f"a batch {self.batch}", remedy="take one: kernel.system(0)")
        like = self._ones()
        shape = tuple(count * self.grid.size for count in self.components)
        dtype = like.cpu().numpy().dtype
        weights = [np.tile(self.grid.weights.reshape(-1), count).astype(dtype) for count in self.components]

        def apply(kernel: Kernel, vectors: Any) -> Any:
            if np.iscomplexobj(vectors):
                return apply(kernel, vectors.real) + 1j * apply(kernel, vectors.imag)
            loads = torch.as_tensor(vectors.T.copy(), dtype=like.dtype, device=like.device)
            fields = loads.reshape(-1, kernel.components[1], *self.grid.shape)
            return kernel.predict(fields).detach().reshape(len(fields), -1).T.cpu().numpy()

        def forward(vectors: Any) -> Any:
            return apply(self, vectors.reshape(shape[1], -1)).reshape(shape[0], *vectors.shape[1:])

        def adjoint(vectors: Any) -> Any:
            # (K W)ᵀ = W Kᵀ, and our transpose integrates: W Kᵀ W (v / w).
            found = apply(self.T, vectors.reshape(shape[0], -1) / weights[0][:, None]) * weights[1][:, None]
            return found.reshape(shape[1], *vectors.shape[1:])

        return LinearOperator(shape, matvec=forward, matmat=forward, rmatvec=adjoint, rmatmat=adjoint, dtype=dtype)

    @abstractmethod
    def _ones(self) -> Float[Tensor, "*space"]:
        """A field of ones in the kernel's precision and place."""

    def _weighted(self, loads: Tensor) -> Tensor:
        """Loads times quadrature weights, in the kernel's precision: it answers in its own."""
        ones = self._ones()
        return loads.to(ones) * quadrature(self.grid, like=ones)

    def _spread(self, factor: Float[Tensor, "*batch"] | float, axes: int) -> Tensor:
        """A number for every system, in the kernel's precision and place, with so many more axes."""
        ones = self._ones()
        return torch.as_tensor(factor, dtype=ones.dtype, device=ones.device)[(..., *(None,) * axes)]

    def _check_square(self) -> None:
        if self.components[0] != self.components[1]:
            raise KernelError(
                "no diagonal", expected="as many components out as in", got=self.components, remedy="use dense()"
            )

    def _check_composition(self, inner: "Kernel") -> None:
        try:
            np.broadcast_shapes(inner.batch, self.batch)
        except ValueError:
            raise KernelError(
                "kernels do not compose", expected=f"systems {self.batch}", got=inner.batch, remedy="match the batches"
            ) from None
        if inner.grid != self.grid or inner.components[0] != self.components[1]:
            raise KernelError(
                "kernels do not compose",
                expected=f"{self.components[1]} component(s) on {self.grid}",
                got=f"{inner.components[0]} on {inner.grid}",
                remedy="the inner kernel's responses must be loads of the outer one",
            )

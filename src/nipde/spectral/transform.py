"""Fields to mode coefficients and back: c = Φᵀ W f and f = Φ c, orthonormal in the grid's quadrature.

Two forms of the same map. Dense: one matrix product per axis, best on small grids and when few modes are
retained. Fast: one real FFT per axis. `transform(grid)` chooses by size.
Both work on torch tensors of any leading axes, on their device, and are differentiable.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from nipde.boundary import Dirichlet, Neumann
from nipde.constants import constant
from nipde.errors import GridError, ShapeError
from nipde.grid import Axis, Grid
from nipde.spectral.basis import Basis, basis_of, nodal_matrix
from nipde.spectral.full_precision import full_precision

#: Up to this many modes on an axis a full matrix product beats the FFT (measured on CPU, results/transforms.json).
DENSE_UP_TO = 1024
Matrix = NDArray[np.float64]


class Transform(ABC):
    """One orthonormal transform of a grid, on `modes` retained modes per axis (all resolved ones by default)."""

    def __init__(self, grid: Grid, *, modes: Sequence[int] | None = None) -> None:
        wanted: Sequence[int | None] = modes if modes is not None else [None] * grid.dimension
        if len(wanted) != grid.dimension:
            raise GridError(
                expected=f"{grid.dimension} numbers of modes, one per axis", got=modes, remedy="give each axis its own"
            )
        self.grid = grid
        self.bases = tuple(basis_of(axis, modes=count) for axis, count in zip(grid.axes, wanted, strict=True))
        self.shape = tuple(basis.modes for basis in self.bases)

    def analysis(self, field: Float[Tensor, "*batch_space"]) -> Float[Tensor, "*batch_mode"]:
        """Coefficients c = Φᵀ W f."""
        self.grid.check(field)
        return self._each_axis(field, self._analyse)

    def synthesis(self, coefficients: Float[Tensor, "*batch_mode"]) -> Float[Tensor, "*batch_space"]:
        """Field f = Φ c."""
        if tuple(coefficients.shape[-self.grid.dimension :]) != self.shape:
            raise ShapeError(
                "coefficients do not fit", expected=f"trailing axes {self.shape}",
                got=f"shape {tuple(coefficients.shape)}", remedy="use the transform that made them",
            )  # fmt: skip
        return self._each_axis(coefficients, self._synthesise)

    def squared_wavenumbers(self, like: Tensor) -> Float[Tensor, "*mode"]:
        """|k|² of every mode: the eigenvalues of -Δ."""
        total = like.new_zeros(())
        for basis in self.bases:
            total = total.unsqueeze(-1) + constant(_squares, basis, like=like)
        return total

    def inverse_laplacian(self, like: Tensor) -> Float[Tensor, "*mode"]:
        """1/|k|², the multipliers of (-Δ)⁻¹; the constant, on which -Δ is 0, counts as the longest wave."""
        squares = self.squared_wavenumbers(like)
        longest = torch.where(squares > 0, squares, torch.inf).min()
        return 1 / torch.where(squares > 0, squares, longest)

    @abstractmethod
    def _analyse(self, place: int, field: Tensor) -> Tensor:
        """Transform axis `place` of the grid."""

    @abstractmethod
    def _synthesise(self, place: int, coefficients: Tensor) -> Tensor:
        """Inverse of `_analyse`."""

    def analysed(self, field: Tensor, *, axes: Sequence[int]) -> Tensor:
        """The analysis of some axes; the others have any length."""
        return self._each_axis(field, self._analyse, axes)

    def synthesised(self, coefficients: Tensor, *, axes: Sequence[int]) -> Tensor:
        """Inverse of `analysed`."""
        return self._each_axis(coefficients, self._synthesise, axes)

    def _each_axis(
        self, values: Tensor, step: Callable[[int, Tensor], Tensor], axes: Sequence[int] | None = None
    ) -> Tensor:
        if values.dtype in (torch.float16, torch.bfloat16):
            values = values.float()  # neither CPU FFTs nor long sums survive half precision
        with full_precision(values):
            for place in range(self.grid.dimension) if axes is None else axes:
                values = step(place, values)
        return values

    def _on_last_axis(self, place: int, values: Tensor, step: Callable[[Tensor], Tensor]) -> Tensor:
        axis = place - self.grid.dimension
        return step(values.movedim(axis, -1)).movedim(-1, axis)


class DenseTransform(Transform):
    """Matrix products with the nodal basis."""

    def _analyse(self, place: int, field: Tensor) -> Tensor:
        return self._product(place, field, _weighted_columns)

    def _synthesise(self, place: int, coefficients: Tensor) -> Tensor:
        return self._product(place, coefficients, _rows)

    def _product(self, place: int, values: Tensor, matrix_of: Callable[..., Matrix]) -> Tensor:
        """The last two axes stay where they are: moving takes longer than a small product."""
        matrix = constant(matrix_of, self.grid.axes[place], self.shape[place], like=values)
        if place == self.grid.dimension - 1:
            return values @ matrix
        if place == self.grid.dimension - 2:
            return matrix.mT @ values
        return self._on_last_axis(place, values, lambda moved: moved @ matrix)


class FastTransform(Transform):
    """Real FFTs: their imaginary part for sines, their real part for cosines."""

    def _analyse(self, place: int, field: Tensor) -> Tensor:
        return self._on_last_axis(place, field, lambda moved: self._sums(place, moved))

    def _synthesise(self, place: int, coefficients: Tensor) -> Tensor:
        return self._on_last_axis(place, coefficients, lambda moved: self._series(place, moved))

    def _sums(self, place: int, field: Tensor) -> Tensor:
        axis, modes = self.grid.axes[place], self.shape[place]
        norms = constant(_weighted_norms, axis, like=field)[:modes]
        if isinstance(axis.boundary, Dirichlet):
            return _sine_sums(field)[..., 1:-1][..., :modes] * norms
        if isinstance(axis.boundary, Neumann):
            return _cosine_sums(field)[..., :modes] * norms
        # Real and imaginary parts in turns; the first imaginary part is 0 and gives its place to the constant.
        spectrum = torch.view_as_real(torch.fft.rfft(field, dim=-1))
        sums = spectrum.flatten(-2)[..., 1 : modes + 1] * norms * _signs(norms)
        sums[..., 0] = spectrum[..., 0, 0] * norms[0]
        return sums

    def _series(self, place: int, coefficients: Tensor) -> Tensor:
        axis, modes = self.grid.axes[place], self.shape[place]
        norms = constant(_norms, axis, like=coefficients)
        full = pad(coefficients, (0, len(norms) - modes)) * norms
        if isinstance(axis.boundary, Dirichlet):
            return _sine_sums(pad(full, (1, 1)))
        if isinstance(axis.boundary, Neumann):
            return _cosine_sums(full * constant(_twins, axis, 1.0, like=full))  # the sums halve both ends
        full = full * constant(_twins, axis, axis.nodes / 2, like=full)
        turns = pad(full * _signs(full), (1, 1 - axis.nodes % 2))
        turns[..., 0], turns[..., 1] = full[..., 0], 0.0
        return torch.fft.irfft(torch.view_as_complex(turns.unflatten(-1, (-1, 2))), n=axis.nodes, dim=-1)


def transform(grid: Grid, *, modes: Sequence[int] | None = None) -> Transform:
    """The faster form for this grid: dense when every axis is short or keeps few modes, FFT otherwise."""
    kept = modes if modes is not None else grid.shape
    dense = all(count <= DENSE_UP_TO for count in kept)
    return (DenseTransform if dense else FastTransform)(grid, modes=modes)


def _weighted_columns(axis: Axis, modes: int) -> Matrix:
    """W Φ of one axis."""
    return axis.weights[:, None] * nodal_matrix(axis, modes=modes)


def _rows(axis: Axis, modes: int) -> Matrix:
    """Φᵀ of one axis."""
    return nodal_matrix(axis, modes=modes).T.copy()


def _squares(basis: Basis) -> NDArray[np.float64]:
    """k² of every mode of one axis."""
    return basis.wavenumbers**2


def _sine_sums(values: Tensor) -> Tensor:
    """Σ_j v_j sin(πjk/m), j, k = 0 … m: minus the imaginary part of the FFT of v and as many zeros."""
    return -torch.fft.rfft(values, n=2 * (values.shape[-1] - 1), dim=-1).imag


def _cosine_sums(values: Tensor) -> Tensor:
    """v_0/2 + Σ_j v_j cos(πjk/m) + (-1)^k v_m/2, k = 0 … m: the trapezoid rule, the real part of the same."""
    halves = values.new_ones(values.shape[-1])
    halves[0] = halves[-1] = 0.5
    return torch.fft.rfft(values * halves, n=2 * (values.shape[-1] - 1), dim=-1).real


def _signs(values: Tensor) -> Tensor:
    """For cosines 1, for sines, which are minus imaginary parts, -1: in turns, after the constant."""
    signs = values.new_ones(values.shape[-1])
    signs[0::2] = -1
    return signs


def _is_alone(axis: Axis) -> NDArray[np.bool_]:
    """Modes without a twin in the extension: the constant and the alternating one."""
    k = basis_of(axis).wavenumbers
    return (k == 0) | np.isclose(k * axis.spacing, np.pi)


def _twins(axis: Axis, value: float) -> NDArray[np.float64]:
    """The value, doubled for modes that are alone."""
    return np.where(_is_alone(axis), 2.0, 1.0) * value


def _weighted_norms(axis: Axis) -> NDArray[np.float64]:
    """Times the distance between nodes."""
    return axis.spacing * _norms(axis)


def _norms(axis: Axis) -> NDArray[np.float64]:
    """Height of every resolved mode, normalised in the axis' quadrature."""
    return np.where(_is_alone(axis), 1.0, np.sqrt(2.0)) / np.sqrt(axis.length)

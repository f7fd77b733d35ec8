"""Eigenfunctions of -d²/dx² that fit a boundary: -φ″ = k² φ, orthonormal in L²(0, length).

| boundary  | basis   | functions                                  |
|-----------|---------|--------------------------------------------|
| Dirichlet | Sine    | √(2/L) sin(kx),  k = π/L, 2π/L, …          |
| Neumann   | Cosine  | 1/√L, √(2/L) cos(kx),  k = π/L, 2π/L, …    |
| Periodic  | Fourier | 1/√L, then √(2/L) cos(kx), √(2/L) sin(kx)  |

Modes are ordered by rising wavenumber, so that truncation keeps the first ones on every grid.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from nipde.boundary import Boundary, Dirichlet, Neumann, Periodic
from nipde.errors import GridError
from nipde.grid import Axis


@dataclass(frozen=True)
class Basis(ABC):
    """The first `modes` eigenfunctions on an interval of the given length."""

    length: float
    modes: int
    #: Nodes of an axis on which all functions are zero.
    zeros: ClassVar[int] = 0

    @property
    def wavenumbers(self) -> Float[np.ndarray, " mode"]:
        """k of every mode, in radians per unit of length."""
        return np.pi / self.length * self._waves()[0]

    def values(self, points: Float[np.ndarray, " point"], *, derivative: int = 0) -> Float[np.ndarray, "point mode"]:
        """φ_mode(point), or its first derivative."""
        k, is_sine = self.wavenumbers, self._waves()[1]
        amplitude = np.where(k == 0, 1.0, np.sqrt(2.0)) / np.sqrt(self.length) * k**derivative
        angle = np.multiply.outer(points, k)
        cosine, sine = np.cos(angle), np.sin(angle)
        return amplitude * (np.where(is_sine, cosine, -sine) if derivative else np.where(is_sine, sine, cosine))

    @abstractmethod
    def _waves(self) -> tuple[Int[np.ndarray, " mode"], Bool[np.ndarray, " mode"]]:
        """Half waves along the length, kL/π, of every mode; and whether it is a sine."""


class Sine(Basis):
    """Vanishes at both ends."""

    zeros = 2

    def _waves(self) -> tuple[Int[np.ndarray, " mode"], Bool[np.ndarray, " mode"]]:
        return np.arange(1, self.modes + 1), np.full(self.modes, True)


class Cosine(Basis):
    """Flat at both ends; starts with the constant."""

    def _waves(self) -> tuple[Int[np.ndarray, " mode"], Bool[np.ndarray, " mode"]]:
        return np.arange(self.modes), np.full(self.modes, False)


class Fourier(Basis):
    """Periodic: constant, cos, sin, cos, sin, …; on an even grid the last one is the alternating cosine."""

    def _waves(self) -> tuple[Int[np.ndarray, " mode"], Bool[np.ndarray, " mode"]]:
        place = np.arange(self.modes)
        return (place + 1) // 2 * 2, (place % 2 == 0) & (place > 0)


FITTING: dict[type[Boundary], type[Basis]] = {Dirichlet: Sine, Neumann: Cosine, Periodic: Fourier}


def basis_of(axis: Axis, *, modes: int | None = None) -> Basis:
    """The basis that fits the axis' boundary; all resolved modes unless `modes` says fewer."""
    kind = FITTING[type(axis.boundary)]
    resolved = axis.nodes - kind.zeros
    if modes is not None and not 1 <= modes <= resolved:
        raise GridError(
            expected=f"1 to {resolved} modes on an axis of {axis.nodes} nodes ({axis.boundary.name})", got=modes,
            remedy="retain fewer modes or refine the grid",
        )  # fmt: skip
    return kind(axis.length, modes or resolved)


def nodal_matrix(axis: Axis, *, modes: int | None = None) -> Float[np.ndarray, "node mode"]:
    """Φ with Φᵀ diag(w) Φ = 1 in the axis' quadrature; the alternating mode, whose sum doubles, is rescaled."""
    columns = basis_of(axis, modes=modes).values(axis.coordinates)
    if axis.boundary.essential:
        columns[[0, -1]] = 0.0  # sin(mπ) is zero, not 1e-16
    return columns / np.sqrt(axis.weights @ columns**2)

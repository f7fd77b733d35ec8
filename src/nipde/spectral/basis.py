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

import numpy as np
from jaxtyping import Float

from nipde.boundary import Boundary, Dirichlet, Neumann, Periodic
from nipde.errors import GridError
from nipde.grid import Axis


@dataclass(frozen=True)
class Basis(ABC):
    """The first `modes` eigenfunctions on a stretch of the given length."""

    length: float
    modes: int

    @property
    @abstractmethod
    def wavenumbers(self) -> Float[np.ndarray, " mode"]:
        """k of every mode, in radians per unit of length."""

    @abstractmethod
    def values(self, points: Float[np.ndarray, " point"], *, derivative: int = 0) -> Float[np.ndarray, "point mode"]:
        """φ_mode(point), or its first derivative."""

    @staticmethod
    @abstractmethod
    def resolved(axis: Axis) -> int:
        """How many modes the nodes of an axis tell apart."""

    def _harmonic(self, points: np.ndarray, *, phase: float, derivative: int) -> Float[np.ndarray, "point mode"]:
        """cos(kx - phase), normalised; a derivative turns the phase by -π/2 and multiplies by k."""
        k = self.wavenumbers
        amplitude = np.where(k == 0, 1.0, np.sqrt(2.0)) / np.sqrt(self.length) * k**derivative
        angle = np.multiply.outer(points, k)
        turned = phase - derivative * np.pi / 2
        return amplitude * (np.cos(angle) * np.round(np.cos(turned)) + np.sin(angle) * np.round(np.sin(turned)))


@dataclass(frozen=True)
class Sine(Basis):
    """Vanishes at both ends."""

    @property
    def wavenumbers(self) -> Float[np.ndarray, " mode"]:
        """π/L, 2π/L, …"""
        return np.pi / self.length * np.arange(1, self.modes + 1)

    def values(self, points: Float[np.ndarray, " point"], *, derivative: int = 0) -> Float[np.ndarray, "point mode"]:
        """√(2/L) sin(kx)."""
        return self._harmonic(points, phase=np.pi / 2, derivative=derivative)

    @staticmethod
    def resolved(axis: Axis) -> int:
        """Interior nodes."""
        return axis.nodes - 2


@dataclass(frozen=True)
class Cosine(Basis):
    """Flat at both ends; starts with the constant."""

    @property
    def wavenumbers(self) -> Float[np.ndarray, " mode"]:
        """0, π/L, 2π/L, …"""
        return np.pi / self.length * np.arange(self.modes)

    def values(self, points: Float[np.ndarray, " point"], *, derivative: int = 0) -> Float[np.ndarray, "point mode"]:
        """√(2/L) cos(kx)."""
        return self._harmonic(points, phase=0.0, derivative=derivative)

    @staticmethod
    def resolved(axis: Axis) -> int:
        """All nodes."""
        return axis.nodes


@dataclass(frozen=True)
class Fourier(Basis):
    """Periodic: constant, cos, sin, cos, sin, …; on an even grid the last one is the alternating cosine."""

    @property
    def wavenumbers(self) -> Float[np.ndarray, " mode"]:
        """0, 2π/L, 2π/L, 4π/L, 4π/L, …"""
        return 2 * np.pi / self.length * ((np.arange(self.modes) + 1) // 2)

    def values(self, points: Float[np.ndarray, " point"], *, derivative: int = 0) -> Float[np.ndarray, "point mode"]:
        """√(2/L) cos(kx) on odd places, √(2/L) sin(kx) on even ones."""
        cosines = self._harmonic(points, phase=0.0, derivative=derivative)
        sines = self._harmonic(points, phase=np.pi / 2, derivative=derivative)
        is_sine = (np.arange(self.modes) % 2 == 0) & (np.arange(self.modes) > 0)
        return np.where(is_sine, sines, cosines)

    @staticmethod
    def resolved(axis: Axis) -> int:
        """All nodes."""
        return axis.nodes


FITTING: dict[type[Boundary], type[Basis]] = {Dirichlet: Sine, Neumann: Cosine, Periodic: Fourier}


def basis_of(axis: Axis, *, modes: int | None = None) -> Basis:
    """The basis that fits the axis' boundary; all resolved modes unless fewer are asked for."""
    kind = FITTING[type(axis.boundary)]
    resolved = kind.resolved(axis)
    if modes is not None and not 1 <= modes <= resolved:
        raise GridError(
            expected=f"1 to {resolved} modes on an axis of {axis.nodes} nodes ({axis.boundary.name})",
            got=modes,
            remedy="retain fewer modes or refine the grid",
        )
    return kind(axis.length, modes or resolved)


def nodal_matrix(axis: Axis, *, modes: int | None = None) -> Float[np.ndarray, "node mode"]:
    """Φ with Φᵀ diag(w) Φ = 1 in the axis' quadrature; the alternating mode, whose sum doubles, is rescaled."""
    columns = basis_of(axis, modes=modes).values(axis.coordinates)
    if axis.boundary.essential:
        columns[[0, -1]] = 0.0  # sin(mπ) is zero, not 1e-16
    return columns / np.sqrt(axis.weights @ columns**2)

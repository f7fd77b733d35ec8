"""Covariance of a Matérn field on a grid: C = (κ² - Δ)⁻² / scale, exactly the inverse of `MaternField`'s precision.

    V^(-½) K V^(-½) = T μ T,   C^½ = V^(-½) T / (√scale (κ² + μ)),   C = C^½ C^½ᵀ

K is the stiffness of -Δ with free ends and V the volumes of the cells. T is orthogonal and its own inverse: a cosine
transform along axes with ends, a Hartley transform along periodic ones. One root of a field of 10⁶ nodes is one
transform, and the coordinates ξ of C^½ ξ are those in which the prior is white.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.fft
from jaxtyping import Float

from nipde.estimators.inverse.material_models import MaternField
from nipde.grid import Axis, Grid

Fields = Float[np.ndarray, "column *space"]


@dataclass(frozen=True)
class MaternCovariance:
    """Of the prior of a Matérn field."""

    field: MaternField

    @property
    def grid(self) -> Grid:
        """Where the field lives."""
        return self.field.grid

    def root(self, white: Fields) -> Fields:
        """C^½ ξ: fields of the prior from white coordinates."""
        return self._transformed(white * self._amplitudes) / np.sqrt(self.grid.weights)

    def root_transposed(self, fields: Fields) -> Fields:
        """C^½ᵀ of fields."""
        return self._transformed(fields / np.sqrt(self.grid.weights)) * self._amplitudes

    def variance(self) -> Float[np.ndarray, "*space"]:
        """The diagonal of C: 2 and 4 times as large at sides and corners, where waves are reflected."""
        total = self._amplitudes**2
        for place, axis in enumerate(self.grid.axes):
            waves = _transformed(np.eye(axis.nodes), axis, place=1) ** 2
            total = np.moveaxis(np.tensordot(waves, total, axes=(0, place)), 0, place)
        return total / self.grid.weights

    @cached_property
    def _amplitudes(self) -> Float[np.ndarray, "*mode"]:
        """1 / (√scale (κ² + μ))."""
        total = np.zeros(())
        for axis in self.grid.axes:
            turns = np.arange(axis.nodes) * (np.pi * (2 if axis.boundary.periodic else 1) / axis.intervals)
            total = np.add.outer(total, (2 - 2 * np.cos(turns)) / axis.spacing**2)
        return 1 / (np.sqrt(self.field.scale) * (self.field.kappa**2 + total))

    def _transformed(self, values: Fields) -> Fields:
        for place, axis in enumerate(self.grid.axes, start=1):
            values = _transformed(values, axis, place=place)
        return values


def _transformed(values: np.ndarray, axis: Axis, *, place: int) -> np.ndarray:
    """T along one axis."""
    if not axis.boundary.periodic:
        return np.asarray(scipy.fft.dct(values, type=1, norm="ortho", axis=place))
    waves = scipy.fft.fft(values, norm="ortho", axis=place)
    return np.asarray(waves.real - waves.imag)

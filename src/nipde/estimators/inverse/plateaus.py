"""A background and two phases of known contrast, one below and one above it: which is where is to be found."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.estimators.inverse.material_models import (
    AtPoints,
    FieldAtNodes,
    Parameters,
    VarianceOf,
    laplacian,
)  # fmt: skip


@dataclass(frozen=True)
class Plateaus(FieldAtNodes):
    """log b = background + A/2 (tanh k(φ - 1) + tanh k(φ + 1)): φ below -1, between, above 1 are the three phases.

    As the contrast is given, the data decide sizes; values of φ around 0 change nothing, which takes halos away. The
    prior is Gaussian: ½ α ∫ |∇θ|² + θ²/l² of what is fitted, θ = φ less what is expected.
    """

    background: float = 0.0
    #: A and k.
    contrast: float = 5.0
    steepness: float = 2.5
    #: α and l.
    weight: float = 4.0
    length: float = 0.3
    #: φ at the nodes before anything is measured.
    expected: Float[np.ndarray, " node"] | float = 0.0

    def log_coefficient(
        self, parameters: Parameters, interpolation: sparse.csr_array
    ) -> tuple[AtPoints, sparse.csr_array]:
        """Of the interpolated φ."""
        field = interpolation @ self.field(parameters)
        down, up = np.tanh(self.steepness * (field - 1)), np.tanh(self.steepness * (field + 1))
        slope = self.contrast * self.steepness / 2 * (2 - down**2 - up**2)
        log = self.background + self.contrast / 2 * (down + up)
        return log, sparse.csr_array(sparse.diags_array(slope) @ interpolation)

    def field(self, parameters: Parameters) -> Parameters:
        """φ at the nodes."""
        return parameters + self.expected

    def log_variance(self, parameters: Parameters, interpolation: sparse.csr_array, variance: VarianceOf) -> AtPoints:
        """To first order."""
        return variance(self.log_coefficient(parameters, interpolation)[1])

    def penalty(self, parameters: Parameters) -> float:
        """½ θᵀ R θ."""
        return float(parameters @ (self._precision @ parameters)) / 2

    def quadratic(self, parameters: Parameters) -> tuple[sparse.csr_array, Parameters]:
        """R everywhere."""
        return self._precision, self._precision @ parameters

    @property
    def _precision(self) -> sparse.csr_array:
        stiffness, volumes = laplacian(self.grid)
        return sparse.csr_array(self.weight * (stiffness + sparse.diags_array(volumes / self.length**2)))


def phase_of(field: Float[np.ndarray, " point"], threshold: float) -> np.ndarray:
    """-1 below, 0 between, 1 above."""
    return np.where(field > threshold, 1, np.where(field < -threshold, -1, 0))

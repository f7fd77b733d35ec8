"""What is believed of log b before any measurement: R(log b) = Σ_faces area·ρ(jump of log b across the face).

Jumps of a logarithm have no unit, so a regulariser does not notice a change of units.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.errors import PhysicsError
from nipde.estimators.inversion.face_map import FaceMap


@dataclass(frozen=True)
class Regulariser(ABC):
    """A penalty on jumps; `weight` multiplies it against half the mean square residual of responses of rms 1.

    Without a weight the data choose it, see `gauss_newton.py`.
    """

    weight: float | None = None

    def __post_init__(self) -> None:
        if self.weight is not None and not self.weight > 0:
            raise PhysicsError(
                expected="a regularisation weight > 0", got=self.weight, remedy="use None to let the data choose"
            )

    @abstractmethod
    def value(self, jumps: Float[np.ndarray, " face"], *, faces: FaceMap) -> float:
        """R."""

    @abstractmethod
    def stiffness(self, jumps: Float[np.ndarray, " face"], *, faces: FaceMap) -> Float[np.ndarray, " face"]:
        """s with ∇R = Jᵀ diag(s) J log b, J the jumps; a step takes it as fixed (lagged diffusivity)."""


@dataclass(frozen=True)
class Tikhonov(Regulariser):
    """½ ∫ |∇ log b|² dx: smooth fields."""

    def value(self, jumps: Float[np.ndarray, " face"], *, faces: FaceMap) -> float:
        """½ Σ area/distance·jump²."""
        return float(np.sum(faces.area / faces.distance * jumps**2) / 2)

    def stiffness(self, jumps: Float[np.ndarray, " face"], *, faces: FaceMap) -> Float[np.ndarray, " face"]:
        """area/distance, whatever the jumps."""
        return faces.area / faces.distance


#: The default everywhere: it favours no kind of microstructure.
SMOOTH = Tikhonov()


@dataclass(frozen=True)
class TotalVariation(Regulariser):
    """∫ |∂ log b| summed over the axes, √(jump² + rounding²) for |jump|: few sharp interfaces."""

    rounding: float = 0.005

    def value(self, jumps: Float[np.ndarray, " face"], *, faces: FaceMap) -> float:
        """Σ area·(√(jump² + rounding²) - rounding)."""
        return float(np.sum(faces.area * (np.hypot(jumps, self.rounding) - self.rounding)))

    def stiffness(self, jumps: Float[np.ndarray, " face"], *, faces: FaceMap) -> Float[np.ndarray, " face"]:
        """area/√(jump² + rounding²): a face that has jumped is held no longer."""
        return faces.area / np.hypot(jumps, self.rounding)

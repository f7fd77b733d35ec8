"""Penalties on log b: R(log b) = Σ_links area·ρ(jump of log b along the link).

Jumps of a logarithm have no unit, so a penalty does not depend on units.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.discretisation.links import Links
from nipde.errors import PhysicsError


@dataclass(frozen=True)
class Regulariser(ABC):
    """A penalty on jumps; `weight` multiplies it against half the mean square residual of responses of rms 1.

    Without a weight the data select it, see `regularisation_path`.
    """

    weight: float | None = None

    def __post_init__(self) -> None:
        if self.weight is not None and not self.weight > 0:
            raise PhysicsError(
                expected="a regularisation weight > 0", got=self.weight, remedy="use None to let the data select it"
            )

    @abstractmethod
    def value(self, jumps: Float[np.ndarray, " link"], *, links: Links) -> float:
        """R."""

    @abstractmethod
    def stiffness(self, jumps: Float[np.ndarray, " link"], *, links: Links) -> Float[np.ndarray, " link"]:
        """s with ∇R = Jᵀ diag(s) J log b, J the jumps; a step takes it as fixed (lagged diffusivity)."""


@dataclass(frozen=True)
class Tikhonov(Regulariser):
    """½ ∫ |∇ log b|² dx: smooth fields."""

    def value(self, jumps: Float[np.ndarray, " link"], *, links: Links) -> float:
        """½ Σ area/distance·jump²."""
        return float(np.sum(links.factor * jumps**2) / 2)

    def stiffness(self, jumps: Float[np.ndarray, " link"], *, links: Links) -> Float[np.ndarray, " link"]:
        """area/distance, whatever the jumps."""
        return links.factor


#: The default everywhere: it favours no kind of microstructure.
SMOOTH = Tikhonov()


@dataclass(frozen=True)
class TotalVariation(Regulariser):
    """∫ |∂ log b| summed over the axes, √(jump² + rounding²) for |jump|: piecewise constant fields."""

    rounding: float = 0.005

    def value(self, jumps: Float[np.ndarray, " link"], *, links: Links) -> float:
        """Σ area·(√(jump² + rounding²) - rounding)."""
        return float(np.sum(links.area * (np.hypot(jumps, self.rounding) - self.rounding)))

    def stiffness(self, jumps: Float[np.ndarray, " link"], *, links: Links) -> Float[np.ndarray, " link"]:
        """area/√(jump² + rounding²): a link with a jump is hardly penalised further."""
        return links.area / np.hypot(jumps, self.rounding)

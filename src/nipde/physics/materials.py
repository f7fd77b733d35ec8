"""Energy of a plane strain body at a point: an isotropic matrix and, if any, families of fibres.

    ψ = μ/2 (F:F - 2 - 2 ln J) + κ/2 ((J² - 1)/2 - ln J) + k₁/(2k₂) Σ_n [exp(k₂ S_n²) - 1],   S_n = |F n|² - 1

F = I + ∇u, J = det F, n the direction of a fibre. Without fibres and with κ = λ it is the Neo-Hookean energy of
Mechanical MNIST, with κ = E/(3(1 - 2ν)) and fibres that of Holzapfel, Gasser and Ogden. Fibres that bear no
compression have S_n replaced by its positive part.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from nipde.errors import PhysicsError


@dataclass(frozen=True)
class Fibres:
    """Stiffness k₁ in units of stress, exponent k₂, and whether they bear compression as they bear tension."""

    stiffness: float = 0.1
    exponent: float = 1.5
    both_signs: bool = False

    def __post_init__(self) -> None:
        if not (0 <= self.stiffness < np.inf and 0 < self.exponent < np.inf):
            raise PhysicsError(
                expected="stiffness >= 0 and exponent > 0", got=(self.stiffness, self.exponent),
                remedy="use stiffness=0 for a body without fibres",
            )  # fmt: skip


class PointMaterial(NamedTuple):
    """What the assembly reads at every Gauss point: μ, κ, the fibres' directions and k₁; k₂ and signs are shared."""

    shear: Float[np.ndarray, "element point"]
    bulk: Float[np.ndarray, "element point"]
    directions: Float[np.ndarray, "element point family 2"]
    stiffness: Float[np.ndarray, "element point family"]
    exponent: float
    both_signs: bool


def shear_modulus(young: Float[np.ndarray, "*any"], poisson: float) -> Float[np.ndarray, "*any"]:
    """μ = E/(2(1 + ν))."""
    return young / (2 * (1 + poisson))


def lame_modulus(young: Float[np.ndarray, "*any"], poisson: float) -> Float[np.ndarray, "*any"]:
    """λ = Eν/((1 + ν)(1 - 2ν))."""
    return young * poisson / ((1 + poisson) * (1 - 2 * poisson))


def bulk_modulus(young: Float[np.ndarray, "*any"], poisson: float) -> Float[np.ndarray, "*any"]:
    """K = E/(3(1 - 2ν))."""
    return young / (3 * (1 - 2 * poisson))


def check_elastic(young: Float[np.ndarray, "*any"], poisson: float) -> None:
    """Raise unless E > 0 everywhere and -1 < ν < ½."""
    if not (np.all(np.isfinite(young)) and np.min(young) > 0 and -1 < poisson < 0.5):
        raise PhysicsError(
            expected="a finite modulus > 0 everywhere and a Poisson ratio between -1 and 0.5",
            got=f"moduli from {np.min(young)} to {np.max(young)}, Poisson ratio {poisson}",
            remedy="fill holes with a small positive modulus",
        )

"""Energy of a plane strain body at a point: an isotropic matrix and, if any, families of fibres.

    ψ = μ/2 (F:F - 2 - 2 ln J) + κ/2 ((J² - 1)/2 - ln J) + k₁/(2k₂) Σ_n [exp(k₂ S_n²) - 1],   S_n = |F n|² - 1

F = I + ∇u, J = det F, n the direction of a fibre. Without fibres and with κ = λ it is the Neo-Hookean energy of
Mechanical MNIST, with κ = E/(3(1 - 2ν)) and fibres that of Holzapfel, Gasser and Ogden. Fibres that bear no
compression have S_n replaced by its positive part.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

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

    @classmethod
    def of(
        cls,
        shear: Float[np.ndarray, "element point"],
        bulk: Float[np.ndarray, "element point"],
        angles: Float[np.ndarray, "element point family"] | None = None,
        stiffness: Float[np.ndarray, "element point family"] | None = None,
        *,
        exponent: float = 1.0,
        both_signs: bool = False,
    ) -> Self:
        """With fibres by their angles from the x axis, or without."""
        none = np.empty((*shear.shape, 0))
        angles, stiffness = none if angles is None else angles, none if stiffness is None else stiffness
        directions = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        return cls(shear, bulk, directions, stiffness, exponent, both_signs)


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


def matrix_stresses(
    gradient: Float[np.ndarray, "*point 2 2"], *, finite: bool = True
) -> Float[np.ndarray, "term *point 2 2"]:
    """Stress of μ = 1, F - F⁻ᵀ, and of κ = 1, ½ (J² - 1) F⁻ᵀ; for small strains H + Hᵀ and tr H · I.

    P = Σ_j θ_j P_j(∇u) is linear in the coefficients: identifying them is a regression.
    """
    a, b, c, d = gradient[..., 0, 0], gradient[..., 0, 1], gradient[..., 1, 0], gradient[..., 1, 1]
    if not finite:
        zero = np.zeros_like(a)
        return np.stack([_tensor(2 * a, b + c, b + c, 2 * d), _tensor(a + d, zero, zero, a + d)])
    change = a + d + a * d - b * c
    jacobian = 1 + change
    shear = _tensor(a - d + change * (1 + a), b + c + change * b, b + c + change * c, d - a + change * (1 + d))
    pressure = change * (2 + change) / 2
    bulk = _tensor(pressure * (1 + d), -pressure * c, -pressure * b, pressure * (1 + a))
    return np.stack([shear, bulk]) / jacobian[..., None, None]


def fibre_stress(
    gradient: Float[np.ndarray, "*point 2 2"], angle: Float[np.ndarray, "*#point"]
) -> tuple[Float[np.ndarray, "*point 2 2"], Float[np.ndarray, "*point 2 2"]]:
    """Stress 2 S m⊗n of one family with k = 1 that bears tension, and its derivative by the angle."""
    along = np.stack([np.cos(angle), np.sin(angle)], -1)
    across = np.stack([-np.sin(angle), np.cos(angle)], -1)
    m, across_m = (np.einsum("...ij,...j->...i", gradient, n) + n for n in (along, across))
    stretch = np.maximum(np.sum(m * m, -1) - 1, 0.0)
    rate = np.where(stretch > 0, 2 * np.sum(m * across_m, -1), 0.0)
    stress = 2 * stretch[..., None, None] * _outer(m, along)
    slope = 2 * rate[..., None, None] * _outer(m, along)
    slope += 2 * stretch[..., None, None] * (_outer(across_m, along) + _outer(m, across))
    return stress, slope


def _tensor(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> Float[np.ndarray, "*point 2 2"]:
    return np.stack([np.stack([a, b], -1), np.stack([c, d], -1)], -2)


def _outer(left: Float[np.ndarray, "*point 2"], right: Float[np.ndarray, "*#point 2"]) -> np.ndarray:
    return left[..., :, None] * right[..., None, :]

"""Stress of every term of an energy for a coefficient of 1: P = Σ_j θ_j P_j(∇u), what makes a material a regression.

    μ: F - F⁻ᵀ     κ: ½ (J² - 1) F⁻ᵀ     k: 2 S m⊗n,  m = F n,  S = ⟨|m|² - 1⟩

In the limit of small strains H + Hᵀ and tr H · I. The compiled loops of `assembly` hold the same terms for a material.
"""

import numpy as np
from jaxtyping import Float


def matrix_stresses(
    gradient: Float[np.ndarray, "*point 2 2"], *, finite: bool = True
) -> Float[np.ndarray, "term *point 2 2"]:
    """Of μ and of κ."""
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
    """Of one family that bears tension, and its derivative by the angle."""
    along = np.stack([np.cos(angle), np.sin(angle)], -1)
    across = np.stack([-np.sin(angle), np.cos(angle)], -1)
    m, turned = (np.einsum("...ij,...j->...i", gradient, n) + n for n in (along, across))
    stretch = np.maximum(np.sum(m * m, -1) - 1, 0.0)
    turning = np.where(stretch > 0, 2 * np.sum(m * turned, -1), 0.0)
    stress = 2 * stretch[..., None, None] * _outer(m, along)
    slope = 2 * turning[..., None, None] * _outer(m, along)
    slope += 2 * stretch[..., None, None] * (_outer(turned, along) + _outer(m, across))
    return stress, slope


def _tensor(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> Float[np.ndarray, "*point 2 2"]:
    return np.stack([np.stack([a, b], -1), np.stack([c, d], -1)], -2)


def _outer(left: Float[np.ndarray, "*point 2"], right: Float[np.ndarray, "*#point 2"]) -> np.ndarray:
    return left[..., :, None] * right[..., None, :]

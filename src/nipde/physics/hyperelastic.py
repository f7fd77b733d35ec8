"""Plane Neo-Hookean body: ψ = μ/2 (F:F - 2 - 2 ln J) + λ/2 ((J² - 1)/2 - ln J), moduli constant in every cell.

Mechanical MNIST (Lejeune 2020): a 28 × 28 body, one cell per pixel, E = 1 + 99 v/255 of the pixel's value v, ν = 0.3.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Shaped

from nipde.errors import PhysicsError, ShapeError
from nipde.physics.elastic import ElasticBody
from nipde.physics.materials import PointMaterial, check_elastic, lame_modulus, shear_modulus


@dataclass(frozen=True, eq=False)
class NeoHookean(ElasticBody):
    """One specimen: Young's modulus E > 0 in every cell of the grid, one Poisson ratio."""

    modulus: Float[np.ndarray, "*cell"]
    poisson: float = 0.3

    def __post_init__(self) -> None:
        if np.shape(self.modulus) != self.mesh.cells:
            raise ShapeError(
                expected=f"a modulus for each of {self.mesh.cells} cells", got=f"shape {np.shape(self.modulus)}",
                remedy="give one value per cell, between nodes",
            )  # fmt: skip
        check_elastic(self.modulus, self.poisson)

    @cached_property
    def material(self) -> PointMaterial:
        """No fibres."""
        young = self.mesh.at_points(np.asarray(self.modulus, dtype=np.float64))
        return PointMaterial.of(shear_modulus(young, self.poisson), lame_modulus(young, self.poisson))


def modulus_of_bitmap(
    bitmap: Shaped[np.ndarray, "row column"], *, soft: float = 1.0, stiff: float = 100.0
) -> Float[np.ndarray, "x y"]:
    """Moduli from `soft` at 0 to `stiff` at 255; rows of an image run down, y runs up."""
    values = np.asarray(bitmap, dtype=np.float64)
    if values.ndim != 2 or not (values.min() >= 0 and values.max() <= 255):
        raise PhysicsError(
            expected="an image of values from 0 to 255",
            got=f"shape {values.shape}, values from {values.min()} to {values.max()}", remedy="multiply shares by 255",
        )  # fmt: skip
    return np.ascontiguousarray((soft + (stiff - soft) * values / 255)[::-1].T)

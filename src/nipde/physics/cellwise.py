"""A plane body with one material per cell: a matrix and families of fibres that bear tension.

ψ = μ/2 (F:F - 2 - 2 ln J) + κ/2 ((J² - 1)/2 - ln J) + Σ_n k_n/2 ⟨I₄ - 1⟩²,   I₄ = |F n|²
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from nipde.errors import PhysicsError, ShapeError
from nipde.physics.elastic import ElasticBody
from nipde.physics.materials import PointMaterial

#: Fibres that do not stiffen: k₂ so small that exp(k₂S²) = 1 to rounding for any stretch.
LINEAR = 1e-12


@dataclass(frozen=True, eq=False)
class CellwiseBody(ElasticBody):
    """μ and κ > 0 in every cell; of every family of fibres the angle in radians from the x axis and k >= 0."""

    shear: Float[np.ndarray, "*cell"]
    bulk: Float[np.ndarray, "*cell"]
    angles: Float[np.ndarray, "family *cell"]
    stiffness: Float[np.ndarray, "family *cell"]

    def __post_init__(self) -> None:
        cells = self.mesh.cells
        families = (len(self.angles), *cells)
        shapes = [np.shape(field) for field in (self.shear, self.bulk, self.angles, self.stiffness)]
        if shapes != [cells, cells, families, families]:
            raise ShapeError(expected=f"values in {cells} cells, fibres {families}", got=shapes)
        lowest = [float(np.min(field, initial=np.inf)) for field in (self.shear, self.bulk, self.stiffness)]
        if not (lowest[0] > 0 and lowest[1] > 0 and lowest[2] >= 0):
            raise PhysicsError(
                expected="μ and κ above 0, stiffness of fibres not below",
                got=f"least values {', '.join(f'{value:.3g}' for value in lowest)}",
                remedy="lift what is too soft",
            )

    @cached_property
    def material(self) -> PointMaterial:
        """The same at all Gauss points of a cell."""
        shear, bulk = (self.mesh.at_points(np.asarray(field, dtype=np.float64)) for field in (self.shear, self.bulk))
        angles, stiffness = (
            np.stack([self.mesh.at_points(field) for field in fields], axis=-1)
            if len(fields)
            else np.empty((*shear.shape, 0))
            for fields in (self.angles, self.stiffness)
        )
        return PointMaterial.of(shear, bulk, angles, stiffness, exponent=LINEAR)

    @property
    def young(self) -> Float[np.ndarray, "*cell"]:
        """Young's modulus of the matrix, E = μ (3κ + 2μ) / (κ + μ) with κ for Lamé's λ."""
        return self.shear * (3 * self.bulk + 2 * self.shear) / (self.bulk + self.shear)

    @property
    def fibre_moment(self) -> Float[np.ndarray, "*cell"]:
        """Σ k exp(2iα): its angle is twice that of the fibres, its size how much of one direction they are."""
        return np.einsum("f...,f...->...", self.stiffness, np.exp(2j * self.angles))

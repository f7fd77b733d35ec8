"""Tissue of two segments, Holzapfel-Gasser-Ogden: a soft matrix with fibres along α₁ on one side of a line, α₂ beyond.

    ψ = μ/2 (F:F - 2) - μ ln J + K/2 ((J² - 1)/2 - ln J) + k₁/(2k₂) Σ [exp(k₂⟨I₄ - 1⟩²) - 1],   I₄ = |F n|²

The line goes through the centre of the box at an angle θ; α₁ holds where -sin θ (x - x₀) + cos θ (y - y₀) >= 0.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from nipde.errors import PhysicsError
from nipde.physics.elastic import ElasticBody
from nipde.physics.materials import Fibres, PointMaterial, bulk_modulus, check_elastic, shear_modulus

FIBRES = Fibres()


@dataclass(frozen=True, eq=False)
class TwoSegmentTissue(ElasticBody):
    """One specimen: the fibres' angles α₁, α₂ and the line's θ, in radians from the x axis.

    With `mirrored`, a second family runs along -α in both segments.
    """

    angles: tuple[float, float]
    line: float
    modulus: float = 0.4123
    poisson: float = 0.3
    fibres: Fibres = FIBRES
    mirrored: bool = False

    def __post_init__(self) -> None:
        check_elastic(np.asarray(self.modulus), self.poisson)
        if not np.all(np.isfinite([*self.angles, self.line])):
            raise PhysicsError(expected="finite angles", got=(*self.angles, self.line), remedy="give radians")

    @cached_property
    def material(self) -> PointMaterial:
        """The segment is looked up at every Gauss point."""
        points = self.mesh.points
        angle = self.angle_at(points[..., 0], points[..., 1])
        families = np.stack([angle, -angle] if self.mirrored else [angle], axis=-1)
        young, fibres = np.full(angle.shape, float(self.modulus)), self.fibres
        return PointMaterial.of(
            shear_modulus(young, self.poisson),
            bulk_modulus(young, self.poisson),
            families,
            np.full(families.shape, float(fibres.stiffness)),
            exponent=float(fibres.exponent),
            both_signs=bool(fibres.both_signs),
        )

    @cached_property
    def angle(self) -> Float[np.ndarray, "x y"]:
        """Angle of the fibres at the nodes of the grid."""
        return self.angle_at(*self.grid.coordinates)

    def angle_at(self, x: Float[np.ndarray, "*any"], y: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
        """Angle of the fibres anywhere."""
        x0, y0 = (axis.length / 2 for axis in self.grid.axes)
        first = -np.sin(self.line) * (x - x0) + np.cos(self.line) * (y - y0) >= 0
        return np.where(first, *self.angles)

"""Plane bodies by their material: moduli constant in every cell, tissue of two segments, one material per cell.

Neo-Hookean: ψ = μ/2 (F:F - 2 - 2 ln J) + λ/2 ((J² - 1)/2 - ln J). Mechanical MNIST (Lejeune 2020): a 28 × 28 body, one
cell per pixel, E = 1 + 99 v/255 of the pixel's value v, ν = 0.3.

Holzapfel-Gasser-Ogden: a soft matrix with fibres, K = E/(3(1 - 2ν)) for λ, and k₁/(2k₂) Σ [exp(k₂⟨I₄ - 1⟩²) - 1] added,
I₄ = |F n|²; with one material per cell the fibres do not stiffen, k/2 ⟨I₄ - 1⟩².
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Shaped

from nipde.errors import PhysicsError, ShapeError
from nipde.physics.elastic import ElasticBody
from nipde.physics.materials import Fibres, PointMaterial, bulk_modulus, check_elastic, lame_modulus, shear_modulus

FIBRES = Fibres()
#: Fibres that do not stiffen: k₂ so small that exp(k₂S²) = 1 to rounding for any stretch.
LINEAR = 1e-12


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


@dataclass(frozen=True, eq=False)
class TwoSegmentTissue(ElasticBody):
    """Fibres along α₁ on one side of a line, along α₂ beyond; the line's angle is θ, all in radians from the x axis.

    The line goes through the centre of the box; α₁ holds where -sin θ (x - x₀) + cos θ (y - y₀) >= 0. With `mirrored`,
    a second family runs along -α in both segments.
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
            shear_modulus(young, self.poisson), bulk_modulus(young, self.poisson), families,
            np.full(families.shape, float(fibres.stiffness)),
            exponent=float(fibres.exponent), both_signs=bool(fibres.both_signs),
        )  # fmt: skip

    @cached_property
    def angle(self) -> Float[np.ndarray, "x y"]:
        """Angle of the fibres at the nodes of the grid."""
        return self.angle_at(*self.grid.coordinates)

    def angle_at(self, x: Float[np.ndarray, "*any"], y: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
        """Angle of the fibres anywhere."""
        x0, y0 = (axis.length / 2 for axis in self.grid.axes)
        first = -np.sin(self.line) * (x - x0) + np.cos(self.line) * (y - y0) >= 0
        return np.where(first, *self.angles)


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
        fibres = np.empty((2, *shear.shape, len(self.angles)))
        for family, both in enumerate(zip(self.angles, self.stiffness, strict=True)):
            fibres[..., family] = [self.mesh.at_points(field) for field in both]
        return PointMaterial.of(shear, bulk, *fibres, exponent=LINEAR)

    @property
    def young(self) -> Float[np.ndarray, "*cell"]:
        """Young's modulus of the matrix, E = μ (3κ + 2μ) / (κ + μ) with κ for Lamé's λ."""
        return self.shear * (3 * self.bulk + 2 * self.shear) / (self.bulk + self.shear)

    @property
    def fibre_moment(self) -> Float[np.ndarray, "*cell"]:
        """Σ k exp(2iα): its angle is twice that of the fibres, its size how much of one direction they are."""
        return np.einsum("f...,f...->...", self.stiffness, np.exp(2j * self.angles))


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

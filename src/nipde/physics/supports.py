"""How a body is held: which displacements are prescribed, and an affine field u = distance · A x that has them.

`Held` follows the grid's own boundaries and moves nothing; the others are the four tests of Mechanical MNIST.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from nipde.errors import PhysicsError
from nipde.physics.quadrilaterals import Quadrilaterals


@dataclass(frozen=True)
class Support(ABC):
    """One way to hold and move the sides of a box."""

    @abstractmethod
    def fixed(self, mesh: Quadrilaterals) -> Bool[np.ndarray, "x y component"]:
        """Where displacements are prescribed."""

    @abstractmethod
    def displacement(self, mesh: Quadrilaterals) -> Float[np.ndarray, "x y component"]:
        """Affine displacement of a unit distance: prescribed where fixed, a first guess elsewhere."""


@dataclass(frozen=True)
class Held(Support):
    """u = 0 on both ends of every Dirichlet axis; other sides are free."""

    def fixed(self, mesh: Quadrilaterals) -> Bool[np.ndarray, "x y component"]:
        """Both components."""
        sides, (x, y) = mesh.sides(), (axis.boundary.clamped for axis in mesh.grid.axes)
        if not (x or y):
            raise PhysicsError(
                expected="a Dirichlet axis", got="none: the body is not held", remedy="clamp at least one axis"
            )
        held = (sides["left"] | sides["right"]) & x | (sides["bottom"] | sides["top"]) & y
        return np.repeat(held[..., None], 2, axis=-1)

    def displacement(self, mesh: Quadrilaterals) -> Float[np.ndarray, "x y component"]:
        """None."""
        return np.zeros((*mesh.shape, 2))


@dataclass(frozen=True)
class UniaxialExtension(Support):
    """Bottom held, top moved up by the distance, sides free."""

    def fixed(self, mesh: Quadrilaterals) -> Bool[np.ndarray, "x y component"]:
        """Both components on top and bottom."""
        sides = mesh.sides()
        return np.repeat((sides["bottom"] | sides["top"])[..., None], 2, axis=-1)

    def displacement(self, mesh: Quadrilaterals) -> Float[np.ndarray, "x y component"]:
        """(0, y/height)."""
        return _affine(mesh, [[0, 0], [0, 1]])


@dataclass(frozen=True)
class Shear(Support):
    """Bottom held, top moved to the right by the distance, sides free."""

    def fixed(self, mesh: Quadrilaterals) -> Bool[np.ndarray, "x y component"]:
        """Both components on top and bottom."""
        return UniaxialExtension().fixed(mesh)

    def displacement(self, mesh: Quadrilaterals) -> Float[np.ndarray, "x y component"]:
        """(y/height, 0)."""
        return _affine(mesh, [[0, 1], [0, 0]])


@dataclass(frozen=True)
class EquibiaxialExtension(Support):
    """Every side moved outward by half the distance, free to slide along itself."""

    def fixed(self, mesh: Quadrilaterals) -> Bool[np.ndarray, "x y component"]:
        """The component across each side."""
        sides = mesh.sides()
        return np.stack([sides["left"] | sides["right"], sides["bottom"] | sides["top"]], axis=-1)

    def displacement(self, mesh: Quadrilaterals) -> Float[np.ndarray, "x y component"]:
        """(x/width - ½, y/height - ½)."""
        return _affine(mesh, [[1, 0], [0, 1]]) - 0.5


@dataclass(frozen=True)
class ConfinedCompression(Support):
    """Top moved down by the distance, the other sides in place, all free to slide along themselves."""

    def fixed(self, mesh: Quadrilaterals) -> Bool[np.ndarray, "x y component"]:
        """The component across each side."""
        return EquibiaxialExtension().fixed(mesh)

    def displacement(self, mesh: Quadrilaterals) -> Float[np.ndarray, "x y component"]:
        """(0, -y/height)."""
        return _affine(mesh, [[0, 0], [0, -1]])


def _affine(mesh: Quadrilaterals, matrix: list[list[int]]) -> Float[np.ndarray, "x y component"]:
    lengths = np.array([axis.length for axis in mesh.grid.axes])
    return np.einsum("ca,axy->xyc", np.array(matrix) / lengths, mesh.coordinates)

"""Prescribed displacements: parts of a body's sides moved by an affine field, and the unknowns that remain.

`HELD` follows the Dirichlet boundaries of the grid and moves nothing; the others are the tests of Mechanical MNIST.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Bool, Float, Int
from scipy.linalg import lapack

from nipde.errors import PhysicsError
from nipde.physics.quadrilaterals import Quadrilaterals

Matrix = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Support:
    """Which components are prescribed on which sides, and the field u = distance · (G x + offset) that has them.

    Without sides, both components are prescribed on the sides of every Dirichlet axis; x is in units of the lengths.
    """

    sides: tuple[tuple[str, tuple[int, ...]], ...] = ()
    gradient: Matrix = ((0, 0), (0, 0))
    offset: float = 0.0

    def fixed(self, mesh: Quadrilaterals) -> Bool[np.ndarray, "x y component"]:
        """Where displacements are prescribed."""
        nodes, fixed = mesh.sides(), np.zeros((*mesh.shape, 2), dtype=bool)
        for side, components in self.sides or _dirichlet_sides(mesh):
            for component in components:
                fixed[nodes[side], component] = True
        return fixed

    def displacement(self, mesh: Quadrilaterals) -> Float[np.ndarray, "x y component"]:
        """Displacement of a unit distance: prescribed where fixed, a first guess elsewhere."""
        lengths = np.array([axis.length for axis in mesh.grid.axes])
        return np.einsum("ca,axy->xyc", np.array(self.gradient) / lengths, mesh.coordinates) + self.offset


_ENDS = (("bottom", (0, 1)), ("top", (0, 1)))
_ACROSS = (("left", (0,)), ("right", (0,)), ("bottom", (1,)), ("top", (1,)))
HELD = Support()
#: Bottom held, top moved up by the distance, sides free.
UNIAXIAL_EXTENSION = Support(_ENDS, ((0, 0), (0, 1)))
#: Bottom held, top moved to the right by the distance, sides free.
SHEAR = Support(_ENDS, ((0, 1), (0, 0)))
#: Every side moved outward by half the distance, free to slide along itself.
EQUIBIAXIAL_EXTENSION = Support(_ACROSS, ((1, 0), (0, 1)), -0.5)
#: Top moved down by the distance, the other sides in place, all free to slide along themselves.
CONFINED_COMPRESSION = Support(_ACROSS, ((0, 0), (0, -1)))


@lru_cache(maxsize=16)
def unknowns_of(mesh: Quadrilaterals, support: Support) -> "Unknowns":
    """The unknown displacements of a mesh in its supports, numbered once."""
    return Unknowns(mesh, support.fixed(mesh))


class Unknowns:
    """Numbers of the displacements that no support prescribes, and the symmetric band their tangent fills.

    A[i, j] stands at [j, i - j], i >= j. Nodes are numbered along the shorter axis first, x and y components side by
    side, so the band stays narrow.
    """

    def __init__(self, mesh: Quadrilaterals, fixed: Bool[np.ndarray, "x y component"]) -> None:
        self.mesh = mesh
        free = ~fixed
        if mesh.shape[0] < mesh.shape[1]:
            free = free.transpose(1, 0, 2)
        ordered = np.where(free, np.cumsum(free).reshape(free.shape) - 1, -1)
        if mesh.shape[0] < mesh.shape[1]:
            ordered = ordered.transpose(1, 0, 2)
        number = ordered.reshape(-1)
        self.size = int(free.sum())
        places = np.empty(self.size, dtype=np.int64)
        places[number[number >= 0]] = np.flatnonzero(number >= 0)
        #: Place of every unknown among all displacements (node 2), flattened.
        self.places: Int[np.ndarray, " unknown"] = places
        self._number = number.reshape(-1, 2)

    @cached_property
    def bandwidth(self) -> int:
        """Largest distance between two unknowns of one element."""
        numbers = self._number[self.mesh.elements].reshape(len(self.mesh.elements), -1)
        lowest = np.where(numbers < 0, self.size, numbers).min(axis=1)
        return int(np.max(numbers.max(axis=1) - lowest, initial=0))

    @cached_property
    def slots(self) -> Int[np.ndarray, "element entry"]:
        """Where entries of the elements' lower blocks go in the flat band; those of fixed displacements behind it."""
        numbers = self._number[self.mesh.elements]
        rows, columns = np.tril_indices(self.mesh.elements.shape[1])
        first = np.broadcast_to(numbers[:, rows, :, None], (len(numbers), len(rows), 2, 2))
        second = np.broadcast_to(numbers[:, columns, None, :], first.shape)
        high, low = np.maximum(first, second), np.minimum(first, second)
        slots = np.where(low < 0, self.slot_count - 1, low * (self.bandwidth + 1) + high - low)
        slots[:, rows == columns, 0, 1] = self.slot_count - 1  # held by its mirror image already
        return slots.reshape(len(numbers), -1)

    @property
    def slot_count(self) -> int:
        """Entries of the flat band, and one more that takes what is not needed."""
        return self.size * (self.bandwidth + 1) + 1

    def columns(self, band: Float[np.ndarray, " slot"]) -> Float[np.ndarray, "offset unknown"]:
        """A flat band as LAPACK wants it, without a copy."""
        return band[:-1].reshape(self.size, self.bandwidth + 1).T

    def solve(
        self, band: Float[np.ndarray, " slot"], right: Float[np.ndarray, "unknown *load"]
    ) -> Float[np.ndarray, "unknown *load"]:
        """Band Cholesky, which overwrites the band; LinAlgError unless the matrix is positive definite."""
        factor, failed = lapack.dpbtrf(self.columns(band), lower=1, overwrite_ab=1)
        if failed:
            raise np.linalg.LinAlgError("the tangent is not positive definite")
        solution, failed = lapack.dpbtrs(factor, right, lower=1)
        if failed:
            raise np.linalg.LinAlgError("the band cannot be solved with")
        return solution

    def matrix(self, band: Float[np.ndarray, " slot"]) -> sparse.csc_array:
        """The whole symmetric matrix, all displacements in the order (node 2), zero where fixed."""
        offset, column = np.indices((self.bandwidth + 1, self.size))
        inside = offset + column < self.size
        rows, columns = self.places[(offset + column)[inside]], self.places[column[inside]]
        count = self._number.size
        lower = sparse.coo_array((self.columns(band)[inside], (rows, columns)), shape=(count, count)).tocsc()
        return (lower + lower.T - sparse.diags_array(lower.diagonal())).tocsc()


def _dirichlet_sides(mesh: Quadrilaterals) -> list[tuple[str, tuple[int, ...]]]:
    names = (("left", "right"), ("bottom", "top"))
    sides = [side for ends, axis in zip(names, mesh.grid.axes, strict=True) if axis.boundary.essential for side in ends]
    if not sides:
        raise PhysicsError(
            expected="a Dirichlet axis", got="none: the body can move as a whole",
            remedy="give one axis a Dirichlet boundary",
        )  # fmt: skip
    return [(side, (0, 1)) for side in sides]

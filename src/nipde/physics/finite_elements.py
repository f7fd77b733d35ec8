"""-∇·(b ∇u) = f on a rectangle by bilinear finite elements: the coefficient is constant in every cell of the mesh.

Another discretisation than the control volumes that estimators solve with, for reference data: nodes are those of the
grid, cells lie between them, the load is interpolated between its nodal values. Second order where b is smooth.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.sparse.linalg import SuperLU, splu

from nipde.errors import PhysicsError, ShapeError
from nipde.grid import Grid
from nipde.physics.balance import check_positive

Cells = Float[np.ndarray, "x y"]
Nodes = Float[np.ndarray, "pair x y"]


@dataclass(frozen=True, eq=False)
class FiniteElements:
    """One specimen in two dimensions; `ratio` is b along x over b along y, `coefficient` their geometric mean."""

    grid: Grid
    coefficient: Cells
    ratio: float = 1.0

    def __post_init__(self) -> None:
        grid = self.grid
        kinds = [axis.boundary for axis in grid.axes]
        if grid.dimension != 2 or any(kind.periodic for kind in kinds) or not any(kind.essential for kind in kinds):
            raise PhysicsError(
                expected="a rectangle without periodic axes, one of them Dirichlet", got=grid.to_dict(),
                remedy="choose another grid",
            )  # fmt: skip
        if not 0 < self.ratio < np.inf:
            raise PhysicsError(expected="a ratio of the two directions > 0", got=self.ratio, remedy="1 is isotropic")
        cells = tuple(axis.intervals for axis in grid.axes)
        if self.coefficient.shape != cells:
            raise ShapeError(
                "coefficient of the cells",
                expected=cells,
                got=self.coefficient.shape,
                remedy="one value between four nodes",
            )
        check_positive(self.coefficient, "coefficient")

    def solve(self, loads: Nodes) -> Nodes:
        """Responses to loads given at the nodes."""
        return self.solve_moments(self.moments(loads))

    def moments(self, loads: Nodes) -> Nodes:
        """∫ N f of every node, f bilinear between its nodal values."""
        self.grid.check(loads)
        return (_mesh(self.grid).mass @ loads.reshape(len(loads), -1).T).T.reshape(loads.shape)

    def solve_moments(self, moments: Nodes) -> Nodes:
        """Responses to given ∫ N f: 1 at a node is a point source there."""
        self.grid.check(moments)
        free = _mesh(self.grid).free
        responses = np.zeros((len(moments), self.grid.size))
        responses[:, free] = self.factor.solve(moments.reshape(len(moments), -1)[:, free].T).T
        return responses.reshape(moments.shape)

    def residual(self, moments: Nodes, responses: Nodes) -> Float[np.ndarray, " pair"]:
        """‖A u - ∫ N f‖ / ‖∫ N f‖ of every pair."""
        free = _mesh(self.grid).free
        right, values = (field.reshape(len(field), -1)[:, free] for field in (moments, responses))
        return np.linalg.norm((self.matrix @ values.T).T - right, axis=1) / np.linalg.norm(right, axis=1)

    @cached_property
    def stiffness(self) -> sparse.csc_array:
        """Of all nodes."""
        mesh, root = _mesh(self.grid), self.ratio**0.5
        entries = np.multiply.outer(self.coefficient.ravel(), mesh.along_x * root + mesh.along_y / root)
        return sparse.csc_array((entries.ravel(), mesh.places), shape=(self.grid.size,) * 2)

    @property
    def mass(self) -> sparse.csc_array:
        """∫ N N of all nodes."""
        return _mesh(self.grid).mass

    @cached_property
    def matrix(self) -> sparse.csc_array:
        """Stiffness of the unknown nodes."""
        free = _mesh(self.grid).free
        return self.stiffness[free][:, free].tocsc()

    @cached_property
    def factor(self) -> SuperLU:
        """Sparse factors of the matrix."""
        return splu(self.matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})


@dataclass(frozen=True, eq=False)
class _Mesh:
    """What does not depend on the coefficient."""

    #: Row and column of every entry of every cell's matrices.
    places: tuple[np.ndarray, np.ndarray]
    #: ∫ ∂N ∂N of one cell, by direction.
    along_x: Float[np.ndarray, "4 4"]
    along_y: Float[np.ndarray, "4 4"]
    mass: sparse.csc_array
    free: np.ndarray


@lru_cache(maxsize=4)
def _mesh(grid: Grid) -> _Mesh:
    numbers = np.arange(grid.size).reshape(grid.shape)
    corners = np.stack([numbers[:-1, :-1], numbers[:-1, 1:], numbers[1:, :-1], numbers[1:, 1:]], -1).reshape(-1, 4)
    places = (np.repeat(corners, 4, axis=1).ravel(), np.tile(corners, (1, 4)).ravel())
    stiff = np.array([[1.0, -1.0], [-1.0, 1.0]])
    heavy = np.array([[2.0, 1.0], [1.0, 2.0]]) / 6
    dx, dy = grid.spacing
    mass = np.tile(np.kron(heavy, heavy) * dx * dy, (len(corners), 1, 1)).ravel()
    total = sparse.csc_array((mass, places), shape=(grid.size,) * 2)
    return _Mesh(places, np.kron(stiff, heavy) * dy / dx, np.kron(heavy, stiff) * dx / dy, total,
                 np.flatnonzero(grid.unknown.ravel()))  # fmt: skip

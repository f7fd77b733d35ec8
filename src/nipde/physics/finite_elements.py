"""-∇·(b ∇u) = f on a rectangle or in a box by multilinear finite elements: b is constant in every cell of the mesh.

Another discretisation than the control volumes that estimators solve with, for reference data: nodes are those of the
grid, cells lie between them, the load is interpolated between its nodal values. Second order where b is smooth.
Rectangles are solved by sparse factors; factors of a box would be too full, it is solved by conjugate gradients with
algebraic multigrid (pyamg).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.sparse.linalg import SuperLU, cg, splu

from nipde.errors import PhysicsError, ShapeError, needing
from nipde.grid import Grid
from nipde.physics.balance import check_positive

#: Relative residual of iterative solves.
TOLERANCE = 1e-11
Cells = Float[np.ndarray, "*cell"]
Nodes = Float[np.ndarray, "pair *space"]


@dataclass(frozen=True, eq=False)
class FiniteElements:
    """One specimen; `ratio` is b along x over b along y in two dimensions, `coefficient` their geometric mean."""

    grid: Grid
    coefficient: Cells
    ratio: float = 1.0

    def __post_init__(self) -> None:
        grid = self.grid
        kinds = [axis.boundary for axis in grid.axes]
        plain = grid.dimension in (2, 3) and not any(kind.periodic for kind in kinds)
        if not plain or not any(kind.essential for kind in kinds):
            raise PhysicsError(
                expected="a rectangle or box without periodic axes, one of them Dirichlet", got=grid.to_dict(),
                remedy="choose another grid",
            )  # fmt: skip
        if not 0 < self.ratio < np.inf or (grid.dimension == 3 and self.ratio != 1):
            raise PhysicsError(
                expected="a ratio of the two directions > 0, 1 in three dimensions", got=self.ratio,
                remedy="1 is isotropic",
            )  # fmt: skip
        cells = tuple(axis.intervals for axis in grid.axes)
        if self.coefficient.shape != cells:
            raise ShapeError(
                "coefficient of the cells",
                expected=cells,
                got=self.coefficient.shape,
                remedy="one value between the nodes of a cell",
            )
        check_positive(self.coefficient, "coefficient")

    def solve(self, loads: Nodes) -> Nodes:
        """Responses to loads given at the nodes."""
        return self.solve_moments(self.moments(loads))

    def moments(self, loads: Nodes) -> Nodes:
        """∫ N f of every node, f multilinear between its nodal values."""
        self.grid.check(loads)
        return (_mesh(self.grid).mass @ loads.reshape(len(loads), -1).T).T.reshape(loads.shape)

    def solve_moments(self, moments: Nodes) -> Nodes:
        """Responses to given ∫ N f: 1 at a node is a point source there."""
        self.grid.check(moments)
        free = _mesh(self.grid).free
        responses, right = np.zeros((len(moments), self.grid.size)), moments.reshape(len(moments), -1)[:, free]
        if self.grid.dimension == 2:
            responses[:, free] = self.factor.solve(right.T).T
        else:
            matrix, cycle = self.matrix.tocsr(), self._cycle
            responses[:, free] = [cg(matrix, one, rtol=TOLERANCE, maxiter=200, M=cycle)[0] for one in right]
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
        of_cell = sum(scale * part for scale, part in zip((root, 1 / root, 1.0), mesh.along, strict=False))
        entries = np.multiply.outer(self.coefficient.ravel(), of_cell)
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

    @cached_property
    def _cycle(self) -> Any:
        """A V-cycle of smoothed aggregation."""
        with needing("pyamg, for finite elements in three dimensions,", extra="data"):
            import pyamg
        state = np.random.get_state()  # noqa: NPY002  pyamg draws from it: seeded here, and left as it was
        try:
            np.random.seed(0)  # noqa: NPY002
            return pyamg.smoothed_aggregation_solver(sparse.csr_matrix(self.matrix), max_coarse=200).aspreconditioner()
        finally:
            np.random.set_state(state)  # noqa: NPY002


@dataclass(frozen=True, eq=False)
class _Mesh:
    """What does not depend on the coefficient."""

    #: Row and column of every entry of every cell's matrices.
    places: tuple[np.ndarray, np.ndarray]
    #: ∫ ∂N ∂N of one cell, by direction.
    along: tuple[Float[np.ndarray, "corner corner"], ...]
    mass: sparse.csc_array
    free: np.ndarray


@lru_cache(maxsize=4)
def _mesh(grid: Grid) -> _Mesh:
    numbers = np.arange(grid.size).reshape(grid.shape)
    sides = list(product((slice(None, -1), slice(1, None)), repeat=grid.dimension))
    corners = np.stack([numbers[one].ravel() for one in sides], -1)
    places = (np.repeat(corners, len(sides), axis=1).ravel(), np.tile(corners, (1, len(sides))).ravel())
    stiff = [np.array([[1.0, -1.0], [-1.0, 1.0]]) / spacing for spacing in grid.spacing]
    heavy = [np.array([[2.0, 1.0], [1.0, 2.0]]) / 6 * spacing for spacing in grid.spacing]
    along = tuple(_kronecker([*heavy[:a], stiff[a], *heavy[a + 1 :]]) for a in range(grid.dimension))
    mass = np.tile(_kronecker(heavy), (len(corners), 1, 1)).ravel()
    total = sparse.csc_array((mass, places), shape=(grid.size,) * 2)
    return _Mesh(places, along, total, np.flatnonzero(grid.unknown.ravel()))


def _kronecker(parts: list[np.ndarray]) -> np.ndarray:
    return reduce(lambda product, part: np.kron(product, part), parts)

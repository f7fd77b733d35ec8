"""Rectangular elements on a box: u(x) = Σ_a N_a(x) u_a, products of Lagrange polynomials; Gauss quadrature.

Every cell of the grid is cut into refine × refine elements of one degree: 1 has four nodes (Q4), 2 nine (Q9). The
grid's nodes are always among the mesh's, so fields go in and come out at the grid's nodes.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int

from nipde.errors import PhysicsError
from nipde.grid import Axis, Grid

DEGREES = (1, 2)


@dataclass(frozen=True)
class Quadrilaterals:
    """A mesh; get it from `mesh_of`, which keeps what is costly to build."""

    grid: Grid
    degree: int = 1
    refine: int = 1

    def __post_init__(self) -> None:
        if self.grid.dimension != 2 or any(axis.boundary.periodic for axis in self.grid.axes):
            raise PhysicsError(expected="a grid of two axes, none periodic", got=self.grid, remedy="use another grid")
        if self.degree not in DEGREES or self.refine < 1:
            raise PhysicsError(
                expected=f"a degree among {DEGREES} and refine >= 1", got=(self.degree, self.refine),
                remedy="use degree=1 (Q4) or degree=2 (Q9)",
            )  # fmt: skip

    @property
    def stride(self) -> int:
        """Spacings of the mesh in one of the grid."""
        return self.degree * self.refine

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes of the mesh per axis."""
        x, y = (axis.intervals * self.stride + 1 for axis in self.grid.axes)
        return x, y

    @property
    def cells(self) -> tuple[int, int]:
        """Cells of the grid per axis: where a material is constant."""
        x, y = (axis.intervals for axis in self.grid.axes)
        return x, y

    @cached_property
    def coordinates(self) -> Float[np.ndarray, "axis *node"]:
        """Position of every node of the mesh."""
        steps = [np.arange(n) * (axis.length / (n - 1)) for n, axis in zip(self.shape, self.grid.axes, strict=True)]
        return np.stack(np.meshgrid(*steps, indexing="ij"))

    @cached_property
    def elements(self) -> Int[np.ndarray, "element local"]:
        """Flat numbers of every element's nodes, y fastest."""
        numbers = np.arange(self.shape[0] * self.shape[1]).reshape(self.shape)
        starts = numbers[: -1 : self.degree, : -1 : self.degree]
        local = numbers[: self.degree + 1, : self.degree + 1]
        return (starts.reshape(-1, 1) + local.reshape(1, -1)).astype(np.int64)

    @cached_property
    def gradients(self) -> Float[np.ndarray, "point local axis"]:
        """∇N_a at the Gauss points; the same in every element, as all are equal rectangles."""
        values, slopes = shape_functions(self.degree, _gauss(self.degree)[0])
        width, height = self._element_size
        along_x = np.einsum("pa,qb->pqab", slopes / width, values)
        along_y = np.einsum("pa,qb->pqab", values, slopes / height)
        count = len(values) ** 2
        return np.ascontiguousarray(np.stack([along_x, along_y], axis=-1).reshape(count, count, 2))

    @cached_property
    def weights(self) -> Float[np.ndarray, " point"]:
        """Area that every Gauss point of an element stands for."""
        line = _gauss(self.degree)[1]
        width, height = self._element_size
        return (np.multiply.outer(line, line) * width * height).reshape(-1)

    @cached_property
    def points(self) -> Float[np.ndarray, "element point axis"]:
        """Position of every Gauss point."""
        places = _gauss(self.degree)[0]
        inside = np.stack(np.meshgrid(places, places, indexing="ij"), axis=-1).reshape(-1, 2)
        corners = self.coordinates.reshape(2, -1)[:, self.elements[:, 0]].T
        return corners[:, None] + inside * np.array(self._element_size)

    def at_points(self, cellwise: Float[np.ndarray, "*cell"]) -> Float[np.ndarray, "element point"]:
        """A field that is constant in every cell of the grid, at the Gauss points."""
        fine = np.repeat(np.repeat(cellwise, self.refine, axis=0), self.refine, axis=1)
        return np.ascontiguousarray(np.broadcast_to(fine.reshape(-1, 1), (fine.size, len(self.weights))))

    def nodal_forces(self, loads: Float[np.ndarray, "*batch component x y"]) -> Float[np.ndarray, "*batch node 2"]:
        """∫ N_a b dx of force densities b given at the grid's nodes and bilinear between them."""
        along_x, along_y = (_line_loads(axis, self.degree, self.refine) for axis in self.grid.axes)
        forces = along_x @ loads @ along_y.T
        return np.ascontiguousarray(
            np.moveaxis(forces.reshape(*forces.shape[:-2], self.shape[0] * self.shape[1]), -2, -1)
        )

    def at_nodes(self, displacements: Float[np.ndarray, "*batch node 2"]) -> Float[np.ndarray, "*batch component x y"]:
        """Displacements of the mesh at the grid's nodes, component before space."""
        fields = np.moveaxis(displacements, -1, -2)
        return fields.reshape(*fields.shape[:-1], *self.shape)[..., :: self.stride, :: self.stride]

    def sides(self) -> dict[str, Bool[np.ndarray, "x y"]]:
        """Nodes of the four sides, by name; corners are on two."""
        sides = {name: np.zeros(self.shape, dtype=bool) for name in ("left", "right", "bottom", "top")}
        sides["left"][0], sides["right"][-1] = True, True
        sides["bottom"][:, 0], sides["top"][:, -1] = True, True
        return sides

    @property
    def _element_size(self) -> tuple[float, float]:
        width, height = (spacing / self.refine for spacing in self.grid.spacing)
        return width, height


@lru_cache(maxsize=8)
def mesh_of(grid: Grid, degree: int, refine: int) -> Quadrilaterals:
    """The mesh of a grid, built once."""
    return Quadrilaterals(grid, degree, refine)


def shape_functions(
    degree: int, places: Float[np.ndarray, " place"]
) -> tuple[Float[np.ndarray, "place local"], Float[np.ndarray, "place local"]]:
    """Lagrange polynomials on [0, 1] with equally spaced nodes, and their derivatives."""
    s = np.asarray(places)
    if degree == 1:
        return np.stack([1 - s, s], axis=1), np.stack([-np.ones_like(s), np.ones_like(s)], axis=1)
    values = [(1 - s) * (1 - 2 * s), 4 * s * (1 - s), s * (2 * s - 1)]
    return np.stack(values, axis=1), np.stack([4 * s - 3, 4 - 8 * s, 4 * s - 1], axis=1)


def _gauss(degree: int) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """degree + 1 Gauss points and weights on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(degree + 1)
    return (points + 1) / 2, weights / 2


@lru_cache(maxsize=16)
def _line_loads(axis: Axis, degree: int, refine: int) -> Float[np.ndarray, "node grid_node"]:
    """∫ N_i φ_I along one axis, φ_I the hat functions of the grid; the box's matrix is the product of its axes'."""
    places, weights = _gauss(degree)
    values, _ = shape_functions(degree, places)
    matrix = np.zeros((axis.intervals * refine * degree + 1, axis.nodes))
    for element in range(axis.intervals * refine):
        cell, part = divmod(element, refine)
        hats, _ = shape_functions(1, (part + places) / refine)
        block = np.einsum("p,pa,pb->ab", weights * axis.spacing / refine, values, hats)
        matrix[element * degree : (element + 1) * degree + 1, cell : cell + 2] += block
    return matrix


def node_means(cells: Float[np.ndarray, "*batch cell_x cell_y"]) -> Float[np.ndarray, "*batch x y"]:
    """Cell values at the nodes: the mean of the one, two or four cells that meet there.

    The trapezoidal integral of the nodal values is the integral over the cells.
    """
    wide = np.pad(cells, [(0, 0)] * (cells.ndim - 2) + [(1, 1)] * 2, mode="edge")
    across = (wide[..., :-1, :] + wide[..., 1:, :]) / 2
    return (across[..., :-1] + across[..., 1:]) / 2


def cells_of(nodes: Float[np.ndarray, "*batch x y"]) -> Float[np.ndarray, "*batch cell_x cell_y"]:
    """The cell values whose node means are given, in double precision: least squares, exact up to rounding."""
    wide = [np.pad(np.eye(count - 1), [(1, 1), (0, 0)], mode="edge") for count in nodes.shape[-2:]]
    inverse_x, inverse_y = (np.linalg.pinv((one[:-1] + one[1:]) / 2) for one in wide)
    return inverse_x @ nodes.astype(np.float64) @ inverse_y.T

"""Sensors: what was measured is H u, one row of H per sensor; nothing is known between them.

A sensor is a point, or the average over a disc around it (a ball in three dimensions). Positions are measured from the
first node of the grid, in its unit of length; the same sensors serve every grid on the box.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Bool, Float

from nipde.discretisation.interpolation import multilinear
from nipde.errors import ShapeError
from nipde.grid import Grid

#: Points along the diameter of a disc that an average is taken over.
ACROSS = 7


@dataclass(frozen=True, eq=False)
class Sensors:
    """Positions, and the radius of each sensor's disc: 0 is a point."""

    points: Float[np.ndarray, "sensor axis"]
    radii: Float[np.ndarray, " sensor"]

    def __post_init__(self) -> None:
        if self.points.ndim != 2 or self.radii.shape != (len(self.points),) or not len(self.points):
            raise ShapeError(
                "sensors", expected="positions (sensor, axis) and a radius for each",
                got=(self.points.shape, self.radii.shape), remedy="give one row per sensor",
            )  # fmt: skip

    @classmethod
    def at(cls, points: Float[np.ndarray, "sensor axis"], *, radius: float = 0.0) -> Self:
        """Sensors of one kind at these positions."""
        points = np.asarray(points, dtype=np.float64)
        return cls(points, np.full(len(points), float(radius)))

    @classmethod
    def at_nodes(cls, grid: Grid, *, mask: Bool[np.ndarray, "*space"] | None = None) -> Self:
        """One at every unknown node, or at those of them where the mask is true."""
        chosen = grid.unknown if mask is None else grid.unknown & mask
        return cls.at(np.stack([x[chosen] for x in grid.coordinates], axis=-1))

    def __len__(self) -> int:
        return len(self.points)

    def matrix(self, grid: Grid) -> sparse.csr_array:
        """H from the nodes of a grid to the sensors."""
        rows = multilinear(grid, self.points)
        wide = np.flatnonzero(self.radii > 0)
        if not len(wide):
            return rows
        steps = np.linspace(-1, 1, ACROSS)
        disc = np.stack(np.meshgrid(*[steps] * grid.dimension, indexing="ij"), -1).reshape(-1, grid.dimension)
        disc = disc[np.linalg.norm(disc, axis=1) <= 1]
        around = self.points[wide][:, None] + self.radii[wide][:, None, None] * disc
        for place, axis in enumerate(grid.axes):
            at = around[..., place]
            # Over a periodic end the disc goes on at the other one; over a side there is nothing to measure.
            around[..., place] = at % axis.length if axis.boundary.periodic else np.clip(at, 0, axis.length)
        values = multilinear(grid, around.reshape(-1, grid.dimension))
        mean = sparse.kron(sparse.eye_array(len(wide)), np.full((1, len(disc)), 1 / len(disc)))
        pick = sparse.csr_array((np.ones(len(wide)), (wide, np.arange(len(wide)))), shape=(len(self), len(wide)))
        narrow = sparse.diags_array((self.radii <= 0).astype(float))
        return sparse.csr_array(narrow @ rows + pick @ (mean @ values))

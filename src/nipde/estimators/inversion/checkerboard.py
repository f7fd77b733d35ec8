"""The one direction that a law cannot see, and the field of least variation along it.

Faces see b through φ(b_first) + φ(b_second) only: φ = 1/b for harmonic means, φ = b for arithmetic ones. Adding δ to φ
on the black nodes of a checkerboard and taking it from the white ones changes no face, so no measurement can find δ.
A ring of an odd number of nodes has no checkerboard.
"""

import numpy as np
from jaxtyping import Float

from nipde.grid import Grid
from nipde.physics.faces import Arithmetic, FaceMean, Harmonic, faces_of


class Checkerboard:
    """The blind direction of a grid and a face mean; the identity where every field can be told."""

    def __init__(self, grid: Grid, mean: FaceMean) -> None:
        ring = any(axis.boundary.periodic and axis.nodes % 2 for axis in grid.axes)
        self.exists = isinstance(mean, Harmonic | Arithmetic) and not ring
        #: φ = b^power.
        self.power = -1.0 if isinstance(mean, Harmonic) else 1.0
        self.sign = np.where(np.indices(grid.shape).sum(axis=0) % 2, -1.0, 1.0).reshape(-1)
        faces, inner = faces_of(grid), ~grid.corners.reshape(-1)
        seen = inner[faces.first] & inner[faces.second]
        self.first, self.second, self.area = faces.first[seen], faces.second[seen], faces.area[seen]

    def least_variation(self, log_permeability: Float[np.ndarray, " node"]) -> Float[np.ndarray, " node"]:
        """The field with the same faces whose jumps of φ, relative to φ, are least in L¹: a weighted median."""
        if not self.exists:
            return log_permeability
        field = np.exp(self.power * log_permeability)
        first, second = field[self.first], field[self.second]
        balanced = self.sign[self.first] * (second - first) / 2
        return self._shifted(log_permeability, _weighted_median(balanced, weights=self.area / (first + second)))

    def _shifted(self, log_permeability: np.ndarray, shift: float) -> np.ndarray:
        field = np.exp(self.power * log_permeability)
        room = np.min(field) / 2  # what is positive stays so
        return np.log(field + self.sign * np.clip(shift, -room, room)) / self.power


def _weighted_median(values: Float[np.ndarray, " value"], *, weights: Float[np.ndarray, " value"]) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])

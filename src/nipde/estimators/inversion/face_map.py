"""Nodes to faces: conductance a = mean(b_first, b_second)·area/distance, so that A = Dᵀ diag(a) D.

D takes differences of the response across faces. Only faces that touch a free node enter; log b is the unknown.
"""

from functools import lru_cache

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.estimators.inversion.checkerboard import Checkerboard
from nipde.grid import Grid
from nipde.physics.faces import FaceMean, faces_of

#: Step into the complex plane: the derivative of an analytic mean is then exact to rounding.
STEP = 1e-30


class FaceMap:
    """How the conductance of every entering face follows from log b at the nodes."""

    def __init__(self, grid: Grid, mean: FaceMean) -> None:
        faces = faces_of(grid)
        number = np.full(grid.size, -1)
        number[faces.unknown] = np.arange(len(faces.unknown))
        entering = (number[faces.first] >= 0) | (number[faces.second] >= 0)
        self.grid, self.mean = grid, mean
        self.unknown = faces.unknown
        self.volume = faces.volume
        self.first, self.second = faces.first[entering], faces.second[entering]
        self.shape_factor = (faces.area / faces.distance)[entering]
        differences = _differences(self.first, self.second, grid.size)
        #: D, from free nodes to entering faces.
        self.differences = differences[:, faces.unknown].tocsr()
        #: From all nodes to all faces, with their areas and distances: what regularisers look at.
        self.jumps = _differences(faces.first, faces.second, grid.size)
        self.area, self.distance = faces.area, faces.distance
        self.checkerboard = Checkerboard(grid, mean)

    def conductance(self, log_permeability: Float[np.ndarray, " node"]) -> Float[np.ndarray, " face"]:
        """Flow through every entering face per unit of pressure difference."""
        permeability = np.exp(log_permeability)
        return self.mean(permeability[self.first], permeability[self.second]) * self.shape_factor

    def slopes(self, log_permeability: Float[np.ndarray, " node"]) -> sparse.csr_array:
        """∂ conductance / ∂ log b, faces × nodes: two entries per face, by a complex step through the mean."""
        permeability = np.exp(log_permeability)
        first, second = permeability[self.first], permeability[self.second]
        turned = 1 + 1j * STEP
        values = [self.mean(first * turned, second), self.mean(first, second * turned)]
        entries = np.concatenate([value.imag / STEP * self.shape_factor for value in values])
        rows = np.tile(np.arange(len(first)), 2)
        columns = np.concatenate([self.first, self.second])
        return sparse.csr_array((entries, (rows, columns)), shape=(len(first), self.grid.size))


@lru_cache(maxsize=8)
def face_map(grid: Grid, mean: FaceMean) -> FaceMap:
    """The map of a grid and a mean, built once."""
    return FaceMap(grid, mean)


def _differences(first: np.ndarray, second: np.ndarray, nodes: int) -> sparse.csr_array:
    count = len(first)
    entries = np.concatenate([np.ones(count), -np.ones(count)])
    places = (np.tile(np.arange(count), 2), np.concatenate([first, second]))
    return sparse.csr_array((entries, places), shape=(count, nodes))

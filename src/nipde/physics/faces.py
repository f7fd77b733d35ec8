"""Finite volumes around grid nodes: every pair of neighbours shares a face, and balance laws are sums over faces.

A node's cell is its quadrature weight, a face's area the product of the other axes' weights; what leaves one cell
through a face enters the next, so every operator assembled here conserves exactly.
"""

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float, Int
from scipy.sparse.linalg import splu

from nipde.grid import Grid


@dataclass(frozen=True)
class FaceMean(ABC):
    """How a coefficient known at two nodes acts on the face between them."""

    @abstractmethod
    def __call__(
        self, first: Float[np.ndarray, " face"], second: Float[np.ndarray, " face"]
    ) -> Float[np.ndarray, " face"]:
        """Value on the face."""


@dataclass(frozen=True)
class Harmonic(FaceMean):
    """2ab/(a+b): two resistors in series, which keeps the flux continuous across a phase jump."""

    def __call__(
        self, first: Float[np.ndarray, " face"], second: Float[np.ndarray, " face"]
    ) -> Float[np.ndarray, " face"]:
        """Harmonic mean."""
        return 2 * first * second / (first + second)


@dataclass(frozen=True)
class Arithmetic(FaceMean):
    """(a+b)/2: what many published data sets used."""

    def __call__(
        self, first: Float[np.ndarray, " face"], second: Float[np.ndarray, " face"]
    ) -> Float[np.ndarray, " face"]:
        """Arithmetic mean."""
        return (first + second) / 2


class Faces:
    """All faces of a grid and the sparsity of any operator built from them; one per grid, see `faces_of`."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        nodes = np.arange(grid.size).reshape(grid.shape)
        first, second, area, distance, axis_of = [], [], [], [], []
        for place, axis in enumerate(grid.axes):
            keep = axis.nodes if axis.boundary.periodic else axis.nodes - 1
            left = np.take(nodes, np.arange(keep), axis=place)
            right = np.take(nodes, (np.arange(keep) + 1) % axis.nodes, axis=place)
            first.append(left.ravel())
            second.append(right.ravel())
            area.append(np.take(grid.weights / grid.along(place, axis.weights), np.arange(keep), axis=place).ravel())
            distance.append(np.full(left.size, axis.spacing))
            axis_of.append(np.full(left.size, place))
        self.first: Int[np.ndarray, " face"] = np.concatenate(first)
        self.second: Int[np.ndarray, " face"] = np.concatenate(second)
        self.area: Float[np.ndarray, " face"] = np.concatenate(area)
        self.distance: Float[np.ndarray, " face"] = np.concatenate(distance)
        self.axis: Int[np.ndarray, " face"] = np.concatenate(axis_of)
        self.unknown: Int[np.ndarray, " unknown"] = np.flatnonzero(grid.unknown)
        self._build_pattern()
        # Number the unknowns so that factors stay sparse, once for all systems on this grid.
        some = self.assemble(conductance=np.ones(len(self.first))) + sparse.eye_array(len(self.unknown))
        order = splu(some.tocsc(), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}).perm_c
        self.unknown = self.unknown[np.argsort(order)]
        self._build_pattern()
        self.volume: Float[np.ndarray, " unknown"] = grid.weights.reshape(-1)[self.unknown]

    def mean(self, field: Float[np.ndarray, "*space"], mean: FaceMean) -> Float[np.ndarray, " face"]:
        """A nodal coefficient on every face."""
        flat = np.asarray(field, dtype=np.float64).reshape(-1)
        return mean(flat[self.first], flat[self.second])

    def normal_velocity(self, velocity: Float[np.ndarray, "axis *space"]) -> Float[np.ndarray, " face"]:
        """Nodal velocity across every face, positive from the first node to the second."""
        flat = np.asarray(velocity, dtype=np.float64).reshape(self.grid.dimension, -1)
        return (flat[self.axis, self.first] + flat[self.axis, self.second]) / 2

    def assemble(
        self, *, conductance: Float[np.ndarray, " face"], transport: Float[np.ndarray, " face"] | None = None
    ) -> sparse.csc_array:
        """Matrix of the outflow of every unknown's cell.

        A face lets conductance·(u_first - u_second) + transport·(u_first + u_second)/2 pass from first to second.
        """
        if transport is None:
            entries = np.concatenate([conductance, -conductance, -conductance, conductance])
        else:
            half = transport / 2
            entries = np.concatenate([conductance + half, -conductance + half, -conductance - half, conductance - half])
        matrix = copy(self._pattern)  # shares the indices, which never change
        matrix.data = self._gather @ entries
        return matrix

    def _build_pattern(self) -> None:
        """Column-compressed sparsity, and the matrix that sums face entries into it: assembling is one product."""
        number = np.full(self.grid.size, -1)
        number[self.unknown] = np.arange(len(self.unknown))
        first, second = number[self.first], number[self.second]
        rows = np.concatenate([first, first, second, second])
        columns = np.concatenate([first, second, first, second])
        entries = np.flatnonzero((rows >= 0) & (columns >= 0))
        size = len(self.unknown)
        keys, slots = np.unique(columns[entries] * size + rows[entries], return_inverse=True)
        rows = (keys % size).astype(np.int32)
        starts = np.searchsorted(keys // size, np.arange(size + 1)).astype(np.int32)
        self._pattern = sparse.csc_array((np.zeros(len(keys)), rows, starts), shape=(size, size))
        ones = np.ones(len(entries))
        self._gather = sparse.csr_array((ones, (slots, entries)), shape=(len(keys), 4 * len(self.first)))


@lru_cache(maxsize=8)
def faces_of(grid: Grid) -> Faces:
    """The faces of a grid, built once."""
    return Faces(grid)

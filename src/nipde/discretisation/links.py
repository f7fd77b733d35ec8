"""Cells and the links between them: A u = Σ_links s m(b_i, b_j) (u_i - u_j) of every cell, exact conservation.

A cell has a volume, a link joins two cells through a face and has the factor s = area / distance. Values are unknown
or given (Dirichlet): a link from an unknown cell to a given one enters A's diagonal. What leaves one cell through a
link enters the other. On a rectangle cells are the nodes' control volumes, their volumes the quadrature weights.
"""

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Bool, Float, Int
from scipy.sparse.linalg import SuperLU, splu

from nipde.grid import Grid

#: Right-hand sides that are solved together take about this much memory.
BLOCK_BYTES = 2**20
#: Unknowns over three axes up to which a matrix is factored: 11³.
FACTORED = 1331
#: Share of the resistance of a contact that remains where its node lies beyond it.
LEAST_CONTACT = 0.2
OnLinks = Float[np.ndarray, " link"]


@dataclass(frozen=True)
class FaceMean(ABC):
    """How a coefficient known in two cells acts on the face between them: ((a^p + b^p)/2)^(1/p)."""

    #: p.
    power: ClassVar[float]

    @abstractmethod
    def __call__(self, first: OnLinks, second: OnLinks) -> OnLinks:
        """Value on the face."""

    def log_slopes(self, first: OnLinks, second: OnLinks) -> tuple[OnLinks, OnLinks]:
        """∂ mean / ∂ log a and ∂ mean / ∂ log b: the mean times (a/mean)^p / 2."""
        mean = self(first, second)
        return mean * (first / mean) ** self.power / 2, mean * (second / mean) ** self.power / 2


@dataclass(frozen=True)
class Harmonic(FaceMean):
    """2ab/(a+b): two resistors in series, which keeps the flux continuous across a phase jump."""

    power = -1.0

    def __call__(self, first: OnLinks, second: OnLinks) -> OnLinks:
        """Harmonic mean."""
        return 2 * first * second / (first + second)


@dataclass(frozen=True)
class Arithmetic(FaceMean):
    """(a+b)/2: what many published data sets used."""

    power = 1.0

    def __call__(self, first: OnLinks, second: OnLinks) -> OnLinks:
        """Arithmetic mean."""
        return (first + second) / 2


class Links:
    """Cells, their links, and the sparsity of any operator built from them; of a rectangle by `links_of`.

    A terminal will be a cell of volume 0, a Dirichlet part one whose value is given.
    """

    def __init__(
        self,
        grid: Grid,
        first: Int[np.ndarray, " link"],
        second: Int[np.ndarray, " link"],
        *,
        area: OnLinks,
        distance: OnLinks,
        axis: Int[np.ndarray, " link"],
        volume: Float[np.ndarray, " cell"],
        unknown: Bool[np.ndarray, " cell"],
    ) -> None:
        self.grid, self.first, self.second = grid, first, second
        self.area, self.distance, self.axis = area, distance, axis
        #: s.
        self.factor: OnLinks = area / distance
        #: Cells whose value is unknown, in the solver's order; the others are given: 0 on a Dirichlet boundary.
        self.unknown: Int[np.ndarray, " unknown"] = np.flatnonzero(unknown)
        self._build_pattern()
        if not self.too_large:
            # Number the unknowns so that factors stay sparse, once for all systems on these cells.
            some = self.assemble(conductance=np.ones(len(first))) + sparse.eye_array(len(self.unknown))
            self.unknown = self.unknown[minimum_degree(some)]
            self._build_pattern()
        #: Volume of every unknown cell.
        self.volume: Float[np.ndarray, " unknown"] = volume[self.unknown]

    @property
    def too_large(self) -> bool:
        """For factors: over three axes they fill up."""
        return self.grid.dimension > 2 and len(self.unknown) > FACTORED

    def mean(self, field: Float[np.ndarray, "*space"], mean: FaceMean) -> OnLinks:
        """A coefficient of the cells on every link."""
        flat = np.asarray(field, dtype=np.float64).reshape(-1)
        return mean(flat[self.first], flat[self.second])

    def normal_velocity(self, velocity: Float[np.ndarray, "axis *space"]) -> OnLinks:
        """Velocity along every link, positive from the first cell to the second."""
        flat = np.asarray(velocity, dtype=np.float64).reshape(self.grid.dimension, -1)
        return (flat[self.axis, self.first] + flat[self.axis, self.second]) / 2

    @cached_property
    def difference(self) -> sparse.csr_array:
        """D from all cells to all links: u_first - u_second."""
        count = len(self.first)
        entries = np.concatenate([np.ones(count), -np.ones(count)])
        places = (np.tile(np.arange(count), 2), np.concatenate([self.first, self.second]))
        return sparse.csr_array((entries, places), shape=(count, self.grid.size))

    def assemble(self, *, conductance: OnLinks, transport: OnLinks | None = None) -> sparse.csc_array:
        """A on the unknown cells: Dᵀ diag(conductance) D + Dᵀ diag(transport) M.

        A link lets conductance·(u_first - u_second) + transport·(u_first + u_second)/2 pass from first to second.
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
        """Column-compressed sparsity, and the matrix that sums link entries into it: assembling is one product."""
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
def links_of(grid: Grid) -> Links:
    """The links between neighbouring nodes of a rectangle, built once."""
    cells = np.arange(grid.size).reshape(grid.shape)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in ("first", "second", "area", "distance", "axis")}
    for place, axis in enumerate(grid.axes):
        keep = np.arange(axis.nodes if axis.boundary.periodic else axis.nodes - 1)
        first = np.take(cells, keep, axis=place)
        parts["first"].append(first.ravel())
        parts["second"].append(np.take(cells, (keep + 1) % axis.nodes, axis=place).ravel())
        parts["area"].append(np.take(grid.weights / grid.along(place, axis.weights), keep, axis=place).ravel())
        parts["distance"].append(np.full(first.size, axis.spacing))
        parts["axis"].append(np.full(first.size, place))
    joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return Links(grid, **joined, volume=grid.weights.reshape(-1), unknown=grid.unknown.reshape(-1))


def conductances_in_series(
    resistivity: Float[np.ndarray, "link along across"], *, area: OnLinks, length: OnLinks, contact: OnLinks
) -> tuple[OnLinks, Float[np.ndarray, "link along across"]]:
    """area · mean across of 1 / (contact + length · mean along of 1/b), and its derivative by every log b."""
    series = contact[:, None] + length[:, None] * resistivity.mean(axis=1)
    # A node beyond a contact, of negative length, leaves a part of its resistance.
    least = LEAST_CONTACT * contact[:, None]
    inverse = 1 / np.maximum(series, least)
    points = resistivity.shape[1] * resistivity.shape[2]
    slopes = (inverse**2 * (series >= least) * (area * length / points)[:, None])[:, None] * resistivity
    return inverse.mean(axis=1) * area, slopes


def minimum_degree(matrix: sparse.csc_array | sparse.csr_array | sparse.coo_array) -> Int[np.ndarray, " unknown"]:
    """An order of the unknowns in which the factors of a matrix with this pattern stay sparse."""
    factors = splu(
        sparse.csc_array(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    return np.argsort(factors.perm_c)


def factorised(matrix: sparse.csc_array, *, symmetric: bool, ordered: bool = True) -> SuperLU:
    """Sparse LU factors of A; without pivoting where A is symmetric, in the order of the unknowns if that is good."""
    if symmetric:
        order: Literal["NATURAL", "MMD_AT_PLUS_A"] = "NATURAL" if ordered else "MMD_AT_PLUS_A"
        return splu(matrix, permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return splu(matrix)


def blocks(count: int, unknowns: int) -> list[slice]:
    """Right-hand sides that are solved together: they stay in the processor's cache."""
    step = max(8, BLOCK_BYTES // (8 * unknowns))
    return [slice(first, first + step) for first in range(0, count, step)]


def solved(
    factor: SuperLU, moments: Float[np.ndarray, "pair unknown"], *, transposed: bool = False
) -> Float[np.ndarray, "pair unknown"]:
    """A⁻¹ or A⁻ᵀ of cell integrals; the pairs of one block."""
    solve: Any = factor.solve  # the stubs of SciPy do not know `trans`
    return solve(moments.T, trans="T" if transposed else "N").T

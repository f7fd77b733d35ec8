"""Values between nodes: multilinear at any points; splines of degree 5, or cosines, from one grid to another.

A load that is known at the nodes of the data must reach a finer grid with an error below that of the solver, which
multilinear values have not. Splines suit smooth loads, cosines those that vary from node to node. A node alone
among zeros is a point source: its total counts, and nothing is interpolated around it.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Literal

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Bool, Float, Int
from scipy.sparse.linalg import SuperLU, splu

from nipde.errors import GridError
from nipde.grid import Axis, Grid

#: Degree of the splines.
DEGREE = 5
#: A point may lie outside the box by this share of a spacing: text files round.
OUTSIDE = 1e-6
Fields = Float[np.ndarray, "pair *space"]
Interpolation = Literal["spline", "cosine", "points"]


def multilinear(grid: Grid, points: Float[np.ndarray, "point axis"]) -> sparse.csr_array:
    """Rows of weights over the nodes, one per point; positions are measured from the first node."""
    left, share = [], []
    for axis, at in zip(grid.axes, points.T, strict=True):
        steps = at / axis.spacing
        if not np.all((steps >= -OUTSIDE) & (steps <= axis.intervals + OUTSIDE)):
            raise GridError(
                expected=f"points from 0 to {axis.length:g}", got=f"from {at.min():g} to {at.max():g}",
                remedy="give positions inside the box",
            )  # fmt: skip
        low = np.clip(np.floor(steps).astype(int), 0, axis.intervals - 1)
        left.append(low)
        share.append(np.clip(steps - low, 0, 1))
    columns, entries = [], []
    for corner in product((0, 1), repeat=grid.dimension):
        ends = [(low + end) % axis.nodes for low, end, axis in zip(left, corner, grid.axes, strict=True)]
        columns.append(np.ravel_multi_index(ends, grid.shape))
        parts = [part if end else 1 - part for part, end in zip(share, corner, strict=True)]
        entries.append(np.prod(parts, axis=0))
    rows = np.tile(np.arange(len(points)), len(columns))
    places = (rows, np.concatenate(columns))
    return sparse.csr_array((np.concatenate(entries), places), shape=(len(points), grid.size))


def moments_on(
    loads: Fields, grid: Grid, *, to: Grid, kind: Interpolation = "spline", split: bool = True,
    volume: Float[np.ndarray, "*space"] | None = None,
) -> Fields:  # fmt: skip
    """∫_cell f at the nodes of another grid on the same box: interpolated between the nodes, and point sources.

    With `points` every node is one. Without `split` none is: the map is then linear. `volume` is that of the cells.
    """
    alone = np.full(loads.shape, kind == "points")
    if split and kind != "points":
        alone = isolated(loads, grid)
    moments = np.zeros((len(loads), *to.shape))
    if kind != "points":
        moments = interpolated(np.where(alone, 0.0, loads), grid, to=to, kind=kind) * (
            to.weights if volume is None else volume
        )
    if alone.any():
        pairs, *places = np.nonzero(alone)
        points = np.stack([axis.coordinates[at] for axis, at in zip(grid.axes, places, strict=True)], axis=-1)
        totals = (loads * grid.weights)[alone]
        shares = sparse.csr_array((totals, (pairs, np.arange(len(pairs)))), shape=(len(loads), len(pairs)))
        moments += (shares @ multilinear(to, points)).toarray().reshape(moments.shape)
    return moments


def interpolated(fields: Fields, grid: Grid, *, to: Grid, kind: Interpolation = "spline") -> Fields:
    """Values at the nodes of another grid on the same box."""
    for place, (axis, other) in enumerate(zip(grid.axes, to.axes, strict=True), start=1):
        along = _matrix(axis, other.nodes, kind)
        fields = np.moveaxis(np.moveaxis(fields, place, -1) @ along.T, -1, place)
    return fields


def interpolated_transposed(fields: Fields, grid: Grid, *, to: Grid, kind: Interpolation = "spline") -> Fields:
    """The transpose of `interpolated`: from the nodes of `to` back to those of the grid."""
    for place, (axis, other) in enumerate(zip(grid.axes, to.axes, strict=True), start=1):
        fields = np.moveaxis(np.moveaxis(fields, place, -1) @ _matrix(axis, other.nodes, kind), -1, place)
    return fields


@dataclass(frozen=True, eq=False)
class Extension:
    """Fields known at some nodes, extrapolated to the others with the least second differences: E f."""

    inside: Int[np.ndarray, " known"]
    outside: Int[np.ndarray, " other"]
    #: Of the squares of second differences: between other and known nodes, and the factor among others.
    between: sparse.csr_array
    factor: SuperLU

    def __call__(self, fields: Fields) -> Fields:
        """E f; what stood at the others does not matter."""
        flat = np.array(fields, dtype=np.float64).reshape(len(fields), -1)
        flat[:, self.outside] = -self.factor.solve(np.asarray(self.between @ flat[:, self.inside].T)).T
        return flat.reshape(fields.shape)

    def transposed(self, fields: Fields) -> Fields:
        """Eᵀ f; 0 at the others."""
        flat = np.array(fields, dtype=np.float64).reshape(len(fields), -1)
        flat[:, self.inside] -= (self.between.T @ self.factor.solve(flat[:, self.outside].T)).T
        flat[:, self.outside] = 0.0
        return flat.reshape(fields.shape)


def extension_from(known: Bool[np.ndarray, "*space"], grid: Grid) -> Extension | None:
    """From these nodes of a grid to all of them; None where all are known."""
    return None if known.all() else _extension(grid, np.ascontiguousarray(known, dtype=bool).tobytes())


@lru_cache(maxsize=8)
def _extension(grid: Grid, known: bytes) -> Extension:
    mask = np.frombuffer(known, dtype=bool)
    inside, outside = np.flatnonzero(mask), np.flatnonzero(~mask)
    bending = second_differences(grid)
    form = sparse.csr_array(bending.T @ bending)
    return Extension(inside, outside, form[outside][:, inside], splu(form[outside][:, outside].tocsc()))


def second_differences(grid: Grid) -> sparse.csr_array:
    """Along every axis, one row per inner node of it."""
    rows = []
    for place, axis in enumerate(grid.axes):
        second: Any = sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(axis.nodes - 2, axis.nodes))
        if axis.boundary.periodic:
            shift = sparse.csr_array(np.roll(np.eye(axis.nodes), 1, axis=1))
            second = shift - 2 * sparse.eye_array(axis.nodes) + shift.T
        parts = [second if other == place else sparse.eye_array(one.nodes) for other, one in enumerate(grid.axes)]
        total: Any = parts[0]
        for part in parts[1:]:
            total = sparse.kron(total, part)
        rows.append(total)
    return sparse.csr_array(sparse.vstack(rows))


def isolated(loads: Fields, grid: Grid) -> Bool[np.ndarray, "pair *space"]:
    """Nodes that are not zero among zeros, alone or as the few that share a source between them."""
    alone = np.stack([_small_parts(load != 0) for load in loads])
    if any(axis.boundary.periodic for axis in grid.axes):  # what the end cuts is whole in the other half
        halves = [axis.nodes // 2 if axis.boundary.periodic else 0 for axis in grid.axes]
        places = tuple(range(grid.dimension))
        rolled = [_small_parts(np.roll(load != 0, halves, places)) for load in loads]
        alone &= np.stack([np.roll(one, [-half for half in halves], places) for one in rolled])
    return alone


def _small_parts(mask: Bool[np.ndarray, "*space"]) -> Bool[np.ndarray, "*space"]:
    """Where a mask is true in a connected part of few nodes."""
    from scipy.ndimage import label

    parts, _ = label(mask, structure=np.ones((3,) * mask.ndim))
    small = np.bincount(parts.ravel()) <= 2**mask.ndim
    small[0] = False
    return np.asarray(small[parts])


@lru_cache(maxsize=32)
def _matrix(axis: Axis, nodes: int, kind: Interpolation) -> Float[np.ndarray, "other node"]:
    """From the nodes of an axis to equally spaced positions over the same length."""
    from scipy.interpolate import make_interp_spline  # slow to import, and seldom needed

    if axis.boundary.periodic:
        places = np.arange(nodes) * (axis.intervals / nodes)
        steps, unit = np.arange(axis.nodes + 1), np.vstack([np.eye(axis.nodes), np.eye(axis.nodes)[:1]])
        degree = DEGREE if axis.nodes > DEGREE else 3
        return np.asarray(make_interp_spline(steps, unit, k=degree, bc_type="periodic")(places))
    places = np.linspace(0, axis.intervals, nodes)
    if kind == "cosine":
        old, new = (np.cos(np.pi / axis.intervals * np.outer(x, np.arange(axis.nodes)))
                    for x in (np.arange(axis.nodes), places))  # fmt: skip
        return np.asarray(np.linalg.solve(old.T, new.T).T)
    degree = min(DEGREE, (axis.nodes - 1) // 2 * 2 - 1)
    return np.asarray(make_interp_spline(np.arange(axis.nodes), np.eye(axis.nodes), k=max(1, degree))(places))

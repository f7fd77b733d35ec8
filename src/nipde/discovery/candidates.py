"""Candidate loads: patches, points and doublets that can be applied, waves to compare with, or any list.

    patch:    f = p on a box of a fifth of every side, 0 elsewhere;  p the largest |f| applied so far
    point:    ∫f = Q in the cell of one node;                        Q the largest ∫|f| applied so far
    doublet:  Q/2 at one node, -Q/2 at another half a side away
    wave:     a product of sines and cosines;                        its root mean square that of all loads so far

A pad is limited by its pressure, a pump or a pin by its total: no patch has a larger density or total than the loads so
far, no point a larger total. The sign is theirs if all had one. Centres lie on a lattice of nodes away from the sides.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.ndimage import binary_dilation
from torch import Tensor

from nipde.discretisation.interpolation import isolated
from nipde.errors import PairsError, ShapeError
from nipde.grid import Axis, Grid
from nipde.spectral.transform import transform

Loads = Float[Tensor, "pair component *space"]
Kind = Literal["patches", "points", "doublets", "waves"]
KINDS: tuple[Kind, ...] = get_args(Kind)

#: Places on the lattice of a kind, and waves, at most.
MOST = 60
#: Length of a patch along every axis, as a share of the side; two spacings at least.
PATCH = 0.2
#: Distance of points from the sides, as a share of the side.
MARGIN = 0.125


@dataclass(frozen=True, eq=False)
class Candidates:
    """Loads of one kind at the effort of those that were applied."""

    grid: Grid
    kind: Kind
    fields: Loads
    #: Where each acts, from the first node: one centre, or the two ends of a doublet; empty for waves.
    places: Float[np.ndarray, "candidate place axis"]
    #: p, Q, Q/2 or a root mean square; its sign is that of the first place.
    effort: float
    #: Lengths of a patch, 0 for the others.
    size: tuple[float, ...]


def acting_inside(candidates: Candidates, inside: Bool[np.ndarray, "*space"]) -> Candidates:
    """Those that act inside of a specimen, and on no node next to its outline."""
    around = torch.tensor(binary_dilation(~inside, np.ones((3,) * inside.ndim, dtype=bool)))
    kept = ((candidates.fields == 0) | ~around).flatten(1).all(1)
    return replace(candidates, fields=candidates.fields[kept], places=candidates.places[kept.numpy()])


def candidates_like(grid: Grid, applied: Loads, kind: Kind | None = None) -> Candidates:
    """Loads of a kind that can be applied next; None follows the loads applied so far."""
    applied = as_loads(grid, applied).cpu()
    kind = usual_kind(grid, applied) if kind is None else kind
    points = _of_points(grid, applied)
    if kind in ("points", "doublets") and bool(points.any()):
        applied = applied[points]
    fields, places = _MAKERS[kind](grid)
    sign = -1.0 if bool((applied <= 0).all()) else 1.0
    size = _patch(grid) if kind == "patches" else (0.0,) * grid.dimension
    effort = sign * _effort(grid, applied, kind)
    return Candidates(grid, kind, fields * effort, places, effort, size)


def usual_kind(grid: Grid, applied: Loads) -> Kind:
    """Points where most pairs are loaded at isolated nodes only, doublets where these have both signs; else patches."""
    loads = as_loads(grid, applied).cpu()
    points = loads[_of_points(grid, loads)].flatten(1)
    if 2 * len(points) <= len(loads):
        return "patches"
    both = (points > 0).any(1) & (points < 0).any(1)
    return "doublets" if 2 * int(both.sum()) > len(points) else "points"


def wave_loads(grid: Grid, count: int, *, components: int = 1) -> Loads:
    """The `count` longest waves, products of sines (Dirichlet), cosines or Fourier waves; root mean square 1.

    The constant, which has no response without a Dirichlet side, is left out. With several components, every wave comes
    once per component.
    """
    waves = transform(grid)
    squares = waves.squared_wavenumbers(torch.empty((), dtype=torch.float64)).flatten()
    order = squares.argsort(stable=True)
    order = order[squares[order] > 0]
    if not 1 <= count <= len(order) * components:
        raise PairsError(
            expected=f"1 to {len(order) * components} waves", got=count, remedy="use fewer, or refine the grid"
        )
    selected = order[: -(-count // components)]
    amounts = torch.zeros(len(selected), components, components, len(squares), dtype=torch.float64)
    for component in range(components):
        amounts[torch.arange(len(selected)), component, component, selected] = 1.0
    fields = waves.synthesis(amounts.reshape(-1, components, *waves.shape))[:count]
    return at_effort(grid, fields)


def at_effort(grid: Grid, loads: Any, *, effort: float = 1.0) -> Loads:
    """The same loads, each with `effort` as its root mean square over the domain, its components together."""
    loads = as_loads(grid, loads)
    size = (grid.norm(loads).square().sum(-1) / grid.volume).sqrt()
    if not bool((size > 0).all()):
        raise PairsError(expected="loads that are not zero", got="a zero load", remedy="leave it out")
    return loads * (effort / size).reshape(-1, *(1,) * (grid.dimension + 1))


def as_loads(grid: Grid, loads: Any) -> Loads:
    """Arrays or tensors as double precision fields; scalar ones may come without a component axis."""
    fields = (loads if isinstance(loads, Tensor) else torch.from_numpy(np.array(loads, dtype=np.float64))).double()
    if fields.ndim == grid.dimension + 1:
        fields = fields.unsqueeze(1)
    grid.check(fields)
    if fields.ndim != grid.dimension + 2 or not len(fields):
        raise ShapeError(
            expected="loads of one system, (pair, component, *space)", got=f"shape {tuple(fields.shape)}",
            remedy="give a list of loads without batch axes",
        )  # fmt: skip
    return fields


Made = tuple[Loads, Float[np.ndarray, "candidate place axis"]]


def _patches(grid: Grid) -> Made:
    """Density 1 on a box: every node has the share of its cell that the box covers, so that ∫f is exact."""
    lengths = _patch(grid)
    margins = [
        length / 2 + axis.spacing * axis.boundary.essential for axis, length in zip(grid.axes, lengths, strict=True)
    ]
    centres = _lattice(grid, margins)
    fields = [
        reduce(np.multiply.outer, [_covered(axis, x - length / 2, x + length / 2)
                                   for axis, x, length in zip(grid.axes, centre, lengths, strict=True)])
        for centre in centres
    ]  # fmt: skip
    return torch.tensor(np.stack(fields))[:, None], centres[:, None]


def _points(grid: Grid) -> Made:
    """Total 1 in the cell of one node."""
    nodes = _lattice(grid, [MARGIN * axis.length for axis in grid.axes])
    return _sources(grid, nodes)[:, None], nodes[:, None]


def _doublets(grid: Grid) -> Made:
    """Total 1 at a node and -1 at another, half a side further along one axis."""
    nodes = _lattice(grid, [MARGIN * axis.length for axis in grid.axes])
    ends = [
        (first, second)
        for first, second in product(nodes, nodes)
        for place, axis in enumerate(grid.axes)
        if abs(second[place] - first[place] - axis.length / 2) < axis.spacing
        and np.array_equal(np.delete(first, place), np.delete(second, place))
    ]
    if not ends:
        raise PairsError(expected="a grid with room for doublets", got=str(grid), remedy="use points")
    places = np.array(ends)
    return (_sources(grid, places[:, 0]) - _sources(grid, places[:, 1]))[:, None], places


def _waves(grid: Grid) -> Made:
    fields = wave_loads(grid, min(MOST, int(grid.unknown.sum()) - 1))
    return fields, np.zeros((len(fields), 0, grid.dimension))


_MAKERS: dict[Kind, Callable[[Grid], Made]] = {
    "patches": _patches, "points": _points, "doublets": _doublets, "waves": _waves,
}  # fmt: skip


def _of_points(grid: Grid, loads: Loads) -> Bool[Tensor, " pair"]:
    """Pairs that are loaded at isolated nodes only."""
    fields = loads[:, 0].numpy()
    return torch.tensor((isolated(fields, grid) | (fields == 0)).reshape(len(fields), -1).all(1)) & loads.flatten(
        1
    ).any(1)


def _effort(grid: Grid, applied: Loads, kind: Kind) -> float:
    if kind == "waves":
        return float(applied.square().mean().sqrt())
    total = float(grid.integrate(applied.abs()).max())
    if kind == "patches":
        return min(float(applied.abs().max()), total / float(np.prod(_patch(grid))))
    return total / (2 if kind == "doublets" else 1)


def _lattice(grid: Grid, margins: list[float]) -> Float[np.ndarray, "place axis"]:
    """Nodes nearest to equally spaced positions that keep a margin to the sides; at most `MOST`."""
    count = int(MOST ** (1 / grid.dimension) + 1e-9)
    along = []
    for axis, margin in zip(grid.axes, margins, strict=True):
        wanted = np.linspace(margin, axis.length - margin, count) if 2 * margin < axis.length else [axis.length / 2]
        nodes = np.unique(np.round(np.asarray(wanted) / axis.spacing).astype(int))
        along.append(axis.coordinates[nodes[axis.unknown[nodes]]])
    return np.array(list(product(*along)))


def _patch(grid: Grid) -> tuple[float, ...]:
    return tuple(max(PATCH * axis.length, 2 * axis.spacing) for axis in grid.axes)


def _covered(axis: Axis, low: float, high: float) -> Float[np.ndarray, " node"]:
    """Share of every node's cell between two positions."""
    ends = axis.coordinates[:, None] + axis.spacing / 2 * np.array([-1, 1])
    if not axis.boundary.periodic:
        ends = np.clip(ends, 0, axis.length)
    shifts = (0.0, axis.length) if axis.boundary.periodic else (0.0,)  # the first cell is cut by the end
    parts = [np.minimum(ends[:, 1] + shift, high) - np.maximum(ends[:, 0] + shift, low) for shift in shifts]
    return np.clip(parts, 0, None).sum(0) / (ends[:, 1] - ends[:, 0])


def _sources(grid: Grid, positions: Float[np.ndarray, "pair axis"]) -> Float[Tensor, "pair *space"]:
    """1 / volume of the cell at the node nearest to every position."""
    nodes = tuple(np.round(positions / np.array(grid.spacing)).astype(int).T)
    fields = np.zeros((len(positions), *grid.shape))
    fields[(np.arange(len(positions)), *nodes)] = 1 / grid.weights[nodes]
    return torch.tensor(fields)

"""Step 5, grid: values at points to nodes of a grid; reordered if the points are nodes, else linear between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from nipde.boundary import Boundary
from nipde.discretisation.interpolation import extension_from
from nipde.errors import MeasurementError
from nipde.grid import AXES, Axis, Grid
from nipde.measurements.description import Description
from nipde.measurements.locate import place_words
from nipde.measurements.measurement import Note
from nipde.measurements.outline import Outline
from nipde.measurements.point_data import PointData

#: A point is a node if it is off by less than this share of a spacing; text files round.
OFF_NODE = 1e-3
#: Least share of the nodes of a lattice that must be there for it to be one.
FILLED = 0.4
#: A node is measured if a measured point is closer than so many mean distances of points.
REACH = 1.5
#: A grid of more nodes is a slip of the box or of a unit: one field alone would take 160 MB.
MOST_NODES = 20_000_000


@dataclass(frozen=True)
class Lattice:
    """Equally spaced points in a box, along each axis: the first, the spacing, how many."""

    first: tuple[float, ...]
    spacing: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Gridded:
    """Fields at the nodes; responses are 0 where nothing was measured."""

    grid: Grid
    #: Position of the first node.
    origin: tuple[float, ...]
    response: Float[np.ndarray, "pair component *space"]
    mask: Bool[np.ndarray, "pair component *space"]
    load: Float[np.ndarray, "pair component *space"] | None
    #: Whether values were interpolated.
    interpolated: bool
    #: Nodes beyond the points, where a load is that of the nearest one.
    load_extended: int = 0
    #: Points that lie outside the box.
    outside: int = 0


def to_grid(
    data: Sequence[PointData], description: Description, *, length: Float[np.ndarray, " axis"],
    outline: Outline | None = None,
) -> tuple[Gridded, list[Note]]:  # fmt: skip
    """All pairs on one grid; `length` converts the description's box to the unit of the points.

    With the `outline` of a specimen, the grid lies around it, and loads go on from the points to all nodes.
    """
    box = [(first * one, last * one) for (first, last), one in zip(description.box, length, strict=False)]
    points = np.concatenate(list({one.points.tobytes(): one.points for one in data}.values()))  # each set once
    nodes, boundaries = description.node_counts, description.boundaries
    if outline is None or box:
        grid, origin = choose_grid(points, nodes=nodes, box=box, boundaries=boundaries)
    else:
        lattice = None if len(points) < 3 else find_lattice(points)
        first, spacing = (None, None) if lattice is None else (lattice.first, lattice.spacing)
        grid, origin = outline.grid_around(first=first, spacing=spacing, nodes=nodes, boundaries=boundaries)
    parts = [put_on_grid(one, grid, origin=origin, extend=outline is not None) for one in data]
    for name in ("response", "load"):
        counts = {field.shape[1] for part in parts if (field := getattr(part, name)) is not None}
        if len(counts) > 1:
            raise MeasurementError(
                f"files differ in components of the {name}", expected="as many in each", got=sorted(counts),
                remedy="name the same arrays in all of them",
            )  # fmt: skip
    loads = [part.load for part in parts if part.load is not None]
    gridded = replace(
        parts[0],
        response=np.concatenate([part.response for part in parts]),
        mask=np.concatenate([part.mask for part in parts]),
        load=np.concatenate(loads) if loads else None,
        interpolated=any(part.interpolated for part in parts),
        load_extended=max(part.load_extended for part in parts),
        outside=max(part.outside for part in parts),
    )
    if not gridded.mask.any():
        raise MeasurementError(
            "no node has a measured response", expected="points near the nodes", got="none",
            remedy="give fewer nodes, or the box of the points",
        )  # fmt: skip
    return gridded, _notes(gridded)


def find_lattice(points: Float[np.ndarray, "point axis"]) -> Lattice | None:
    """The lattice that the points are nodes of, in any order and with holes, if there is one."""
    lines = [_equally_spaced(values) for values in points.T]
    if any(line is None for line in lines):
        return None
    lattice = Lattice(*zip(*lines, strict=True))
    steps = np.rint((points - lattice.first) / lattice.spacing).astype(int)
    present = len(np.unique(steps @ np.cumprod([1, *lattice.counts[:-1]])))
    return lattice if present >= FILLED * np.prod(lattice.counts) else None


def choose_grid(
    points: Float[np.ndarray, "point axis"],
    *,
    nodes: tuple[int, ...] | None,
    box: Sequence[tuple[float, float]],
    boundaries: tuple[Boundary, ...],
) -> tuple[Grid, tuple[float, ...]]:
    """The grid of so many nodes, or that of the lattice of the points; and the position of its first node."""
    _check_spread(points)
    lattice = find_lattice(points)
    axes, origin = [], []
    for place, boundary in enumerate(boundaries):
        if box:
            first, last = box[place]
        else:
            first, last = float(points[:, place].min()), float(points[:, place].max())
            if boundary.periodic and lattice:
                last += lattice.spacing[place]
        if nodes is not None:
            count = nodes[place]
        elif lattice is None:
            raise _scattered(points)
        else:
            count = _count(last - first, lattice.spacing[place], AXES[place]) + (not boundary.periodic)
        if count < 3:
            raise MeasurementError(
                f"axis {AXES[place]}", expected="at least 3 nodes", got=count, remedy="measure at more points"
            )
        axes.append(Axis(count, last - first, boundary))
        origin.append(first)
    if (size := math.prod(axis.nodes for axis in axes)) > MOST_NODES:
        raise MeasurementError(
            "grid is too large", expected=f"at most {MOST_NODES:,} nodes", got=f"{size:.3g} for {len(points)} points",
            remedy="give fewer nodes, or a box that fits the points",
        )  # fmt: skip
    return Grid(tuple(axes)), tuple(origin)


def put_on_grid(data: PointData, grid: Grid, *, origin: tuple[float, ...], extend: bool = False) -> Gridded:
    """Pairs at points to the nodes of a grid whose first one is at `origin`; `extend` loads to nodes without one."""
    steps = (data.points - origin) / grid.spacing
    nearest = np.rint(steps).astype(int)
    inside = np.all((steps > -OFF_NODE) & (steps < np.array(grid.shape) - 1 + OFF_NODE), axis=1)
    if not inside.any():
        raise MeasurementError(
            "no point lies in the box", expected=f"positions from {place_words(origin)}",
            got=f"positions from {place_words(data.points.min(0))} to {place_words(data.points.max(0))}",
            remedy="give the box in the unit of the coordinates",
        )  # fmt: skip
    if np.abs(steps - nearest)[inside].max() < OFF_NODE:
        return _reordered(data, grid, origin, nearest, inside, extend=extend)
    return _interpolated(data, grid, origin, extend=extend)


def _notes(gridded: Gridded) -> list[Note]:
    text = "Points are the nodes: values were put in order and not changed."
    if gridded.interpolated:
        text = "Points are scattered: estimators take values linear between them."
        if gridded.grid.dimension < 3:
            text = "Points are scattered: output error takes them as they are; maps and other estimators, linear "
            text += "between them."
    notes = [Note("reading", text)]
    if beyond := gridded.load_extended:
        kind: Literal["reading", "warning"] = "warning" if beyond > 0.1 * gridded.grid.size else "reading"
        notes.append(Note(kind, f"{beyond} nodes lie beyond the points: load of the nearest point."))
    if gridded.outside:
        notes.append(Note("warning", f"{gridded.outside} points lie outside the box and were left out."))
    return notes


def _reordered(
    data: PointData, grid: Grid, origin: tuple[float, ...], nodes: np.ndarray, inside: np.ndarray, *, extend: bool
) -> Gridded:
    """Every point is a node: nothing is changed but the order."""
    flat = np.ravel_multi_index(tuple(nodes[inside].T), grid.shape)
    order, counts = np.unique(flat, return_counts=True)
    if counts.max() > 1:
        twice = data.points[inside][flat == order[counts > 1][0]][0]
        raise MeasurementError(
            "points occur more than once", expected="one value for each point and pair",
            got=f"{int(np.sum(counts > 1))} points twice, the first at {place_words(twice)}",
            remedy="keep one line of each, or number the pairs in a column 'pair' if they are of several",
        )  # fmt: skip
    if data.load is not None and len(flat) < grid.size and not extend:
        hole = np.setdiff1d(np.arange(grid.size), flat)
        first = np.array([x.flat[hole[0]] for x in grid.coordinates]) + origin
        raise MeasurementError(
            "load has gaps", expected=f"a value at each of {grid.size} nodes",
            got=f"none at {len(hole)} of them, the first at {place_words(first)}",
            remedy="keep rows whose response is missing and leave only that empty, or describe the loads",
        )  # fmt: skip

    def placed(values: np.ndarray) -> np.ndarray:
        field = np.zeros((*values.shape[:2], grid.size), dtype=values.dtype)
        field[:, :, flat] = values[:, :, inside]
        return field.reshape(*values.shape[:2], *grid.shape)

    load = None if data.load is None else placed(data.load)
    if load is not None and extend:
        load = _extended(load, np.isin(np.arange(grid.size), flat), grid)
    return Gridded(
        grid,
        origin,
        response=placed(np.where(data.valid, data.response, 0.0)),
        mask=placed(data.valid),
        load=load,
        interpolated=False,
        outside=int(np.sum(~inside)),
    )


def _extended(load: np.ndarray, known: Bool[np.ndarray, " node"], grid: Grid) -> np.ndarray:
    """With the least second differences beyond the nodes that are known."""
    extension = extension_from(known.reshape(grid.shape), grid)
    return load if extension is None else extension(load.reshape(-1, *grid.shape)).reshape(load.shape)


def _interpolated(data: PointData, grid: Grid, origin: tuple[float, ...], *, extend: bool) -> Gridded:
    """Linear on triangles between measured points; no value where none of them is near, or beyond all of them."""
    lengths = np.array([axis.length for axis in grid.axes])
    nodes = np.stack([x.ravel() for x in grid.coordinates], axis=1)
    points = data.points - origin
    shape = data.response.shape[:2]
    rows, valid = (array.reshape(-1, len(points)) for array in (data.response, data.valid))
    response, mask = np.zeros((len(rows), grid.size)), np.zeros((len(rows), grid.size), dtype=bool)
    # Rows with the same gaps share one triangulation; triangles are those of a unit box, distances physical.
    patterns, pattern_of = np.unique(valid, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        if pattern.sum() > grid.dimension:
            members = pattern_of.ravel() == number
            values = _linear(points[pattern] / lengths, rows[members][:, pattern], nodes / lengths)
            distances, _ = _neighbours(points[pattern], nodes)
            mask[members] = (distances <= REACH * _mean_distance(points)) & np.isfinite(values[0])
            response[members] = np.where(mask[members], values, 0.0)
    load, beyond = None, np.zeros(0, dtype=bool)
    if data.load is not None:
        known = data.load.reshape(-1, len(points))
        values = _linear(points / lengths, known, nodes / lengths)
        beyond = ~np.isfinite(values[0])
        values[:, beyond] = known[:, _neighbours(points, nodes[beyond])[1]]
        load = values.reshape(*data.load.shape[:2], *grid.shape)
        if extend:
            load, beyond = _extended(load, ~beyond, grid), beyond & False
    return Gridded(
        grid,
        origin,
        response=response.reshape(*shape, *grid.shape),
        mask=mask.reshape(*shape, *grid.shape),
        load=load,
        interpolated=True,
        load_extended=int(beyond.sum()),
    )


def _check_spread(points: Float[np.ndarray, "point axis"]) -> None:
    """Raise unless the points span a box: some extent along every axis, and one that is a number."""
    finite, got = np.isfinite(points).all(axis=1), ""
    if not len(points):
        got = "none"
    elif not finite.all():
        got = f"{int(np.sum(~finite))} of {len(points)} without"
    else:
        low, high = points.min(axis=0), points.max(axis=0)
        with np.errstate(over="ignore"):
            extent = high - low
        if not np.isfinite(extent).all():
            got = f"from {place_words(low)} to {place_words(high)}"
        elif not extent.all():
            alike = zip(AXES, low, extent, strict=False)
            got = f"{', '.join(f'{name} = {at:g}' for name, at, size in alike if not size)} at all {len(points)} points"
    if got:
        raise MeasurementError(
            "points do not span a box", expected="finite positions that differ along every axis", got=got,
            remedy="check which columns hold the coordinates, and their unit",
        )  # fmt: skip


def _equally_spaced(values: Float[np.ndarray, " point"]) -> tuple[float, float, int] | None:
    """First, spacing and number of equally spaced positions, if the values lie on such."""
    ordered = np.sort(values)
    extent = ordered[-1] - ordered[0]
    if not extent > 0:
        return None
    # Positions of a lattice are further apart than this, and rounding moves a point by much less.
    new = np.diff(ordered) > extent / (2 * len(ordered))
    starts = np.flatnonzero(np.concatenate([[True], new]))
    if len(starts) < 2:
        return None
    means = np.add.reduceat(ordered, starts) / np.diff([*starts, len(ordered)])
    steps = np.concatenate([[0], np.rint(np.diff(means) / np.diff(means).min()).astype(int).cumsum()])
    if not 2 <= steps[-1] <= len(values):
        return None
    spacing = (means[-1] - means[0]) / steps[-1]
    exact = means[0] + spacing * steps
    if np.abs(ordered - exact[np.concatenate([[0], np.cumsum(new)])]).max() > OFF_NODE * spacing:
        return None
    return float(means[0]), float(spacing), int(steps[-1]) + 1


def _count(length: float, spacing: float, axis: str) -> int:
    """How many spacings of the points fit into the box."""
    steps = round(length / spacing)
    if abs(steps * spacing - length) > OFF_NODE * spacing:
        raise MeasurementError(
            f"box along axis {axis}", expected=f"a whole number of the points' spacings {spacing:g}",
            got=f"a length of {length:g}", remedy="give nodes=",
        )  # fmt: skip
    return steps


def _linear(points: np.ndarray, values: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Rows of values at the targets; NaN beyond the points."""
    from scipy.interpolate import LinearNDInterpolator
    from scipy.spatial import QhullError

    if points.shape[1] == 1:
        order = np.argsort(points[:, 0])
        line, at = points[order, 0], targets[:, 0]
        return np.stack([np.interp(at, line, row[order], left=np.nan, right=np.nan) for row in values])
    try:
        return np.asarray(LinearNDInterpolator(points, values.T)(targets)).T
    except QhullError as error:
        raise MeasurementError(
            "points cannot be connected by triangles", expected="points that do not lie on one line",
            got=f"{len(points)} points", remedy="check which columns hold the coordinates",
        ) from error  # fmt: skip


def _neighbours(points: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance and number of the point nearest to each target."""
    from scipy.spatial import cKDTree

    distances, numbers = cKDTree(points).query(targets)
    return np.asarray(distances), np.asarray(numbers)


def _mean_distance(points: np.ndarray) -> float:
    """Of neighbours, were the points spread uniformly over their box."""
    # Roots first: products of very small or large extents are no numbers.
    root = 1 / points.shape[1]
    return float(np.prod(np.ptp(points, axis=0) ** root) / len(points) ** root)


def _scattered(points: np.ndarray) -> MeasurementError:
    suited = [max(3, round(float(side / _mean_distance(points))) + 1) for side in np.ptp(points, axis=0)]
    return MeasurementError(
        "points are not the nodes of a lattice", expected="the number of nodes to interpolate to", got="none",
        remedy=f"give nodes={suited}, which suits {len(points)} points",
    )  # fmt: skip

"""Values at points to values at the nodes of a grid: reordered if the points are nodes, else linear between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from nipde.boundary import Boundary
from nipde.errors import MeasurementError
from nipde.grid import AXES, Axis, Grid

#: A point is a node if it is off by less than this share of a spacing; text files round.
OFF_NODE = 1e-3
#: Least share of the nodes of a lattice that must be there for it to be one.
FILLED = 0.4
#: A node is measured if a measured point is closer than so many mean distances of points.
REACH = 1.5
#: A grid of more nodes is a slip of the box or of a unit: one field alone would take 160 MB.
MOST_NODES = 20_000_000


@dataclass(frozen=True, eq=False)
class Cloud:
    """Pairs measured at the same points, as one file or one part of a long table holds them."""

    where: Float[np.ndarray, "point axis"]
    response: Float[np.ndarray, "pair component point"]
    valid: Bool[np.ndarray, "pair component point"]
    load: Float[np.ndarray, "pair component point"] | None = None


@dataclass(frozen=True)
class Lattice:
    """Equally spaced points in a box, along each axis: the first, the spacing, how many."""

    first: tuple[float, ...]
    spacing: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Gridded:
    """Fields at the nodes; responses are 0 where nothing was measured."""

    response: Float[np.ndarray, "pair component *space"]
    mask: Bool[np.ndarray, "pair component *space"]
    load: Float[np.ndarray, "pair component *space"] | None
    #: Whether values were interpolated.
    interpolated: bool
    #: Nodes beyond the points, where a load is that of the nearest one.
    load_extended: int = 0
    #: Points that lie outside the box.
    outside: int = 0


def find_lattice(where: Float[np.ndarray, "point axis"]) -> Lattice | None:
    """The lattice that the points are nodes of, in any order and with holes, if there is one."""
    parts = []
    for values in where.T:
        part = _levels(values)
        if part is None:
            return None
        parts.append(part)
    lattice = Lattice(*(tuple(part[k] for part in parts) for k in range(3)))  # type: ignore[arg-type]
    steps = np.rint((where - lattice.first) / lattice.spacing).astype(int)
    present = len(np.unique(steps @ np.cumprod([1, *lattice.counts[:-1]])))
    return lattice if present >= FILLED * np.prod(lattice.counts) else None


def choose_grid(
    where: Float[np.ndarray, "point axis"],
    *,
    nodes: tuple[int, ...] | None,
    box: Sequence[tuple[float, float]],
    boundaries: tuple[Boundary, ...],
) -> tuple[Grid, tuple[float, ...]]:
    """The grid that was asked for, or that of the lattice of the points; and the position of its first node."""
    _check_spread(where)
    lattice = find_lattice(where)
    axes, origin = [], []
    for place, boundary in enumerate(boundaries):
        spacing = lattice.spacing[place] if lattice else None
        if box:
            first, last = box[place]
        else:
            first, last = float(where[:, place].min()), float(where[:, place].max())
            if boundary.periodic and lattice:
                last += lattice.spacing[place]
        length = last - first
        if nodes is not None:
            count = nodes[place]
        elif spacing is None:
            raise _scattered(where)
        else:
            steps = round(length / spacing)
            if abs(steps * spacing - length) > OFF_NODE * spacing:
                raise MeasurementError(
                    f"box along axis {'xyz'[place]}", expected=f"a whole number of the points' spacings {spacing:g}",
                    got=f"a length of {length:g}", remedy="give nodes=",
                )  # fmt: skip
            count = steps if boundary.periodic else steps + 1
        if count < 3:
            raise MeasurementError(
                f"axis {'xyz'[place]}", expected="at least 3 nodes", got=count, remedy="measure at more points"
            )
        axes.append(Axis(count, length, boundary))
        origin.append(first)
    if (size := math.prod(axis.nodes for axis in axes)) > MOST_NODES:
        raise MeasurementError(
            "grid is too large", expected=f"at most {MOST_NODES:,} nodes", got=f"{size:.3g} for {len(where)} points",
            remedy="give fewer nodes, or a box that fits the points",
        )  # fmt: skip
    return Grid(tuple(axes)), tuple(origin)


def put_on_grid(cloud: Cloud, grid: Grid, *, origin: tuple[float, ...]) -> Gridded:
    """The pairs of a cloud at the nodes of a grid whose first one is at `origin`."""
    steps = (cloud.where - origin) / grid.spacing
    nearest = np.rint(steps).astype(int)
    inside = np.all((steps > -OFF_NODE) & (steps < np.array(_ends(grid)) + OFF_NODE), axis=1)
    if not inside.any():
        raise MeasurementError(
            "no point lies in the box", expected=f"positions from {place_words(origin)}",
            got=f"positions from {place_words(cloud.where.min(0))} to {place_words(cloud.where.max(0))}",
            remedy="give the box in the unit of the coordinates",
        )  # fmt: skip
    if np.abs(steps - nearest)[inside].max() < OFF_NODE:
        return _reordered(cloud, grid, origin, nearest, inside)
    return _interpolated(cloud, grid, origin)


def place_words(position: Sequence[float] | np.ndarray) -> str:
    """A position as text."""
    return ", ".join(f"{name} = {value:g}" for name, value in zip(AXES, position, strict=False))


def _ends(grid: Grid) -> list[int]:
    return [axis.nodes - 1 for axis in grid.axes]


def _reordered(cloud: Cloud, grid: Grid, origin: tuple[float, ...], nodes: np.ndarray, inside: np.ndarray) -> Gridded:
    """Every point is a node: nothing is changed but the order."""
    flat = np.ravel_multi_index(tuple(nodes[inside].T), grid.shape)
    order, counts = np.unique(flat, return_counts=True)
    if counts.max() > 1:
        twice = cloud.where[inside][flat == order[counts > 1][0]][0]
        raise MeasurementError(
            "points occur more than once", expected="one value for each point and pair",
            got=f"{int(np.sum(counts > 1))} points twice, the first at {place_words(twice)}",
            remedy="keep one line of each, or number the pairs in a column 'pair' if they are of several",
        )  # fmt: skip

    def placed(values: np.ndarray) -> np.ndarray:
        out = np.zeros((*values.shape[:2], grid.size), dtype=values.dtype)
        out[:, :, flat] = values[:, :, inside]
        return out.reshape(*values.shape[:2], *grid.shape)

    if cloud.load is not None and len(flat) < grid.size:
        hole = np.setdiff1d(np.arange(grid.size), flat)
        first = np.array([x.flat[hole[0]] for x in grid.coordinates]) + origin
        raise MeasurementError(
            "load has gaps", expected=f"a value at each of {grid.size} nodes",
            got=f"none at {len(hole)} of them, the first at {place_words(first)}",
            remedy="keep rows whose response is missing and leave only that empty, or describe the loads",
        )  # fmt: skip
    return Gridded(
        response=placed(np.where(cloud.valid, cloud.response, 0.0)),
        mask=placed(cloud.valid),
        load=None if cloud.load is None else placed(cloud.load),
        interpolated=False,
        outside=int(np.sum(~inside)),
    )


def _interpolated(cloud: Cloud, grid: Grid, origin: tuple[float, ...]) -> Gridded:
    """Linear on triangles between measured points; no value where none of them is near, or beyond all of them."""
    lengths = np.array([axis.length for axis in grid.axes])
    places = (cloud.where - origin) / lengths
    targets = np.stack([x.ravel() for x in grid.coordinates], axis=1) / lengths
    # Distances are physical ones: unit boxes of long specimens would stretch them.
    reach = REACH * _mean_distance(cloud.where)
    pairs, components, _ = cloud.response.shape
    response = np.zeros((pairs, components, grid.size))
    mask = np.zeros((pairs, components, grid.size), dtype=bool)
    for pattern, members in _by_pattern(cloud.valid.reshape(pairs * components, -1)):
        if pattern.sum() <= grid.dimension:
            continue
        values = cloud.response.reshape(pairs * components, -1)[members][:, pattern]
        found = _linear(places[pattern], values, targets)
        near = _distances(places[pattern] * lengths, targets * lengths) <= reach
        there = near & np.isfinite(found[0])
        response.reshape(pairs * components, -1)[members] = np.where(there, found, 0.0)
        mask.reshape(pairs * components, -1)[members] = there
    load, extended = None, 0
    if cloud.load is not None:
        flat = cloud.load.reshape(-1, cloud.load.shape[-1])
        found = _linear(places, flat, targets)
        beyond = ~np.isfinite(found[0])
        found[:, beyond] = flat[:, _nearest(places * lengths, targets[beyond] * lengths)]
        load, extended = found.reshape(*cloud.load.shape[:2], *grid.shape), int(beyond.sum())
    shape = (pairs, components, *grid.shape)
    return Gridded(response.reshape(shape), mask.reshape(shape), load, interpolated=True, load_extended=extended)


def _check_spread(where: Float[np.ndarray, "point axis"]) -> None:
    """Raise unless the points span a box: some extent along every axis, and one that is a number."""
    if not len(where) or not np.isfinite(where).all():
        got = "none" if not len(where) else f"{int(np.sum(~np.isfinite(where).all(axis=1)))} of {len(where)} without"
        raise MeasurementError(
            "positions of the points", expected="a finite number along each axis", got=got,
            remedy="check which columns hold the coordinates, and their unit",
        )  # fmt: skip
    low, high = where.min(axis=0), where.max(axis=0)
    with np.errstate(over="ignore"):
        extent = high - low
    if not np.isfinite(extent).all():
        raise MeasurementError(
            "points are too far apart", expected="extents that are finite numbers",
            got=f"from {place_words(low)} to {place_words(high)}", remedy="look for a wrong position among them",
        )  # fmt: skip
    if not (extent > 0).all():
        alike = ", ".join(f"{name} = {at:g}" for name, at, size in zip(AXES, low, extent, strict=False) if not size)
        raise MeasurementError(
            "points are all alike" if not extent.any() else "points lie on one line or plane",
            expected="positions that differ along every axis", got=f"{alike} at all {len(where)} points",
            remedy="check which columns hold the coordinates",
        )  # fmt: skip


def _levels(values: Float[np.ndarray, " point"]) -> tuple[float, float, int] | None:
    """First, spacing and number of equally spaced levels, if the values lie on such."""
    ordered = np.sort(values)
    extent = ordered[-1] - ordered[0]
    if not extent > 0:
        return None
    # Levels of a lattice are further apart than this, and rounding moves a point by much less.
    new = np.diff(ordered) > extent / (2 * len(ordered))
    starts = np.flatnonzero(np.concatenate([[True], new]))
    levels = np.add.reduceat(ordered, starts) / np.diff([*starts, len(ordered)])
    steps = np.rint(np.diff(levels) / np.diff(levels).min()).astype(int) if len(levels) > 1 else np.array([], dtype=int)
    total = int(steps.sum())
    if total < 2 or total > len(values):
        return None
    spacing = (levels[-1] - levels[0]) / total
    exact = levels[0] + spacing * np.concatenate([[0], np.cumsum(steps)])
    level = np.concatenate([[0], np.cumsum(new)])
    if np.abs(ordered - exact[level]).max() > OFF_NODE * spacing:
        return None
    return float(levels[0]), float(spacing), total + 1


def _linear(places: np.ndarray, values: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Rows of values at the targets; NaN beyond the points."""
    from scipy.interpolate import LinearNDInterpolator

    if places.shape[1] == 1:
        order = np.argsort(places[:, 0])
        line, at = places[order, 0], targets[:, 0]
        return np.stack([np.interp(at, line, row[order], left=np.nan, right=np.nan) for row in values])
    from scipy.spatial import QhullError

    try:
        return np.asarray(LinearNDInterpolator(places, values.T)(targets)).T
    except QhullError as error:
        raise MeasurementError(
            "points cannot be connected by triangles", expected="points that do not lie on one line",
            got=f"{len(places)} points", remedy="check which columns hold the coordinates",
        ) from error  # fmt: skip


def _by_pattern(valid: Bool[np.ndarray, "row point"]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows with the same gaps share one triangulation."""
    patterns, member = np.unique(valid, axis=0, return_inverse=True)
    return [(pattern, np.flatnonzero(member.ravel() == k)) for k, pattern in enumerate(patterns)]


def _mean_distance(where: np.ndarray) -> float:
    """Of neighbours, were the points spread evenly over their box."""
    # Roots first: products of very small or large extents are no numbers.
    root = 1 / where.shape[1]
    return float(np.prod(np.ptp(where, axis=0) ** root) / len(where) ** root)


def _distances(places: np.ndarray, targets: np.ndarray) -> np.ndarray:
    from scipy.spatial import cKDTree

    return np.asarray(cKDTree(places).query(targets)[0])


def _nearest(places: np.ndarray, targets: np.ndarray) -> np.ndarray:
    from scipy.spatial import cKDTree

    return np.asarray(cKDTree(places).query(targets)[1])


def _scattered(where: np.ndarray) -> MeasurementError:
    extent = np.ptp(where, axis=0)
    suited = [max(3, round(float(side / _mean_distance(where))) + 1) for side in extent]
    return MeasurementError(
        "points are not the nodes of a lattice", expected="the number of nodes to interpolate to", got="none",
        remedy=f"give nodes={suited}, which suits {len(where)} points",
    )  # fmt: skip

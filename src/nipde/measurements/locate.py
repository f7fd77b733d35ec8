"""Step 3, locate: named arrays to pairs at points; tables in long and wide form, fields on vectors or meshes."""

from collections.abc import Iterable
from itertools import permutations

import numpy as np
from jaxtyping import Bool, Float

from nipde.errors import MeasurementError
from nipde.grid import AXES
from nipde.measurements.description import Description
from nipde.measurements.measurement import Note
from nipde.measurements.name import Named, Values
from nipde.measurements.point_data import PointData

#: Formats whose arrays are images: rows first.
ROWS_FIRST = ("ncorr",)
#: A value that fills so much of an array, and is its least or largest, is hardly a measured one.
REPEATED = 0.01
#: Share of exact zeros away from the sides that wants to be looked at.
ZEROS = 0.05


def locate(named: Named, description: Description) -> tuple[list[PointData], list[Note]]:
    """The pairs of a file in its own units; several parts if pairs have points of their own."""
    points, space, notes = _positions(named, description)
    parts = _parts(points, _pair_numbers(named, description, space))
    response = _fields(named.response, space, role="response")
    load = _fields(named.load, space, role="load") if named.load else None
    valid = _measured(named, response, space, description)
    if load is not None and len(load) != len(response):
        raise MeasurementError(
            "loads and responses do not pair up", expected=f"{len(load)} responses, one for each load",
            got=len(response), remedy="give one response for each load, in the same order",
        )  # fmt: skip
    if missing := len(points) - sum(int(part.sum()) for part in parts):
        text = f"{missing} rows without a position were left out."
        notes.append(Note("warning", text, (named.raw.path.name,)))
    data = PointData(points, response, valid, load)
    located = [data if part.all() else data.at(part) for part in parts]
    if load is not None:
        _check_loads(located, named.load[0].name, description)
    return located, notes + _gap_notes(named, points, response, valid)


def place_words(position: Iterable[float]) -> str:
    """A position as text."""
    return ", ".join(f"{name} = {value:g}" for name, value in zip(AXES, position, strict=False))


def _positions(named: Named, description: Description) -> tuple[np.ndarray, tuple[int, ...], list[Note]]:
    """Points, the trailing axes of the arrays that run over them, and what was taken for granted."""
    shape, dimension = named.response[0].array.shape, description.dimension
    stated = description.axes or ("yx" if named.raw.format in ROWS_FIRST and dimension == 2 else None)
    if any(one.columns != (one.name,) for one in named.coordinates):
        raise MeasurementError(
            "positions", expected="one column for each axis", got=", ".join(named.coordinates[0].columns),
            remedy='name them with coordinates = ["x", "y"]',
        )  # fmt: skip
    arrays = [one.array for one in named.coordinates]
    order, certain = None, stated is not None
    if len(shape) >= dimension and all(array.size == max(array.shape) for array in arrays):
        vectors = [array.ravel() for array in arrays]
        if not arrays:
            order = stated or "".join(AXES[:dimension])
            size = dict(zip(order, shape[-dimension:], strict=True))
            ends = zip(AXES, description.box, description.boundaries, strict=False)
            vectors = [np.linspace(*both, size[name], endpoint=not kind.periodic) for name, both, kind in ends]
        elif all(map(_monotone, vectors)):
            order = _order(stated, tuple(map(len, vectors)), shape)
            certain |= len(set(map(len, vectors))) == dimension
    if order is not None:
        return _mesh(vectors, order), shape[-dimension:], _order_notes(named, order, certain=certain)
    common = arrays[0].shape if arrays else ()
    if not arrays or any(array.shape != common for array in arrays) or shape[-len(common) :] != common:
        orders = f" in the order ({', '.join(stated)}), as stated" if stated else ""
        raise MeasurementError(
            f"positions do not fit the response {named.response[0].name!r}",
            expected=f"a rising or falling vector for each axis{orders}, or positions of every value",
            got=", ".join(f"{one.name} {one.array.shape}" for one in (*named.coordinates, named.response[0])),
            remedy="put space last: (pair, *space) or (pair, component, *space)",
        )  # fmt: skip
    return np.stack([array.ravel() for array in arrays], axis=1), common, []


def _monotone(vector: np.ndarray) -> bool:
    steps = np.diff(vector)
    return len(vector) > 1 and bool((steps > 0).all() or (steps < 0).all())


def _order(stated: str | None, lengths: tuple[int, ...], shape: tuple[int, ...]) -> str | None:
    """Names of the trailing axes that fit the lengths of the vectors, x first if several do."""
    length = dict(zip(AXES, lengths, strict=False))
    orders = [stated] if stated else ["".join(order) for order in permutations(length)]
    return next((one for one in orders if tuple(length[name] for name in one) == shape[-len(lengths) :]), None)


def _mesh(vectors: list[np.ndarray], order: str) -> np.ndarray:
    """Points of a lattice in the order in which arrays run over it."""
    by_name = dict(zip(AXES, vectors, strict=False))
    meshes = dict(zip(order, np.meshgrid(*(by_name[name] for name in order), indexing="ij"), strict=True))
    return np.stack([meshes[name].ravel() for name in AXES[: len(vectors)]], axis=1)


def _order_notes(named: Named, order: str, *, certain: bool) -> list[Note]:
    """What was taken for the order of the axes, if there is more than one."""
    doubt = "" if certain else f'; sizes do not tell, say axes = "{order[::-1]}" if not'
    text = f"arrays run over ({', '.join(order)}){doubt}."
    return [Note("reading", text, (named.raw.path.name,))] if len(order) > 1 else []


def _fields(
    values: tuple[Values, ...], space: tuple[int, ...], *, role: str
) -> Float[np.ndarray, "pair component point"]:
    """Components side by side, however the arrays were cut up."""
    parts = []
    for one in values:
        leading, trailing = one.array.shape[: -len(space)], one.array.shape[-len(space) :]
        if trailing != space or len(leading) > 2 or (len(leading) == 2 and len(values) > 1):
            raise MeasurementError(
                f"{role} {one.name!r}", expected=f"(pair, component, *space) with space {space}",
                got=f"shape {one.array.shape}", remedy="store it at the same points as the response, space last",
            )  # fmt: skip
        parts.append(one.array.reshape(*(*leading, 1, 1)[:2], -1))
    if len({part.shape for part in parts}) > 1:
        raise MeasurementError(
            f"components of the {role}", expected="arrays of one shape",
            got=", ".join(f"{one.name} {one.array.shape}" for one in values), remedy="store them at the same points",
        )  # fmt: skip
    return np.concatenate(parts, axis=1)


def _pair_numbers(named: Named, description: Description, space: tuple[int, ...]) -> np.ndarray | None:
    """The column that numbers the pairs of a long table."""
    numbers = named.pair
    if numbers is None or numbers.shape != space or len(space) != 1:
        if description.pair == Description.pair:
            return None
        bad = np.array([0])
    else:
        bad = np.flatnonzero(~np.isfinite(numbers.astype(float)))
    if len(bad):
        raise MeasurementError(
            f"column {description.pair!r}", expected="the number of a pair in every row",
            got=f"none in row {bad[0] + 1} below the names", remedy="say which pair each row belongs to",
        )  # fmt: skip
    return numbers


def _parts(points: np.ndarray, numbers: np.ndarray | None) -> list[Bool[np.ndarray, " point"]]:
    """Points of each pair of a long table, or all of them; without those that have no position."""
    placed = np.isfinite(points).all(axis=1)
    parts: list[np.ndarray] = []
    for number in [None] if numbers is None else np.unique(numbers):
        rows = np.ones(len(points), dtype=bool) if number is None else numbers == number
        if not (rows & placed).any():
            which = "any row" if number is None else f"a row of pair {len(parts) + 1}"
            raise MeasurementError(
                "positions", expected=f"finite coordinates in {which}", got=f"none in {int(rows.sum())} rows",
                remedy="check which columns hold the coordinates",
            )  # fmt: skip
        parts.append(rows & placed)
    return parts


def _check_loads(parts: list[PointData], name: str, description: Description) -> None:
    """Raise if a load has a gap: it was applied everywhere, and must be known there."""
    pair = 1
    for part in parts:
        assert part.load is not None
        gaps = np.argwhere(~_is_number(part.load, description))
        if len(gaps):
            first = tuple(gaps[0])
            raise MeasurementError(
                f"load {name!r} has gaps", expected="a number everywhere",
                got=f"{len(gaps)} other, the first {part.load[first]} in pair {pair + first[0]} "
                f"at {place_words(part.points[first[-1]])}",
                remedy="fill in what was applied, or describe the loads with [[loads]]",
            )  # fmt: skip
        pair += len(part.load)


def _measured(
    named: Named, response: np.ndarray, space: tuple[int, ...], description: Description
) -> Bool[np.ndarray, "pair component point"]:
    """True where a response is a number, is not marked by the file, and does not stand for a gap."""
    valid = _is_number(response, description) & _marked(named, response.shape[:2], space)
    if description.zeros_missing:
        valid &= response != 0
    if not valid.any():
        raise MeasurementError(
            "no response was measured", expected="numbers in the response",
            got=f"only gaps in {', '.join(one.name for one in named.response)}",
            remedy="check the keys missing and zeros_missing, and which array is the response",
        )  # fmt: skip
    return valid


def _is_number(values: np.ndarray, description: Description) -> np.ndarray:
    """True for finite values that are not agreed to stand for a gap."""
    valid = np.isfinite(values)
    for mark in description.missing:
        # Files in single precision hold -1e30 as -1.00000001e30.
        valid &= ~(np.abs(values - mark) <= 1e-6 * abs(mark))
    return valid


def _marked(named: Named, leading: tuple[int, int], space: tuple[int, ...]) -> np.ndarray:
    """What the file marks as measured: by an array of 0 and 1, or in the manner of its format."""
    valid = np.ones((*leading, int(np.prod(space))), dtype=bool)
    shapes = {(): (1, 1), leading[:1]: (leading[0], 1), leading: leading}
    for mark in (named.mask, named.raw.valid):
        if mark is None:
            continue
        odd = (mark != 0) & (mark != 1)
        if odd.any():
            raise MeasurementError(
                "mask", expected="1 where a response was measured, else 0",
                got=f"{mark[odd].flat[0]} and {int(odd.sum()) - 1} others that are neither",
                remedy="name another array with the key mask",
            )  # fmt: skip
        before = mark.shape[: mark.ndim - len(space)]
        if mark.shape[mark.ndim - len(space) :] != space or before not in shapes:
            raise MeasurementError(
                "mask does not fit the responses", expected=f"shape {space} or {(leading[0], *space)}",
                got=mark.shape, remedy="give one truth value for each response",
            )  # fmt: skip
        valid &= (mark == 1).reshape(*shapes[before], -1)
    if not valid.any():
        raise MeasurementError(
            "every response is marked as missing", expected="mask = 1 where a response was measured",
            got="only 0", remedy="turn the mask around if 1 means missing",
        )  # fmt: skip
    return valid


def _gap_notes(named: Named, points: np.ndarray, response: np.ndarray, valid: np.ndarray) -> list[Note]:
    """Warnings of what looks like unmarked gaps: zeros away from the sides, a repeated least or largest value."""
    low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
    margin = 1e-9 * (high - low)
    inside = np.all((points > low + margin) & (points < high - margin), axis=1)
    notes = []
    for component in range(response.shape[1]):
        where = (named.raw.path.name, named.response[component if len(named.response) > 1 else 0].name)
        values, there = response[:, component], valid[:, component]
        inner, measured = values[there & inside], values[there]
        if inner.size and ZEROS < (share := float(np.mean(inner == 0))) < 1:
            text = (
                f"{100 * share:.0f} % of the values inside are exactly 0: if these are gaps, say zeros_missing = true."
            )
            notes.append(Note("warning", text, where))
        for which, extreme in {"least": measured.min(), "largest": measured.max()}.items() if measured.size else ():
            count = int(np.sum(measured == extreme))
            if extreme and 5 <= count < measured.size and count > REPEATED * measured.size:
                text = f"{count} values are exactly {extreme:g}, the {which} of all: if these are gaps, "
                notes.append(Note("warning", f"{text}say missing = {extreme:g}.", where))
    return notes

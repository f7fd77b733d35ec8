"""Named arrays of a file to pairs at points: tables in long and wide form, fields on vectors or meshes of positions."""

from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from nipde.errors import MeasurementError
from nipde.grid import AXES
from nipde.measurements.description import Description
from nipde.measurements.gaps import as_mask, first_gap, measured, suspicious
from nipde.measurements.gridding import Cloud, place_words
from nipde.measurements.measurement import Note
from nipde.measurements.names import Values, array_of, coordinates_of, load_of, response_of
from nipde.measurements.raw import Raw

#: Formats whose arrays are images: rows first.
ROWS_FIRST = ("ncorr",)


@dataclass(frozen=True, eq=False)
class Reading:
    """Pairs of one file in the file's own units, the names they stand under, and how they were understood."""

    clouds: tuple[Cloud, ...]
    coordinates: tuple[Values, ...]
    load: tuple[Values, ...]
    response: tuple[Values, ...]
    notes: tuple[Note, ...]


def read_pairs(raw: Raw, description: Description) -> Reading:
    """The pairs of a file."""
    response, load = response_of(raw, description), load_of(raw, description)
    positions = coordinates_of(raw, description)
    notes = _precision_notes(raw, (*response, *(load or ())))
    where, space, note = _positions(raw, description, positions, response)
    notes += note
    numbers = _pair_numbers(raw, description, space)
    values = _fields(raw, response, space, role="response")
    mask = _mask(raw, description, space, values.shape[:2])
    there = measured(values, missing=description.missing, zeros_missing=description.zeros_missing) & mask
    loads = None
    if load is not None:
        loads = _fields(raw, load, space, role="load")
        if len(loads) != len(values):
            raise MeasurementError(
                f"{raw.path}: loads and responses do not pair up",
                expected=f"{len(loads)} responses, one for each load", got=len(values),
                remedy="give one response for each load, in the same order",
            )  # fmt: skip
    placed = np.isfinite(where).all(axis=1)
    if not placed.any():
        raise _without_position(raw, "any row", len(where))
    if not placed.all():
        notes.append(Note("warning", f"{raw.path.name}: {int((~placed).sum())} rows without a position were left out."))
    notes += _gap_notes(raw, response, values, there, where)
    cloud = Cloud(where, values, there, loads)
    clouds = [cloud] if numbers is None else _by_number(cloud, numbers)
    kept = tuple(_at(one, np.isfinite(one.where).all(axis=1)) for one in clouds)
    for pair, one in enumerate(kept, start=1):
        if not len(one.where):
            raise _without_position(raw, f"a row of pair {pair}", len(clouds[pair - 1].where))
    if load is not None:
        _check_loads(raw, load[0].name, kept, description.missing)
    return Reading(kept, positions or (), load or (), response, tuple(notes))


def _positions(
    raw: Raw, description: Description, positions: tuple[Values, ...] | None, response: tuple[Values, ...]
) -> tuple[np.ndarray, tuple[int, ...], list[Note]]:
    """Points, the trailing axes of the arrays that run over them, and what was taken for granted."""
    shape, dimension = response[0].array.shape, description.dimension
    stated = description.axes or ("yx" if raw.format in ROWS_FIRST and dimension == 2 else None)
    if positions is None:
        if len(shape) < dimension:
            raise _unplaced(raw, response[0], positions, stated)
        vectors, order = _from_box(description, shape[-dimension:], stated)
        return _mesh(vectors, order), shape[-dimension:], _order_notes(raw, order, certain=stated is not None)
    if any(one.wide for one in positions):
        raise MeasurementError(
            f"{raw.path}: positions", expected="one column for each axis", got=", ".join(positions[0].columns),
            remedy='name them with coordinates = ["x", "y"]',
        )  # fmt: skip
    arrays = [one.array for one in positions]
    vectors = [array.ravel() for array in arrays]
    if len(shape) >= dimension and all(array.size == max(array.shape) for array in arrays):
        lengths = tuple(map(len, vectors))
        fitting = _order(stated, lengths, shape) if all(map(_monotone, vectors)) else None
        if fitting is not None:
            certain = stated is not None or len(set(lengths)) == dimension
            return _mesh(vectors, fitting), shape[-dimension:], _order_notes(raw, fitting, certain=certain)
    common = arrays[0].shape
    if any(array.shape != common for array in arrays) or shape[-len(common) :] != common:
        raise _unplaced(raw, response[0], positions, stated)
    return np.stack(vectors, axis=1), common, []


def _order_notes(raw: Raw, order: str, *, certain: bool) -> list[Note]:
    """What was taken for the order of the axes, if there is more than one."""
    if len(order) == 1:
        return []
    text = f"{raw.path.name}: arrays run over ({', '.join(order)})"
    doubt = "" if certain else f'; sizes do not tell, say axes = "{order[::-1]}" if not'
    return [Note("reading", f"{text}{doubt}.")]


def _order(stated: str | None, lengths: tuple[int, ...], shape: tuple[int, ...]) -> str | None:
    """Names of the trailing axes that fit the lengths of the vectors, x first if several do."""
    names = AXES[: len(lengths)]
    tried = [stated] if stated else ["".join(order) for order in permutations(names)]
    length = dict(zip(names, lengths, strict=True))
    return next((o for o in tried if tuple(length[name] for name in o) == shape[-len(lengths) :]), None)


def _from_box(description: Description, sizes: tuple[int, ...], stated: str | None) -> tuple[list[np.ndarray], str]:
    order = stated or "".join(AXES[: description.dimension])
    size = dict(zip(order, sizes, strict=True))
    ends = zip(AXES, description.box, description.boundaries, strict=False)
    return [np.linspace(*both, size[name], endpoint=not kind.periodic) for name, both, kind in ends], order


def _mesh(vectors: list[np.ndarray], order: str) -> np.ndarray:
    """Points of a lattice in the order in which arrays run over it."""
    by_name = dict(zip(AXES, vectors, strict=False))
    meshes = dict(zip(order, np.meshgrid(*(by_name[name] for name in order), indexing="ij"), strict=True))
    return np.stack([meshes[name].ravel() for name in AXES[: len(vectors)]], axis=1)


def _fields(raw: Raw, values: tuple[Values, ...], space: tuple[int, ...], *, role: str) -> np.ndarray:
    """(pair, component, point), however the arrays were cut up."""
    parts = []
    for one in values:
        array = one.array
        if array.shape[-len(space) :] != space:
            raise MeasurementError(
                f"{raw.path}: {role} {one.name!r}", expected=f"trailing axes {space}", got=f"shape {array.shape}",
                remedy="store it at the same points as the response, space last",
            )  # fmt: skip
        leading = array.shape[: array.ndim - len(space)]
        if len(leading) > 2 or (len(leading) == 2 and len(values) > 1):
            raise MeasurementError(
                f"{raw.path}: {role} {one.name!r}", expected=f"(pair, component, *space) with space {space}",
                got=f"shape {array.shape}", remedy="cut it into such arrays",
            )  # fmt: skip
        pairs, components = (*leading, 1, 1)[:2] if leading else (1, 1)
        parts.append(array.reshape(pairs, components, -1))
    if len({part.shape for part in parts}) > 1:
        raise MeasurementError(
            f"{raw.path}: components of the {role}", expected="arrays of one shape",
            got=", ".join(f"{one.name} {one.array.shape}" for one in values), remedy="store them at the same points",
        )  # fmt: skip
    return np.concatenate(parts, axis=1)


def _mask(raw: Raw, description: Description, space: tuple[int, ...], leading: tuple[int, int]) -> np.ndarray:
    """What the file marks as measured, (pair, component, point)."""
    mask = np.ones((*leading, int(np.prod(space))), dtype=bool)
    stored = array_of(raw, description.mask)
    if stored is None and description.mask != Description.mask:
        raise MeasurementError(
            f"{raw.path}: no mask", expected=f"an array {description.mask!r}", got=", ".join(raw.arrays),
            remedy="name another one with the key mask",
        )  # fmt: skip
    marks = (
        [] if stored is None else [(description.mask, as_mask(stored, of=f"{raw.path}: array {description.mask!r}"))]
    )
    if raw.valid is not None:
        marks.append(("the file's own mark of gaps", raw.valid))
    for name, mark in marks:
        before = mark.shape[: mark.ndim - len(space)]
        shapes = {(): (1, 1), (leading[0],): (leading[0], 1), leading: leading}
        if mark.shape[mark.ndim - len(space) :] != space or before not in shapes:
            raise MeasurementError(
                f"{raw.path}: {name} does not fit the responses", expected=f"shape {space} or {(leading[0], *space)}",
                got=mark.shape, remedy="give one truth value for each response",
            )  # fmt: skip
        mask &= mark.reshape(*shapes[before], -1)
    if not mask.any():
        raise MeasurementError(
            f"{raw.path}: every response is marked as missing", expected="mask = 1 where a response was measured",
            got="only 0", remedy="turn the mask around if 1 means missing",
        )  # fmt: skip
    return mask


def _pair_numbers(raw: Raw, description: Description, space: tuple[int, ...]) -> np.ndarray | None:
    """The column that numbers the pairs of a long table."""
    numbers = array_of(raw, description.pair)
    if numbers is None or numbers.shape != space or len(space) != 1:
        if description.pair != Description.pair:
            raise MeasurementError(
                f"{raw.path}: no numbers of pairs", expected=f"a column {description.pair!r}",
                got=", ".join(raw.arrays), remedy="name another one with the key pair",
            )  # fmt: skip
        return None
    bad = np.flatnonzero(~np.isfinite(numbers.astype(float)))
    if len(bad):
        raise MeasurementError(
            f"{raw.path}: column {description.pair!r}", expected="a number in every row",
            got=f"none in row {bad[0] + 1} below the names", remedy="say which pair each row belongs to",
        )  # fmt: skip
    return numbers


def _by_number(cloud: Cloud, numbers: np.ndarray) -> list[Cloud]:
    return [_at(cloud, numbers == number) for number in np.unique(numbers)]


def _at(cloud: Cloud, points: np.ndarray) -> Cloud:
    """Some of the points."""
    if points.all():
        return cloud
    load = None if cloud.load is None else cloud.load[..., points]
    return replace(
        cloud,
        where=cloud.where[points],
        response=cloud.response[..., points],
        valid=cloud.valid[..., points],
        load=load,
    )


def _check_loads(raw: Raw, name: str, clouds: tuple[Cloud, ...], missing: tuple[float, ...]) -> None:
    """Raise if a load has a gap: it was applied everywhere, and is part of the question."""
    pair = 1
    for cloud in clouds:
        assert cloud.load is not None
        gap = first_gap(cloud.load, missing=missing)
        if gap is not None:
            count, first = gap
            raise MeasurementError(
                f"{raw.path}: load {name!r} has gaps", expected="a number everywhere",
                got=f"{count} other, the first {cloud.load[first]} in pair {pair + first[0]} "
                f"at {place_words(cloud.where[first[-1]])}",
                remedy="fill in what was applied, or describe the loads with [[loads]]",
            )  # fmt: skip
        pair += len(cloud.load)


def _gap_notes(
    raw: Raw, response: tuple[Values, ...], values: np.ndarray, there: np.ndarray, where: np.ndarray
) -> list[Note]:
    if not there.any():
        raise MeasurementError(
            f"{raw.path}: no response was measured", expected="numbers in the response",
            got=f"gaps only in {', '.join(repr(one.name) for one in response)}",
            remedy="check the keys missing and zeros_missing, and which array is the response",
        )  # fmt: skip
    low, high = np.nanmin(where, axis=0), np.nanmax(where, axis=0)
    inside = np.all((where > low + 1e-9 * (high - low)) & (where < high - 1e-9 * (high - low)), axis=1)
    notes = []
    for place in range(values.shape[1]):
        name = response[place if len(response) == values.shape[1] else 0].name
        found = suspicious(
            values[:, place], there=there[:, place], inside=np.broadcast_to(inside, values[:, place].shape)
        )
        notes += [Note("warning", f"{raw.path.name}, {name}: {text}.") for text in found]
    return notes


def _precision_notes(raw: Raw, values: tuple[Values, ...]) -> list[Note]:
    notes = []
    for one in values:
        dtype = raw.arrays[one.columns[0]].dtype
        if dtype == np.float16:
            notes.append(
                Note("warning", f"{raw.path.name}, {one.name}: half precision, about 3 digits of every value.")
            )
        elif dtype.kind in "iub":
            notes.append(
                Note("warning", f"{raw.path.name}, {one.name}: whole numbers; rounded, or counts instead of values?")
            )
    return notes


def _monotone(vector: np.ndarray) -> bool:
    steps = np.diff(vector)
    return len(vector) > 1 and bool((steps > 0).all() or (steps < 0).all())


def _without_position(raw: Raw, which: str, rows: int) -> MeasurementError:
    return MeasurementError(
        f"{raw.path}: positions", expected=f"finite coordinates in {which}", got=f"none in {rows} rows",
        remedy="check which columns hold the coordinates",
    )  # fmt: skip


def _unplaced(raw: Raw, response: Values, positions: tuple[Values, ...] | None, stated: str | None) -> MeasurementError:
    got = ", ".join(f"{one.name} {one.array.shape}" for one in (*(positions or ()), response))
    order = f" in the order ({', '.join(stated)}), as stated" if stated else ""
    return MeasurementError(
        f"{raw.path}: positions do not fit the response {response.name!r}",
        expected=f"a rising or falling vector for each axis{order}, or positions of every value", got=got,
        remedy="put space last: (pair, *space) or (pair, component, *space)",
    )  # fmt: skip

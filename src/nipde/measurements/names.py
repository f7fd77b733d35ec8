"""Which arrays of a file are response, load and position; said by a description or by their usual names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import count, takewhile

import numpy as np

from nipde.errors import MeasurementError
from nipde.grid import AXES
from nipde.measurements.description import Description
from nipde.measurements.raw import Raw

#: Usual names, the first that a file has; one name for each component or axis.
RESPONSES = (("responses",), ("response",), ("U", "V"), ("u", "v"), ("ux", "uy"), ("DISPLACEMENT_X", "DISPLACEMENT_Y"),
             ("SUBSET_DISPLACEMENT_X", "SUBSET_DISPLACEMENT_Y"))  # fmt: skip
LOADS = (("loads",), ("load",))
COORDINATES = (("x", "y"), ("COORDINATE_X", "COORDINATE_Y"), ("SUBSET_COORDINATES_X", "SUBSET_COORDINATES_Y"))
#: Cameras write pixels as x, y and lengths as X, Y: the latter are wanted if both are there.
CAMERA_COORDINATES = (("X", "Y"), *COORDINATES)
CAMERAS = ("vic", "dice", "ncorr", "mudic")


@dataclass(frozen=True, eq=False)
class Values:
    """One component of a quantity: its name, and the values; wide tables have one column for each pair."""

    name: str
    columns: tuple[str, ...]
    array: np.ndarray

    @property
    def wide(self) -> bool:
        """Whether the leading axis was made of columns, one for each pair."""
        return self.columns != (self.name,)


def response_of(raw: Raw, description: Description) -> tuple[Values, ...]:
    """The components of the response."""
    if description.response:
        return _all(raw, description.response, role="response")
    found = _first(raw, RESPONSES)
    if found is None:
        raise _lacking(raw, RESPONSES[0][0], role="response")
    return found


def load_of(raw: Raw, description: Description) -> tuple[Values, ...] | None:
    """The components of the load, or None if the description has them."""
    if description.loads:
        return None
    if description.load:
        return _all(raw, description.load, role="load")
    found = _first(raw, LOADS)
    if found is None:
        raise _lacking(raw, LOADS[0][0], role="load")
    return found


def coordinates_of(raw: Raw, description: Description) -> tuple[Values, ...] | None:
    """One for each axis, or None if the file has none and the description a box."""
    if description.coordinates:
        return _all(raw, description.coordinates, role="coordinates")
    usual = [tuple(AXES[: description.dimension])] if description.dimension != 2 else list(COORDINATES)
    if raw.format in CAMERAS and description.dimension == 2:
        usual = list(CAMERA_COORDINATES)
    found = _first(raw, usual)
    if found is None and not description.box:
        raise MeasurementError(
            f"{raw.path}: no positions", expected=f"arrays or columns {', '.join(map(repr, usual[0]))}",
            got=_names(raw), remedy='name them with coordinates = ["X", "Y"], or give a box',
        )  # fmt: skip
    return found


def array_of(raw: Raw, name: str) -> np.ndarray | None:
    """An array by its name, or by one that differs in upper and lower case only."""
    key = _key(raw, name)
    return None if key is None else raw.arrays[key]


def _first(raw: Raw, usual: Sequence[tuple[str, ...]]) -> tuple[Values, ...] | None:
    for exact in (True, False):
        for names in usual:
            found = [_values(raw, name, exact=exact) for name in names]
            if all(one is not None for one in found):
                return tuple(one for one in found if one is not None)
    return None


def _all(raw: Raw, names: tuple[str, ...], *, role: str) -> tuple[Values, ...]:
    found = []
    for name in names:
        values = _values(raw, name, exact=False)
        if values is None:
            raise _lacking(raw, name, role=role)
        found.append(values)
    return tuple(found)


def _values(raw: Raw, name: str, *, exact: bool) -> Values | None:
    key = _key(raw, name, exact=exact)
    if key is not None:
        return Values(key, (key,), _numbers(raw, key))
    if f"{name}_0" in raw.arrays:
        vector = [column for column in raw.arrays if column.startswith(f"{name}_")]
        raise MeasurementError(
            f"{raw.path}: {name!r} is a vector", expected="its components by name", got=repr(name),
            remedy=f"give {', '.join(map(repr, vector))}, or those of them that count",
        )  # fmt: skip
    columns = tuple(takewhile(lambda column: column in raw.arrays, _numbered(name)))
    if not columns:
        return None
    return Values(name, columns, np.stack([_numbers(raw, column) for column in columns]))


def _numbered(name: str) -> Iterator[str]:
    return (f"{name}_{number}" for number in count(1))


def _key(raw: Raw, name: str, *, exact: bool = False) -> str | None:
    if name in raw.arrays:
        return name
    alike = [key for key in raw.arrays if key.lower() == name.lower()]
    return alike[0] if len(alike) == 1 and not exact else None


def _numbers(raw: Raw, name: str) -> np.ndarray:
    """The array in double precision; whole numbers and truth values are numbers, complex ones are not."""
    array = raw.arrays[name]
    if array.dtype.kind not in "fiub":
        raise MeasurementError(
            f"{raw.path}: array {name!r}", expected="real numbers", got=f"{array.dtype}", remedy="store real numbers"
        )
    if array.size == 0:
        raise MeasurementError(
            f"{raw.path}: array {name!r} is empty", expected="numbers", got=f"shape {array.shape}",
            remedy="write the file again, or name another array",
        )  # fmt: skip
    return array.astype(np.float64)


def _lacking(raw: Raw, name: str, *, role: str) -> MeasurementError:
    near = get_close_matches(name, list(raw.arrays), n=1, cutoff=0.6)
    how = f'{role} = ["{near[0]}"]' if near else f'{role} = ["NAME"]'
    more = ", or describe them with [[loads]]" if role == "load" else ""
    return MeasurementError(
        f"{raw.path}: no {role}", expected=f"an array or column {name!r}", got=_names(raw),
        remedy=f"name it with {how}{more}",
    )  # fmt: skip


def _names(raw: Raw) -> str:
    shapes = [f"{name} {'×'.join(map(str, array.shape)) or 'one number'}" for name, array in raw.arrays.items()]
    listed = ", ".join(shapes[:12])
    return f"{listed} and {len(shapes) - 12} more" if len(shapes) > 12 else listed or "nothing"

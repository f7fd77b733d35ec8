"""Step 2, name: which arrays of a file are response, load and position, by the description or by usual names."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, takewhile

import numpy as np

from nipde.errors import MeasurementError, meant
from nipde.grid import AXES
from nipde.measurements.description import Description
from nipde.measurements.measurement import Note
from nipde.measurements.parse import Raw

#: Usual names, the first that a file has; one name for each component or axis.
RESPONSES = (("responses",), ("response",), ("U", "V"), ("u", "v"), ("ux", "uy"), ("DISPLACEMENT_X", "DISPLACEMENT_Y"),
             ("SUBSET_DISPLACEMENT_X", "SUBSET_DISPLACEMENT_Y"))  # fmt: skip
LOADS = (("loads",), ("load",))
COORDINATES = (("x", "y"), ("COORDINATE_X", "COORDINATE_Y"), ("SUBSET_COORDINATES_X", "SUBSET_COORDINATES_Y"))
#: Cameras write pixels as x, y and lengths as X, Y: the latter are wanted if both are there.
CAMERAS = ("vic", "dice", "ncorr", "mudic", "matchid", "aramis")


@dataclass(frozen=True, eq=False)
class Values:
    """One component of a quantity: its name, and the values; wide tables have one column for each pair."""

    name: str
    columns: tuple[str, ...]
    array: np.ndarray


@dataclass(frozen=True, eq=False)
class Named:
    """Arrays of a file by what they are; no load if loads are described, no coordinates if there is a box."""

    raw: Raw
    coordinates: tuple[Values, ...]
    load: tuple[Values, ...]
    response: tuple[Values, ...]
    #: Numbers of the pairs in a long table.
    pair: np.ndarray | None
    mask: np.ndarray | None
    noise: np.ndarray | None


def name_arrays(raw: Raw, description: Description, *, loads: bool = True) -> tuple[Named, list[Note]]:
    """The arrays of a file by what they are; without `loads` it has none."""
    response = _named(raw, "response", description.response, RESPONSES)
    load: tuple[Values, ...] = ()
    if loads and not description.acts_inside:
        load = _named(raw, "load", description.load, LOADS, needed=not description.acts_on_outline)
    usual: tuple[tuple[str, ...], ...] = (
        COORDINATES if description.dimension == 2 else (tuple(AXES[: description.dimension]),)
    )
    if raw.format in CAMERAS and description.dimension == 2:
        usual = (("X", "Y"), *COORDINATES)
    coordinates = _named(raw, "coordinates", description.coordinates, usual, needed=not description.box)
    named = Named(
        raw, coordinates, load, response,
        pair=_optional(raw, "pair", description.pair, Description.pair),
        mask=_optional(raw, "mask", description.mask, Description.mask),
        noise=_optional(raw, "noise", "noise", "noise"),
    )  # fmt: skip
    return named, [_column_note(named), *_precision_notes(named)]


def _named(
    raw: Raw, role: str, stated: Sequence[str], usual: Sequence[Sequence[str]], *, needed: bool = True
) -> tuple[Values, ...]:
    """The stated arrays, or the first of the usual ones; names that differ in case only come last."""
    for exact in (True, False):
        for names in (stated,) if stated else usual:
            values = [_values(raw, name, exact=exact) for name in names]
            if all(values):
                return tuple(one for one in values if one)
    if not stated and not needed:
        return ()
    lacking = next(name for name in stated or usual[0] if _values(raw, name) is None)
    otherwise = {"load": ", or describe them with [[loads]]", "coordinates": ", or give a box"}.get(role, "")
    raise MeasurementError(
        f"no {role}", expected=f"an array or column {lacking!r}", got=_listed(raw),
        remedy=f'{meant(lacking, raw.arrays, otherwise="")} Name it with {role} = ["NAME"]{otherwise}'.strip(),
    )  # fmt: skip


def _values(raw: Raw, name: str, *, exact: bool = False) -> Values | None:
    if key := _key(raw, name, exact=exact):
        return Values(key, (key,), _numbers(raw, key))
    if f"{name}_0" in raw.arrays:
        vector = [column for column in raw.arrays if column.startswith(f"{name}_")]
        raise MeasurementError(
            f"{name!r} is a vector", expected="its components by name", got=repr(name),
            remedy=f"give {', '.join(map(repr, vector))}, or those of them that count",
        )  # fmt: skip
    columns = tuple(takewhile(raw.arrays.__contains__, (f"{name}_{number}" for number in count(1))))
    return Values(name, columns, np.stack([_numbers(raw, column) for column in columns])) if columns else None


def _key(raw: Raw, name: str, *, exact: bool = False) -> str | None:
    if name in raw.arrays:
        return name
    alike = [key for key in raw.arrays if key.lower() == name.lower()]
    return alike[0] if len(alike) == 1 and not exact else None


def _numbers(raw: Raw, name: str) -> np.ndarray:
    """The array in double precision; whole numbers and truth values are numbers."""
    array = raw.arrays[name]
    if array.size == 0:
        raise MeasurementError(
            f"array {name!r} is empty", expected="numbers", got=f"shape {array.shape}",
            remedy="write the file again, or name another array",
        )  # fmt: skip
    return array.astype(np.float64)


def _optional(raw: Raw, role: str, name: str, usual: str) -> np.ndarray | None:
    """An array that need not be there, unless the description names it."""
    key = _key(raw, name)
    if key is None and name != usual:
        raise MeasurementError(
            f"no {role}", expected=f"an array or column {name!r}", got=_listed(raw),
            remedy=f"name another one with the key {role}",
        )  # fmt: skip
    return None if key is None else raw.arrays[key]


def _listed(raw: Raw) -> str:
    shapes = [f"{name} {'×'.join(map(str, array.shape)) or 'one number'}" for name, array in raw.arrays.items()]
    return ", ".join(shapes[:12]) + (f" and {len(shapes) - 12} more" if len(shapes) > 12 else "") or "nothing"


def _column_note(named: Named) -> Note:
    roles = {"positions": named.coordinates, "loads": named.load, "responses": named.response}
    otherwise = {"positions": "by the box", "loads": "as described"}
    texts = [
        f"{role} {'in ' + ', '.join(one.name for one in values) if values else otherwise[role]}"
        for role, values in roles.items()
    ]
    return Note("reading", f"{'; '.join(texts)}.", (named.raw.path.name,))


def _precision_notes(named: Named) -> list[Note]:
    notes = []
    for one in (*named.response, *named.load):
        dtype, where = named.raw.arrays[one.columns[0]].dtype, (named.raw.path.name, one.name)
        if dtype == np.float16:
            notes.append(Note("warning", "half precision, about 3 digits of every value.", where))
        elif dtype.kind in "iub":
            notes.append(Note("warning", "whole numbers; rounded, or counts instead of values?", where))
    return notes

"""Units as caller and file state them; who says nothing is asked."""

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

import numpy as np

from nipde.errors import MeasurementError
from nipde.grid import AXES
from nipde.measurements.measurement import Note
from nipde.measurements.names import Values
from nipde.measurements.raw import Raw
from nipde.measurements.units import check_length, check_unit, factor, is_length, without_pixels

#: Keys that stand for a quantity under whatever name a file has it.
ROLES = ("x", "y", "z", "load", "response")
_EXAMPLES = {"x": "mm", "load": "N/m^2", "response": "mm"}


def check_stated(raw: Raw, wanted: Sequence[tuple[Values | None, str]], units: Mapping[str, str]) -> None:
    """Raise if neither caller nor file says the unit of something; all of it at once."""
    lacking = [
        (values.name if values else role, role) for values, role in wanted if not _said(raw, values, role, units)
    ]
    if lacking:
        roles = list(dict.fromkeys("x" if role in AXES else role for _, role in lacking))
        said = {role: _EXAMPLES[role] for role in roles}
        raise MeasurementError(
            f"{raw.path}: no unit of {', '.join(repr(name) for name, _ in lacking)}",
            expected="the units they are stored in", got="none, and units are not guessed",
            remedy=f"give units={json.dumps(said)}, --units {','.join(f'{key}={word}' for key, word in said.items())}, "
            "or the same below [units] of a TOML file, with your units",
        )  # fmt: skip


def stated_unit(raw: Raw, values: Values | None, *, role: str, units: Mapping[str, str], notes: list[Note]) -> str:
    """By the caller for this array, by the caller for its role, or by the file; in this order."""
    unit, *others = _said(raw, values, role, units)
    name = role if values is None else values.name
    what = f"{name!r} in {raw.path.name}"
    (check_length if role in AXES else check_unit)(unit, of=what)
    if others and abs(factor(others[0], unit, of=what) - 1) > 1e-9:
        notes.append(Note("warning", f"{raw.path.name}, {name}: the file says {others[0]}; read as {unit}, as told."))
    return unit


def conversion(unit: str, *, scale: str | None, target: str | None, of: str) -> tuple[float, str]:
    """Factor and unit after pixels have become lengths and the unit that of the files before, if there is one."""
    size, plain = without_pixels(unit, scale, of=of)
    return (size, plain) if target is None else (size * factor(plain, target, of=of), target)


def pixel_notes(raw: Raw, positions: Sequence[Values], units: Mapping[str, str]) -> list[Note]:
    """A warning if positions are counted, as pixels are, and said to be lengths."""
    words = [_said(raw, one, axis, units)[0] for one, axis in zip(positions, AXES, strict=False)]
    whole = all(np.array_equal(one.array, np.rint(one.array)) for one in positions)
    if not positions or not whole or not all(map(is_length, words)):
        return []
    return [Note("warning", f"{raw.path.name}: all positions are whole numbers; pixels taken for {words[0]}?")]


def check_keys(units: Mapping[str, str], arrays: Iterable[str]) -> None:
    """Raise if a unit is given for something that no file has."""
    known = {*ROLES, *arrays}
    for key in units:
        if key not in known:
            near = get_close_matches(key, sorted(known), n=1, cutoff=0.4)
            raise MeasurementError(
                f"unit of {key!r}", expected=f"one of {', '.join(ROLES)} or the name of an array", got=repr(key),
                remedy=f"did you mean {near[0]!r}?" if near else "leave it out",
            )  # fmt: skip


def _said(raw: Raw, values: Values | None, role: str, units: Mapping[str, str]) -> list[str]:
    """All units that are stated for an array, those that count most first."""
    name = role if values is None else values.name
    told = [units[key] for key in (name, role, *("x" if role in AXES else "")) if key in units]
    in_file = [raw.units[key] for key in ((values.columns if values else ()) or (name,)) if key in raw.units]
    return told[:1] + in_file[:1]

"""Step 4, convert: pairs of a file to the units of the measurement; units are stated, never guessed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.errors import MeasurementError, meant
from nipde.grid import AXES
from nipde.measurements.description import Description
from nipde.measurements.measurement import Note
from nipde.measurements.name import Named, Values
from nipde.measurements.parse import Raw
from nipde.measurements.point_data import PointData
from nipde.measurements.units import Units, amount, check_length, check_unit, factor, is_length, without_pixels

#: Keys that stand for a quantity under whatever name a file has it, with the unit that an error shows as an example.
ROLES = {"x": "mm", "y": "mm", "z": "mm", "load": "N/m^2", "response": "mm"}


@dataclass(frozen=True, eq=False)
class Converted:
    """Pairs of one file in the units of the measurement."""

    data: list[PointData]
    units: Units
    #: What the file's positions were multiplied by, axis by axis.
    length: Float[np.ndarray, " axis"]
    #: Standard deviations of the responses' error, where the file has some.
    noise: Float[np.ndarray, " value"]


def convert(
    named: Named, data: Sequence[PointData], description: Description, *, target: Units | None
) -> tuple[Converted, list[Note]]:
    """Pairs in the units `target`, or in the file's own with pixels as lengths."""
    positions = list(zip(named.coordinates or (None,) * description.dimension, AXES, strict=False))
    quantities: dict[str, list[tuple[Values | None, str]]] = {
        "length": positions,
        "load": [(one, "load") for one in named.load or (None,)],
        "response": [(one, "response") for one in named.response],
    }
    stated = {
        name: [_stated(named.raw, values, role, description.units) for values, role in wanted]
        for name, wanted in quantities.items()
    }
    _check_stated(quantities, stated)
    scale = description.scale or _own_scale(named.raw)
    notes = _pixel_notes(named, [words[0] for words in stated["length"]]) if description.outline is None else []
    factors: dict[str, np.ndarray] = {}
    units: dict[str, str] = {} if target is None else vars(target)
    for name, wanted in quantities.items():
        numbers, unit = [], units.get(name)
        for (values, role), (word, *others) in zip(wanted, stated[name], strict=True):
            array = values.name if values else role
            of = repr(array)
            (check_length if role in AXES else check_unit)(word, of=of)
            if others and abs(factor(others[0], word, of=of) - 1) > 1e-9:
                text = f"the file says {others[0]}; read as {word}, as the caller says."
                notes.append(Note("warning", text, (named.raw.path.name, array)))
            size, plain = without_pixels(word, scale, of=of)
            unit = unit or plain
            numbers.append(size * factor(plain, unit, of=of))
        factors[name], units = np.array(numbers), {**units, name: str(unit)}
    converted = [
        PointData(
            points=one.points * factors["length"],
            response=one.response * factors["response"][:, None],
            valid=one.valid,
            load=None if one.load is None else one.load * factors["load"][:, None],
        )
        for one in data
    ]
    stored = named.raw.attributes.get("noise", ()) if named.noise is None else named.noise
    noise = np.asarray(stored, dtype=float).ravel() * float(factors["response"][0])
    return Converted(converted, Units(**units), factors["length"], noise), notes


def check_keys(units: Mapping[str, str], arrays: Iterable[str]) -> None:
    """Raise if a unit is given for something that no file has."""
    known = {*ROLES, *arrays}
    for key in units:
        if key not in known:
            raise MeasurementError(
                f"unit of {key!r}", expected=f"one of {', '.join(ROLES)} or the name of an array", got=repr(key),
                remedy=meant(key, sorted(known), otherwise="leave it out"),
            )  # fmt: skip


def noise_level(
    description: Description, files: Sequence[Converted], responses: np.ndarray
) -> tuple[float | None, Note]:
    """Standard deviation of the responses' error, as described or as the files have it."""
    units, level, whence = files[0].units, None, "as described"
    stored = np.concatenate([one.noise for one in files])
    if isinstance(description.noise, str) and description.noise.strip().endswith("%"):
        share = amount(description.noise, unit="1", of="the noise")
        level, whence = share * float(np.sqrt(np.mean(responses**2))), f"{description.noise.strip()} of their size"
    elif description.noise is not None:
        level = amount(description.noise, unit=units.response, of="the noise")
    elif stored.size:
        level = float(np.sqrt(np.mean(stored**2)) if (stored >= 0).all() else stored.min())
        whence = "by the files"
    if level is None:
        return None, Note("reading", "Noise of the responses: not stated.")
    if not 0 <= level < np.inf:
        raise MeasurementError(
            "noise of the responses", expected="a standard deviation >= 0", got=f"{level:g}",
            remedy="give noise = a number, or leave it out if unknown",
        )  # fmt: skip
    return level, Note("reading", f"Noise of the responses: {level:.3g} {units.response}, {whence}.")


def _stated(raw: Raw, values: Values | None, role: str, units: Mapping[str, str]) -> list[str]:
    """Units stated for an array: by the caller for it or its role, and by the file."""
    name = role if values is None else values.name
    by_caller = [units[key] for key in (name, role, *("x" if role in AXES else "")) if key in units]
    by_file = [raw.units[key] for key in (values.columns if values else (name,)) if key in raw.units]
    return by_caller[:1] + by_file[:1]


def _check_stated(
    quantities: Mapping[str, Sequence[tuple[Values | None, str]]], stated: Mapping[str, Sequence[list[str]]]
) -> None:
    """Raise if neither caller nor file says the unit of something; all of it at once."""
    lacking = [
        (values.name if values else role, "x" if role in AXES else role)
        for name, wanted in quantities.items()
        for (values, role), words in zip(wanted, stated[name], strict=True)
        if not words
    ]
    if lacking:
        example = {role: ROLES[role] for _, role in lacking}
        option = ",".join(f"{role}={word}" for role, word in example.items())
        raise MeasurementError(
            f"no unit of {', '.join(repr(name) for name, _ in lacking)}",
            expected="the units they are stored in", got="none, and units are not guessed",
            remedy=f"give units={json.dumps(example)}, --units {option}, "
            "or the same below [units] of a TOML file, with your units",
        )  # fmt: skip


def _pixel_notes(named: Named, words: Sequence[str]) -> list[Note]:
    """A warning if positions are counted, as pixels are, and said to be lengths."""
    arrays = [one.array for one in named.coordinates]
    if not arrays or not all(np.array_equal(one, np.rint(one)) for one in arrays) or not all(map(is_length, words)):
        return []
    text = f"all positions are whole numbers; pixels taken for {words[0]}?"
    return [Note("warning", text, (named.raw.path.name,))]


def _own_scale(raw: Raw) -> str | None:
    """The size of a pixel, where the file says it."""
    scale, ratio, unit = (raw.attributes.get(key) for key in ("scale", "pixtounits", "units"))
    if isinstance(ratio, float) and isinstance(unit, str) and raw.format == "ncorr":
        return f"{ratio!r} {unit}/px"
    return scale if isinstance(scale, str) else None

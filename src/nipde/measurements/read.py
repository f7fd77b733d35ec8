"""Files that people have to pairs on a grid in stated units, with every step of the reading said aloud."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch

from nipde.context.pairs import Pairs
from nipde.errors import MeasurementError, NipdeError
from nipde.grid import AXES, Grid
from nipde.measurements.clouds import Reading, read_pairs
from nipde.measurements.description import Description
from nipde.measurements.gridding import Cloud, Gridded, choose_grid, put_on_grid
from nipde.measurements.loads import described_loads
from nipde.measurements.measurement import Measurement, Note, Source
from nipde.measurements.names import Values, array_of
from nipde.measurements.parse import parse
from nipde.measurements.raw import Raw
from nipde.measurements.remarks import readings, warnings
from nipde.measurements.rigid_motion import motion_names, remove_rigid_motion
from nipde.measurements.sandbox import DEFAULT_LIMITS, Limits
from nipde.measurements.stated_units import check_keys, check_stated, conversion, pixel_notes, stated_unit
from nipde.measurements.units import Units, amount

Names = str | Sequence[str]


def read(
    path: str | Path | Sequence[str | Path],
    *,
    units: Mapping[str, str] | None = None,
    response: Names | None = None,
    load: Names | None = None,
    nodes: int | Sequence[int] | None = None,
    scale: str | None = None,
    description: Description | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Measurement:
    """Pairs from a file, from several of them, or from a TOML file that names and describes them.

    `units` gives units by role (`x`, `load`, `response`) or by name of an array, where files do not state them.
    `response` and `load` name the arrays, one for each component; `nodes` is the grid that scattered points go to;
    `scale` is the size of a pixel, such as `0.05 mm/px`. Everything else stands in a `Description`; what is given here
    comes before it. `limits` bound the time and memory that a file may take.
    """
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(one) for one in path]
    if not paths:
        raise MeasurementError(expected="at least one file", got="none", remedy="name the files")
    given = description or Description()
    if len(paths) == 1 and paths[0].suffix.lower() == ".toml":
        if description is not None:
            raise MeasurementError(expected="a TOML file or a Description", got="both", remedy="leave one out")
        given = Description.from_toml(paths[0])
        paths = [Path(name) for name in given.files]
    given = _overridden(given, units=units, response=response, load=load, nodes=nodes, scale=scale)
    raws = [parse(one, format=given.format, limits=limits) for one in paths]
    amounts = None if given.amounts is None else parse(Path(given.amounts), limits=limits)
    return interpret(raws, given, amounts=amounts)


def interpret(raws: Sequence[Raw], description: Description, *, amounts: Raw | None = None) -> Measurement:
    """The pairs of files that have been parsed."""
    with _naming([raw.path for raw in (*raws, *([amounts] if amounts else []))]):
        return _interpreted(raws, description, amounts)


@contextmanager
def _naming(paths: Sequence[Path]) -> Iterator[None]:
    """Errors that say nothing of a file name those that were read."""
    try:
        yield
    except NipdeError as error:
        names = [path.name for path in paths]
        if any(name in str(error) for name in names):
            raise
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise MeasurementError(f"{', '.join(names[:3])}{more}: {error}") from error


def _interpreted(raws: Sequence[Raw], description: Description, amounts: Raw | None) -> Measurement:
    check_keys(description.units, (name for raw in raws for name in raw.arrays))
    parts, units, notes = _in_common_units(raws, description)
    clouds = [cloud for part in parts for cloud in part.clouds]
    box = [(first * one, last * one) for (first, last), one in zip(description.box, parts[0].length, strict=False)]
    grid, origin = choose_grid(
        _distinct(clouds), nodes=description.node_counts, box=box, boundaries=description.boundaries
    )
    gridded = _together([put_on_grid(cloud, grid, origin=origin) for cloud in clouds])
    notes += _gridding_notes(gridded, grid)
    responses, mask, loads = gridded.response, gridded.mask, gridded.load
    if loads is None:
        with _naming([amounts.path] if amounts else [raw.path for raw in raws]):
            table = None if amounts is None else amounts.arrays
            loads = described_loads(description.loads, grid, origin=origin, units=units, amounts=table)
        notes.append(Note("reading", f"Loads are described: {_kinds(description)}."))
    if len(loads) != len(responses):
        raise MeasurementError(
            "loads and responses do not pair up", expected=f"{len(responses)} loads, one for each response",
            got=len(loads), remedy="number the loads with pair =, or give the table of amounts a row for each response",
        )  # fmt: skip
    if not mask.any():
        raise MeasurementError(
            "no node has a measured response", expected="points near the nodes", got="none",
            remedy="give fewer nodes, or the box of the points",
        )  # fmt: skip
    if description.rigid_motion:
        responses, motion = remove_rigid_motion(responses, mask, grid)
        notes.append(_motion_note(motion, motion_names(grid, responses.shape[1]), units))
    noise, noise_note = _noise(raws, parts, description, units, responses[mask])
    fields = (units, loads, responses, mask)
    files = [Note("reading", f"{raw.path.name}: read as {raw.format}, SHA-256 {raw.sha256[:12]}.") for raw in raws]
    pairs = Pairs.from_arrays(loads, responses, grid=grid, mask=None if mask.all() else mask, noise=noise)
    return Measurement(
        pairs=pairs.to(dtype=torch.float64),
        units=units,
        origin=origin,
        sources=tuple(Source(raw.path.name, raw.format, raw.sha256) for raw in raws),
        notes=(*files, *readings(grid, origin, *fields), noise_note, *notes, *warnings(grid, *fields)),
    )


class _Part(NamedTuple):
    """Pairs of one file in the units of the measurement, and what turned its positions and responses into these."""

    clouds: list[Cloud]
    length: np.ndarray
    response: np.ndarray


def _in_common_units(raws: Sequence[Raw], description: Description) -> tuple[list[_Part], Units, list[Note]]:
    """Pairs of all files in the units of the first, pixels as lengths."""
    notes: list[Note] = []
    parts, units = [], None
    for raw in raws:
        reading = read_pairs(raw, description)
        notes += reading.notes
        part, units = _part(raw, reading, description, units, notes)
        parts.append(part)
    assert units is not None
    return parts, units, _said_once(notes, [raw.path.name for raw in raws])


def _said_once(notes: Sequence[Note], names: Sequence[str]) -> list[Note]:
    """What is said of many files alike is said of the first, with the number of the others."""
    alike: dict[tuple[str, str], list[Note]] = {}
    for note in dict.fromkeys(notes):
        name = next((name for name in names if note.text.startswith(name)), "")
        alike.setdefault((note.kind, note.text.removeprefix(name)), []).append(note)
    return [
        first if not more else replace(first, text=f"{first.text} (And {len(more)} more files alike.)")
        for first, *more in alike.values()
    ]


def _part(
    raw: Raw, reading: Reading, description: Description, units: Units | None, notes: list[Note]
) -> tuple[_Part, Units]:
    """The pairs of one file in `units`, or in its own if it is the first."""
    scale = description.scale or _own_scale(raw)

    def factors(wanted: Sequence[tuple[Values | None, str]], unit: str | None) -> tuple[np.ndarray, str]:
        found = []
        for one, role in wanted:
            stated = stated_unit(raw, one, role=role, units=description.units, notes=notes)
            of = f"{one.name if one else role!r} in {raw.path.name}"
            factor, unit = conversion(stated, scale=scale, target=unit, of=of)
            found.append(factor)
        assert unit is not None
        return np.array(found), unit

    places = list(zip(reading.coordinates or (None,) * description.dimension, AXES, strict=False))
    answers = [(one, "response") for one in reading.response]
    causes = [(one, "load") for one in reading.load or (None,)]
    check_stated(raw, [*places, *causes, *answers], description.units)
    notes += pixel_notes(raw, reading.coordinates, description.units)
    length, length_unit = factors(places, units.length if units else None)
    response, response_unit = factors(answers, units.response if units else None)
    load, load_unit = factors(causes, units.load if units else None)
    clouds = [
        Cloud(
            where=cloud.where * length,
            response=cloud.response * response[:, None],
            valid=cloud.valid,
            load=None if cloud.load is None else cloud.load * load[:, None],
        )
        for cloud in reading.clouds
    ]
    return _Part(clouds, length, response), Units(length_unit, load_unit, response_unit)


def _own_scale(raw: Raw) -> str | None:
    """The size of a pixel, where the file says it."""
    scale, ratio, unit = (raw.attributes.get(key) for key in ("scale", "pixtounits", "units"))
    if isinstance(ratio, float) and isinstance(unit, str) and raw.format == "ncorr":
        return f"{ratio!r} {unit}/px"
    return scale if isinstance(scale, str) else None


def _noise(
    raws: Sequence[Raw], parts: Sequence[_Part], description: Description, units: Units, responses: np.ndarray
) -> tuple[float | None, Note]:
    """Standard deviation of the responses' error, as described or as the files have it."""
    level, whence = None, "as described"
    if isinstance(description.noise, str) and description.noise.strip().endswith("%"):
        share = amount(description.noise, unit="1", of="the noise")
        level, whence = share * float(np.sqrt(np.mean(responses**2))), f"{description.noise.strip()} of their size"
    elif description.noise is not None:
        level = amount(description.noise, unit=units.response, of="the noise")
    else:
        stored = [
            np.asarray(found if found is not None else raw.attributes.get("noise", ()), dtype=float).ravel()
            * float(part.response[0])
            for raw, part in zip(raws, parts, strict=True)
            for found in (array_of(raw, "noise"),)
        ]
        values = np.concatenate(stored)
        if values.size:
            level, whence = float(np.sqrt(np.mean(values**2))) * (-1 if (values < 0).any() else 1), "by the files"
    if level is None:
        return None, Note("reading", "Noise of the responses: not stated.")
    if not 0 <= level < np.inf:
        raise MeasurementError(
            "noise of the responses", expected="a standard deviation >= 0", got=f"{level:g}",
            remedy="give noise = a number, or leave it out if unknown",
        )  # fmt: skip
    return level, Note("reading", f"Noise of the responses: {level:.3g} {units.response}, {whence}.")


def _distinct(clouds: Sequence[Cloud]) -> np.ndarray:
    """Points of all clouds, those of many pairs once."""
    seen: dict[bytes, np.ndarray] = {cloud.where.tobytes(): cloud.where for cloud in clouds}
    return np.concatenate(list(seen.values()))


def _together(parts: Sequence[Gridded]) -> Gridded:
    """The pairs of all files, one after another."""
    for name in ("response", "load"):
        shapes = {field.shape[1] for part in parts if (field := getattr(part, name)) is not None}
        if len(shapes) > 1:
            raise MeasurementError(
                f"files differ in components of the {name}", expected="as many in each", got=sorted(shapes),
                remedy="name the same arrays in all of them",
            )  # fmt: skip
    loads = [part.load for part in parts if part.load is not None]
    return Gridded(
        response=np.concatenate([part.response for part in parts]),
        mask=np.concatenate([part.mask for part in parts]),
        load=np.concatenate(loads) if loads else None,
        interpolated=any(part.interpolated for part in parts),
        load_extended=max(part.load_extended for part in parts),
        outside=max(part.outside for part in parts),
    )


def _gridding_notes(gridded: Gridded, grid: Grid) -> list[Note]:
    notes = []
    if gridded.interpolated:
        notes.append(Note("reading", "Points are scattered: responses are linear between the points next to a node."))
    else:
        notes.append(Note("reading", "Points are the nodes: values were put in order and not changed."))
    if gridded.load_extended:
        kind: Literal["reading", "warning"] = "warning" if gridded.load_extended > 0.1 * grid.size else "reading"
        notes.append(Note(kind, f"{gridded.load_extended} nodes lie beyond the points: load of the nearest point."))
    if gridded.outside:
        notes.append(Note("warning", f"{gridded.outside} points lie outside the box and were left out."))
    return notes


def _motion_note(motion: np.ndarray, names: tuple[str, ...], units: Units) -> Note:
    sizes = ", ".join(f"{name} {size:.3g}" for name, size in zip(names, np.abs(motion).max(axis=0), strict=True))
    return Note("reading", f"Rigid motion removed; at most {sizes} (in {units.response}, per {units.length}).")


def _kinds(description: Description) -> str:
    kinds = [term.shape.kind for term in description.loads]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def _overridden(
    description: Description,
    *,
    units: Mapping[str, str] | None,
    response: Names | None,
    load: Names | None,
    nodes: int | Sequence[int] | None,
    scale: str | None,
) -> Description:
    """What the caller says comes before what stands in a file."""
    changed = replace(description, units={**description.units, **(units or {})}, scale=scale or description.scale)
    if response is not None:
        changed = replace(changed, response=(response,) if isinstance(response, str) else tuple(response))
    if load is not None:
        changed = replace(changed, load=(load,) if isinstance(load, str) else tuple(load))
    if nodes is not None:
        changed = replace(changed, nodes=(nodes,) if isinstance(nodes, int) else tuple(nodes))
    return changed

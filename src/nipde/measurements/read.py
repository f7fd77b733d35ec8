"""Files of measurements to pairs on a grid in stated units: parse -> name -> locate -> convert -> grid.

Each step is a file of that name, and returns its value with notes on how it understood what it got.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nipde.context.pairs import Pairs
from nipde.discretisation.load_case import LoadCase
from nipde.errors import MeasurementError, naming
from nipde.measurements.axes_of_file import with_axes_of
from nipde.measurements.convert import Converted, check_keys, convert, noise_level
from nipde.measurements.description import Description
from nipde.measurements.gridding import to_grid
from nipde.measurements.loads import OnPart, cases_on_outline, check_point_loads, described_loads
from nipde.measurements.locate import locate
from nipde.measurements.measurement import Measurement, Note, Source, printable
from nipde.measurements.name import name_arrays
from nipde.measurements.outline import Outline, PartDescription
from nipde.measurements.parse import Raw, parse
from nipde.measurements.plausibility import check_dirichlet_sides, summary, warnings
from nipde.measurements.readings import readings_at_points
from nipde.measurements.rigid_motion import remove_rigid_motion
from nipde.measurements.sandbox import DEFAULT_LIMITS, Limits

Names = str | Sequence[str]
#: Files with a reader of their own.
ELSEWHERE = {
    ".cmp": ("a campaign of pumping tests", "pumping_tests.PumpingCampaign"),
    ".ohm": ("a survey of resistances", "resistance_survey.ResistanceSurvey"),
}


def read(
    path: str | Path | Sequence[str | Path],
    *,
    units: Mapping[str, str] | None = None,
    response: Names | None = None,
    load: Names | None = None,
    nodes: int | Sequence[int] | None = None,
    scale: str | None = None,
    outline: str | Path | None = None,
    outline_layer: str | None = None,
    outline_pixel: str | None = None,
    outline_heights: Sequence[float] | None = None,
    parts: Mapping[str, PartDescription] | None = None,
    specimen: str | None = None,
    date: str | None = None,
    description: Description | None = None,
    limits: Limits = DEFAULT_LIMITS,
    files_anywhere: bool = False,
) -> Measurement:
    """Pairs from a file, from several of them, or from a TOML file that names and describes them.

    `units` gives units by role (`x`, `load`, `response`) or by name of an array, where files do not state them.
    `response` and `load` name the arrays, one for each component; `nodes` is the grid that scattered points go to;
    `scale` is the size of a pixel, such as `0.05 mm/px`. `outline` is a file with the outline of the specimen,
    `outline_layer` its layer in a drawing and `outline_pixel` the size of a pixel of a picture; over three axes it is
    the outline at all `outline_heights` from the first to the second; `parts` says what holds on parts of it, such as
    `{"left": PartDescription("dirichlet")}`. `specimen` is its name and
    `date` the day of the measurement, such as `2026-11-03`, for the report. Everything else stands in a `Description`;
    what is given here comes before it. `limits` bound the time and memory that a file may take. A TOML
    file may name files in its folder and below; `files_anywhere` lifts that.
    """
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(one) for one in path]
    if not paths:
        raise MeasurementError("read", expected="at least one file", got="none", remedy="name the files")
    if len(paths) == 1 and paths[0].suffix.lower() == ".toml":
        if description is not None:
            raise MeasurementError("read", expected="a TOML file or a Description", got="both", remedy="leave one out")
        description = Description.from_toml(paths[0], files_anywhere=files_anywhere)
        paths = [Path(name) for name in description.files]
    for suffix, (what, reader) in ELSEWHERE.items():
        if any(one.suffix.lower() == suffix for one in paths):
            raise MeasurementError(
                expected="tables or arrays", got=what, remedy=f"read it with nipde.measurements.{reader}.read"
            )
    description = description or Description()
    given = {"response": response, "load": load, "nodes": nodes, "outline_heights": outline_heights}
    changed: dict[str, Any] = {
        key: (value,) if isinstance(value, str | int) else tuple(value)
        for key, value in given.items()
        if value is not None
    }
    texts = {
        "scale": scale, "outline": outline, "outline_layer": outline_layer, "outline_pixel": outline_pixel,
        "specimen": specimen, "date": date,
    }  # fmt: skip
    changed |= {key: str(value) for key, value in texts.items() if value is not None}
    changed |= {"units": {**description.units, **(units or {})}, "parts": {**description.parts, **(parts or {})}}
    described = replace(description, **changed)
    raws = [parse(one, format=described.format, limits=limits) for one in paths]
    amounts = None if described.amounts is None else parse(Path(described.amounts), limits=limits)
    return interpret(raws, described, amounts=amounts)


def interpret(raws: Sequence[Raw], description: Description, *, amounts: Raw | None = None) -> Measurement:
    """The pairs of files that have been parsed; `amounts` is the table of how much of each described load acted."""
    files: list[Converted] = []
    with naming(raws[0].path.name):
        description, notes = with_axes_of(raws[0], description)
    for raw in raws:
        with naming(raw.path.name):
            check_keys(description.units, (name for one in raws for name in one.arrays))
            named, on_names = name_arrays(raw, description)
            data, on_places = locate(named, description)
            file, on_units = convert(named, data, description, target=files[0].units if files else None)
        files.append(file)
        notes += [*on_names, *on_places, *on_units]
    units = files[0].units
    data, outline, on_outline = [one for file in files for one in file.data], None, list[Note]()
    if description.outline is not None:
        outline = Outline.read(
            description.outline, description.parts, length=files[0].length, unit=units.length,
            layer=description.outline_layer, pixel=description.outline_pixel, heights=description.outline_heights,
        )  # fmt: skip
        data, on_outline = outline.within(data)
    with naming(*(raw.path.name for raw in raws)):
        gridded, on_grid = to_grid(data, description, length=files[0].length, outline=outline)
        if description.rigid_motion:
            gridded, on_motion = remove_rigid_motion(gridded, units)
            on_grid += on_motion
        specimen = None
        if outline is None:
            check_dirichlet_sides(gridded)
        else:
            specimen = outline.specimen(origin=gridded.origin, units=units)
            described = [term.shape.part for term in description.loads if isinstance(term.shape, OnPart)]
            on_outline += outline.notes(gridded.grid, units=units, origin=gridded.origin, described=described)
            gridded = replace(gridded, mask=gridded.mask & specimen.shape.holds_nodes(gridded.grid))
    loads = gridded.load
    with naming(*(raw.path.name for raw in ([amounts] if amounts else raws))):
        table = None if amounts is None else amounts.arrays
        if loads is None and not description.loads:
            loads = np.zeros((len(gridded.response), 1, *gridded.grid.shape))
        elif loads is None:
            loads, on_loads = described_loads(
                description.loads, gridded.grid, origin=gridded.origin, units=units, amounts=table
            )
            on_grid += on_loads
        if len(loads) != len(gridded.response):
            raise MeasurementError(
                "loads and responses do not pair up", expected=f"{len(gridded.response)} loads, one for each response",
                got=len(loads),
                remedy="number the loads with pair =, or give the table of amounts a row for each response",
            )  # fmt: skip
        cases: tuple[LoadCase, ...] = ()
        if outline is not None:
            always = outline.in_all_tests(units)
            cases = cases_on_outline(
                description.loads, always, pairs=len(loads), origin=gridded.origin, units=units, amounts=table
            )
            check_point_loads(description.loads, outline.shape)
        measured = gridded.response[gridded.mask]
        if gridded.interpolated or specimen is not None:  # a share is one of what was read, not of what lies between
            measured = np.concatenate([one.response[one.valid] for one in data])
        noise, on_noise = noise_level(description, files, measured)
        mask = None if gridded.mask.all() else gridded.mask
        pairs = Pairs.from_arrays(loads, gridded.response, grid=gridded.grid, mask=mask, noise=noise)
    sources = tuple(Source(printable(raw.path.name), raw.format, raw.sha256) for raw in raws)
    sources += () if outline is None else (outline.source,)
    on_files = [Note("reading", f"read as {one.format}, SHA-256 {one.sha256[:12]}.", (one.name,)) for one in sources]
    pairs, acts = pairs.to(dtype=torch.float64), any(case.values or case.fluxes for case in cases)
    readings = readings_at_points(data, pairs, gridded, specimen, cases if acts else ())
    notes = [*on_files, *summary(gridded, loads, units, readings), on_noise, *_said_once(notes), *on_outline, *on_grid]
    notes += warnings(gridded, loads, units, specimen, outline=acts)
    stated = description.specimen, description.date
    return Measurement(pairs, units, gridded.origin, sources, (*identity(*stated), *notes), readings, *stated)


def identity(specimen: str | None, date: str | None) -> list[Note]:
    """Name of the specimen and day of the measurement, if stated."""
    words = [f"specimen {specimen}" if specimen else "", f"measured on {date}" if date else ""]
    return [Note("reading", f"{', '.join(filter(None, words))}.")] if any(words) else []


def _said_once(notes: Iterable[Note]) -> list[Note]:
    """What is said of many files alike is said of the first, with the number of the others."""
    alike: dict[tuple[str, ...], list[Note]] = {}
    for note in notes:
        alike.setdefault((note.kind, note.text, *note.where[1:]), []).append(note)
    return [
        first if not more else replace(first, text=f"{first.text} (And {len(more)} more files alike.)")
        for first, *more in alike.values()
    ]

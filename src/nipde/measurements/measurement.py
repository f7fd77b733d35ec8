"""A measurement: pairs on a grid in stated units, where they come from, and how they were read."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.discretisation.parts import Specimen
from nipde.measurements.units import Units

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Source:
    """One file that was read."""

    name: str
    format: str
    sha256: str


@dataclass(frozen=True)
class Note:
    """One sentence on how the files were understood; a warning wants to be looked at."""

    kind: Literal["reading", "warning"]
    text: str
    #: The file, and the array in it; empty for the measurement as a whole.
    where: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = powers(self.text)
        return printable(f"{', '.join(self.where)}: {text}" if self.where else text)


@dataclass(frozen=True, eq=False)
class Measurement:
    """Pairs in double precision; lengths of the grid, loads and responses in `units`."""

    pairs: Pairs
    units: Units
    #: Position of the grid's first node in the coordinates of the files.
    origin: tuple[float, ...]
    sources: tuple[Source, ...]
    notes: tuple[Note, ...]
    #: What was read at scattered points, which `pairs` hold interpolated to the nodes; None where points are the nodes
    #: of a box.
    readings: SensorPairs | None = None
    #: As stated: name of the specimen, and day of the measurement.
    specimen_name: str | None = None
    date: str | None = None

    @property
    def specimen(self) -> Specimen | None:
        """Shape and conditions of its outline, measured from the first node; None if it fills the box."""
        return None if self.readings is None else self.readings.specimen

    @property
    def positions(self) -> dict[str, Float[np.ndarray, " node"]]:
        """Of the nodes along every axis by its name, as in the files."""
        axes = zip(self.pairs.grid.axis_names, self.pairs.grid.axes, self.origin, strict=True)
        return {name: axis.coordinates + first for name, axis, first in axes}

    def interpretation(self) -> str:
        """The notes as text, one per line, warnings marked."""
        return as_text(self.notes)


def as_text(notes: Iterable[Note]) -> str:
    """One note per line, warnings marked."""
    return "\n".join(f"{'WARNING: ' if note.kind == 'warning' else ''}{note}" for note in notes)


def powers(text: str) -> str:
    """`N/mm^2` as N/mm²."""
    return re.sub(r"\^(-?\d+)", lambda power: power[1].translate(RAISED), text)


def printable(text: str) -> str:
    """Bytes of a file name that are not UTF-8 as escapes."""
    return text.encode(errors="backslashreplace").decode()

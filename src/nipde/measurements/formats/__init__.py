"""Kinds of files: ours in a table, those of other packages through the entry point group `nipde.formats`.

A package adds one with a single file, named in its `pyproject.toml` as `mylab = "mylab.nipde_format:FORMAT"`:

    FORMAT = Format("mylab", module=__name__, suffixes=(".lab",))

    def parse(path, *, values):
        contents = Contents(values)
        contents.add("x", ..., unit="mm")
        return contents

`parse` runs in a child process with limits on time and memory, so its module should not import torch.
"""

import math
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np

from nipde.errors import MeasurementError

#: How contents begin, as regular expressions for the first 1,024 bytes.
ZIP = rb"PK\x03\x04"
HDF5 = rb"(?!MATLAB)(.{512})?\x89HDF\r\n\x1a\n"
MATLAB = rb"MATLAB (5\.0|7\.3)|" + HDF5
NETCDF = rb"CDF|" + HDF5
VTK = rb"# vtk DataFile|.*<VTKFile"
TEXT = rb"(?!" + VTK + rb")[^\0]*\Z"

LONGEST_NAME = 500


@dataclass
class Contents:
    """Filled by a reader, array by array; `values` is the number of values that may still come."""

    values: int
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str | float] = field(default_factory=dict)
    valid: np.ndarray | None = None
    skipped: list[str] = field(default_factory=list)

    def reserve(self, name: str, shape: Sequence[int]) -> None:
        """Refuse an array by its declared shape, before memory is spent on it."""
        count = math.prod(map(int, shape))
        if min(shape, default=0) < 0 or count > self.values:
            raise MeasurementError(
                f"array {name!r} of shape {tuple(map(int, shape))}",
                expected=f"at most {self.values:,} more values",
                got=f"{count:,}",
                remedy="read a part of the file, or pass Limits(values=...)",
            )
        self.values -= count

    def add(self, name: str, array: np.ndarray, *, unit: str | None = None) -> None:
        """Keep an array for which room was reserved."""
        if array.dtype.kind not in "biuf":
            raise MeasurementError(f"array {name!r}", expected="real numbers or booleans", got=f"dtype {array.dtype}")
        if len(name) > LONGEST_NAME:
            raise MeasurementError(expected=f"names of at most {LONGEST_NAME} characters", got=f"{name[:80]}…")
        if name in self.arrays:
            raise MeasurementError(expected="every name once", got=f"{name!r} twice", remedy="rename one of them")
        wide = array.dtype.kind == "f" and array.dtype.itemsize > 8
        self.arrays[name] = array.astype(np.float64 if wide else array.dtype.newbyteorder("="), copy=False)
        if unit:
            self.units[name] = unit

    def note(self, name: str, value: object) -> None:
        """Keep a number or a text as an attribute; anything else is named among the skipped."""
        if isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
            self.attributes[name] = float(value)
        elif isinstance(value, str):
            self.attributes[name] = str(value)
        else:
            self.skipped.append(name)


@dataclass(frozen=True)
class Format:
    """One kind of file.

    `module` names the module with `parse(path, *, values) -> Contents`. Where formats share suffixes and content, it
    also has `recognises(path) -> bool`, by which the more special one takes its files.
    """

    name: str
    module: str
    suffixes: tuple[str, ...]
    #: How such a file begins, one of the above; anything if empty.
    content: bytes = b""

    def fits(self, start: bytes) -> bool:
        """Whether a file may begin like this."""
        return re.match(self.content, start, re.DOTALL) is not None

    def recognises(self, path: Path) -> bool:
        """Whether a file of fitting suffix and content is one of these."""
        look = getattr(import_module(self.module), "recognises", None)
        return look is None or bool(look(path))

    def parse(self, path: Path, *, values: int) -> Contents:
        """Its arrays, at most so many values."""
        contents: Contents = import_module(self.module).parse(path, values=values)
        return contents


def registered() -> tuple[Format, ...]:
    """All formats, those of other packages first, ours from special to general."""
    return (*_brought(tuple(sys.path)), *OURS)


def names() -> tuple[str, ...]:
    """What can be given as `format=`."""
    return tuple(dict.fromkeys(format.name for format in reversed(registered())))


@cache
def _brought(path: tuple[str, ...]) -> tuple[Format, ...]:
    """Of the packages on this path; one that cannot be loaded is left out with a warning."""
    formats = []
    for entry in entry_points(group="nipde.formats"):
        try:
            format = entry.load()
            if not isinstance(format, Format):
                raise TypeError(f"expected a Format, got {type(format).__name__}")
        except Exception as error:
            warnings.warn(f"file format {entry.name!r} ({entry.value}) is left out: {error}", stacklevel=2)
        else:
            formats.append(format)
    return tuple(formats)


def _ours(name: str, suffixes: str, content: bytes) -> Format:
    return Format(name, f"{__name__}.{name}", tuple(suffixes.split()), content)


_TABLES = ".csv .txt .tsv .dat"
OURS = (
    _ours("dice", _TABLES, TEXT),
    _ours("vic", _TABLES, TEXT),
    _ours("matchid", _TABLES, TEXT),
    _ours("aramis", _TABLES, TEXT),
    _ours("mudic", _TABLES, TEXT),
    _ours("mudic", ".npz", ZIP),
    _ours("ncorr", ".mat", MATLAB),
    _ours("netcdf", ".nc .nc4 .cdf", NETCDF),
    _ours("vtk", ".vtk .vtu", VTK),
    _ours("csv", _TABLES, TEXT),
    _ours("hdf5", ".h5 .hdf5 .hdf", HDF5),
    _ours("mat", ".mat", MATLAB),
    _ours("npz", ".npz", ZIP),
)

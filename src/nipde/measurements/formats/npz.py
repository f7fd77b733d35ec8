"""NumPy archives: arrays by name; `units` is a text of JSON, single numbers and texts are attributes."""

import json
import math
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
from numpy.lib import format as npy

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents


def parse(path: Path, *, values: int) -> Contents:
    """Every array, without ever unpickling; sizes are checked before anything is inflated."""
    contents = Contents(values)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > values * 8 + 4096 * len(members):
            raise MeasurementError(
                expected=f"at most {values * 8:,} bytes when inflated",
                got=f"{total:,}",
                remedy="read a part of the file, or pass Limits(values=...)",
            )
        for member in members:
            _read_member(archive, member, contents)
    return contents


def names(path: Path) -> set[str]:
    """Of the arrays in an archive, without reading them; none if it is no archive."""
    if not zipfile.is_zipfile(path):
        return set()
    with zipfile.ZipFile(path) as archive:
        return {name.removesuffix(".npy") for name in archive.namelist()}


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, contents: Contents) -> None:
    inside = PurePosixPath(member.filename)
    if inside.is_absolute() or ".." in inside.parts or "\\" in member.filename or inside.suffix != ".npy":
        raise MeasurementError(expected="members such as loads.npy", got=repr(member.filename))
    name = member.filename.removesuffix(".npy")
    with archive.open(member) as stream:
        shape, dtype = _header(stream)
        expected = math.prod(shape) * dtype.itemsize + stream.tell()
        if dtype.kind not in "biufU" or (dtype.kind == "U" and shape):
            raise MeasurementError(
                f"array {name!r}", expected="numbers, booleans, or one text", got=f"dtype {dtype}, shape {shape}",
                remedy="store real numbers",
            )  # fmt: skip
        if expected != member.file_size:
            raise MeasurementError(
                f"array {name!r} of shape {shape}", expected=f"{expected:,} bytes", got=f"{member.file_size:,}"
            )
        contents.reserve(name, shape)
    with archive.open(member) as stream:
        array = npy.read_array(stream, allow_pickle=False)
        stream.read(1)  # the checksum is compared at the end of the stream
    if name == "units" and array.dtype.kind == "U":
        contents.units.update(_units(str(array)))
    elif array.shape == ():
        contents.note(name, array.item())
    else:
        contents.add(name, array)


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    version = npy.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = npy.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = npy.read_array_header_2_0(stream)
    else:
        raise MeasurementError(expected="an array in version 1 or 2 of NumPy's format", got=f"version {version}")
    return shape, dtype


def _units(text: str) -> dict[str, str]:
    units = json.loads(text)
    if not isinstance(units, dict) or not all(isinstance(unit, str) for unit in units.values()):
        raise MeasurementError("units", expected='JSON such as {"x": "mm", "loads": "N/m^2"}', got=repr(text[:200]))
    return units

"""Campaigns of pumping tests as welltestpy stores them: a zip of texts (CSV) and of zips, at most three deep.

Arrays are `wells/NAME/coordinates`, `tests/NAME/WELL/time` and `tests/NAME/WELL/drawdown`; numbers are attributes, such
as `tests/NAME/rate` and `wells/NAME/radius`, and so is the name of the pumped well, `tests/NAME/well`.
"""

import csv
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents

#: A number as text, and what surrounds it: a campaign may hold so many bytes for every value that may come.
BYTES_PER_VALUE = 32
SUFFIXES = (".csv", ".fds", ".wel", ".tst", ".obs", ".var")
#: Of the layout: later ones are not known.
MAJOR_VERSION = 1
Rows = list[list[str]]


def parse(path: Path, *, values: int) -> Contents:
    """Wells and tests; the site's own coordinates are left alone."""
    contents = Contents(values)
    campaign = _Archive(path.read_bytes(), _Budget(values * BYTES_PER_VALUE))
    info = campaign.info("Campaign")
    for well, file in _listed(info, "Wells"):
        _read_well(well, campaign.within(file), contents)
    for test, file in _listed(info, "Tests"):
        _read_test(test, campaign.within(file), contents)
    return contents


@dataclass
class _Budget:
    """Bytes that may still be inflated, over all archives within each other."""

    left: int

    def spend(self, size: int) -> None:
        if size > self.left:
            raise MeasurementError(
                expected=f"at most {self.left:,} more bytes when inflated", got=f"{size:,}",
                remedy="pass Limits(values=...)",
            )  # fmt: skip
        self.left -= size


class _Archive:
    """A zip in memory whose `info.csv` names the other members."""

    def __init__(self, content: bytes, budget: _Budget) -> None:
        self._archive, self._budget = zipfile.ZipFile(io.BytesIO(content)), budget
        for member in self._archive.infolist():
            inside = PurePosixPath(member.filename)
            if len(inside.parts) != 1 or "\\" in member.filename or inside.suffix not in SUFFIXES:
                raise MeasurementError(expected="members such as info.csv or well.wel", got=repr(member.filename))

    def read(self, name: str) -> bytes:
        if name not in self._archive.namelist():
            raise MeasurementError(expected=f"the member {name[:80]!r} that info.csv names", got="none")
        member = self._archive.getinfo(name)
        self._budget.spend(member.file_size)
        return self._archive.read(member)

    def rows(self, name: str, kind: str) -> Rows:
        """Lines of a text below its heading, which says what it is of."""
        lines = [row for row in csv.reader(io.StringIO(self.read(name).decode("utf-8"))) if row]
        if lines and lines[0][0] == "wtp-version":
            major = int(lines.pop(0)[1].split(".")[0])
            if major > MAJOR_VERSION:
                raise MeasurementError(expected=f"layout of welltestpy {MAJOR_VERSION}", got=f"version {major}")
        if not lines or lines[0][0] != kind:
            raise MeasurementError(f"{name[:80]!r}", expected=f"a {kind}", got=lines[0][0][:80] if lines else "nothing")
        return lines[1:]

    def info(self, kind: str) -> Rows:
        return self.rows("info.csv", kind)

    def within(self, name: str) -> "_Archive":
        return _Archive(self.read(name), self._budget)

    def variable(self, file: str) -> tuple[np.ndarray, str]:
        """Values of any shape, and their unit."""
        rows = self.rows(file, "Variable")
        unit = _entry(rows, "units")
        if any(row[0] == "value" for row in rows):
            return np.array(float(_entry(rows, "value"))), unit
        shape = next(tuple(map(int, row[1:])) for row in rows if row[0] == "shape")
        start = next(place for place, row in enumerate(rows) if row[0] == "values")
        if len(rows) - start - 1 != int(rows[start][1]):
            raise MeasurementError(f"{file[:80]!r}", expected=f"{rows[start][1]} values", got=len(rows) - start - 1)
        return np.array([float(row[0]) for row in rows[start + 1 :]]).reshape(shape), unit


def _read_well(name: str, well: _Archive, contents: Contents) -> None:
    info = well.info("Well")
    for key in ("radius", "coordinates", "welldepth", "aquiferdepth"):
        _keep(f"wells/{name}/{key}", *well.variable(_entry(info, key)), contents)


def _read_test(name: str, test: _Archive, contents: Contents) -> None:
    info = test.info("Testtype")
    contents.note(f"tests/{name}/well", _entry(info, "pumpingwell"))
    rate = _entry(info, "pumpingrate")
    if not rate.endswith(".var"):
        raise MeasurementError(f"test {name[:80]!r}", expected="one constant rate", got="one that changes in time")
    _keep(f"tests/{name}/rate", *test.variable(rate), contents)
    for well, file in _listed(info, "Observations"):
        observation = test.within(file)
        entries = observation.info("Observation")
        if _entry(entries, "state") != "transient":
            raise MeasurementError(
                f"test {name[:80]!r}, well {well[:80]!r}", expected="drawdowns in time", got=_entry(entries, "state")
            )
        for key, of in (("time", "time"), ("drawdown", "observation")):
            _keep(f"tests/{name}/{well}/{key}", *observation.variable(_entry(entries, of)), contents)


def _keep(name: str, values: np.ndarray, unit: str, contents: Contents) -> None:
    contents.units[name] = unit
    if values.ndim == 0:
        contents.note(name, values.item())
    else:
        contents.reserve(name, values.shape)
        contents.add(name, values)


def _entry(rows: Rows, key: str) -> str:
    """What stands beside a key."""
    found = next((row[1] for row in rows if row[0] == key and len(row) > 1), None)
    if found is None:
        raise MeasurementError(
            expected=f"a line {key!r}", got="none", remedy="store the campaign again with welltestpy"
        )
    return found


def _listed(rows: Rows, heading: str) -> Rows:
    """Names and files below a heading that says how many there are."""
    start = next((place for place, row in enumerate(rows) if row[0] == heading and len(row) > 1), None)
    if start is None:
        raise MeasurementError(expected=f"a list of {heading}", got="none")
    named = rows[start + 1 : start + 1 + int(rows[start][1])]
    if len(named) != int(rows[start][1]) or any(len(row) < 2 or "/" in row[0] for row in named):
        raise MeasurementError(expected=f"{rows[start][1]} {heading}, each with a name and a file", got="others")
    return [row[:2] for row in named]

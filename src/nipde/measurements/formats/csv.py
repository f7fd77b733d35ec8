"""Tables in text: a line of names, units behind them, then lines of numbers; comma, semicolon or tab between."""

import csv
import io
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents

#: Words for a value that is not there.
MISSING = {"", "nan", "-nan", "n/a", "na", "nan(ind)", "-nan(ind)", "1.#qnan", "-1.#ind"}
#: `x [mm]`, `x (mm)` and `x,mm`.
UNIT = re.compile(r"^(?P<name>.*?)\s*(?:\[(?P<square>[^][]*)\]|\((?P<round>[^()]*)\)|,\s*(?P<comma>[^,]+))$")
#: How files write pixels.
PIXELS = {"pixel", "pixels", "px", "pix"}


@dataclass(frozen=True)
class Head:
    """The line of names, the unit of each where it is stated, and what separates columns (None: white space)."""

    names: tuple[str, ...]
    units: dict[str, str]
    separator: str | None
    #: Lines before and including it.
    lines: int
    #: Lines before it, marked as comments.
    comments: tuple[str, ...]


def parse(path: Path, *, values: int, spaced: bool = False, names_marked: bool = False) -> Contents:
    """Columns by name; with `spaced`, white space separates if nothing else does.

    With `names_marked`, names stand in the last line that is marked as a comment.
    """
    stream = io.StringIO(_text(path.read_bytes()), newline="")
    head = _head(stream, spaced, names_marked)
    if not all(head.names) or any(map(_is_number, head.names)) or len(set(head.names)) < len(head.names):
        raise MeasurementError(
            f"line {head.lines}",
            expected="a name for every column, each once",
            got=repr(" | ".join(head.names)[:200]),
            remedy="put a line of names such as x [mm],y [mm],u [mm] above the numbers",
        )
    contents = Contents(values)
    columns = _plain_columns(stream, head)
    if columns is None:
        columns = _any_columns(stream, head)
    for name, column in zip(head.names, columns, strict=True):
        contents.reserve(name, column.shape)
        contents.add(name, column, unit=head.units.get(name))
    return contents


def require(contents: Contents, *names: str, format: str) -> None:
    """Raise if a table of one format lacks its columns."""
    if not set(names) <= set(contents.arrays):
        raise MeasurementError(
            f"columns of {format}", expected=", ".join(names), got=", ".join(contents.arrays),
            remedy="export them too, or pass format='csv'",
        )  # fmt: skip


def read_head(path: Path, *, spaced: bool = False, names_marked: bool = False) -> Head:
    """The line of names alone."""
    with path.open("rb") as file:
        return _head(io.StringIO(_text(file.read(2**18)), newline=""), spaced, names_marked)


def _text(content: bytes) -> str:
    if b"\0" in content:
        raise MeasurementError(expected="text", got="bytes that are not", remedy="name the format with format=")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _head(stream: io.StringIO, spaced: bool, names_marked: bool) -> Head:
    comments: list[str] = []
    start, number = stream.tell(), 0
    while line := stream.readline():
        number += 1
        if line.startswith(("#", "***")):
            comments.append(line.strip("#* \r\n"))
        elif line.strip() and names_marked and comments:
            stream.seek(start)
            return _parsed_head(comments[-1], number - 1, comments[:-1], spaced)
        elif line.strip():
            return _parsed_head(line.strip("\r\n"), number, comments, spaced)
        start = stream.tell()
    raise MeasurementError(
        expected="a line with the names of the columns", got="nothing but comments",
        remedy="write a line of names above the numbers",
    )  # fmt: skip


def _parsed_head(line: str, number: int, comments: list[str], spaced: bool) -> Head:
    separator = next((mark for mark in ";\t," if mark in line), None if spaced else ",")
    cells = [cell.strip() for cell in _split(line, separator)]
    while cells and not cells[-1]:
        cells.pop()
    names, units = [], {}
    for cell in cells:
        parts = UNIT.match(cell)
        names.append(parts["name"].strip() if parts else cell)
        if unit := (parts["square"] or parts["round"] or parts["comma"] or "").strip() if parts else "":
            units[names[-1]] = "px" if unit.lower() in PIXELS else unit
    return Head(tuple(names), units, separator, number, tuple(comments))


def _split(line: str, separator: str | None) -> list[str]:
    if separator is None:
        return line.split()
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])


def _plain_columns(stream: io.StringIO, head: Head) -> list[np.ndarray] | None:
    """Ten times as fast, where every cell is a plain number."""
    start = stream.tell()
    try:
        with warnings.catch_warnings(action="ignore"):  # no rows
            table = np.loadtxt(stream, delimiter=head.separator, comments=None, ndmin=2)
    except ValueError:
        table = np.empty((0, 0))
    stream.seek(start)
    return list(table.T.copy()) if table.size and table.shape[1] == len(head.names) else None


def _any_columns(stream: io.StringIO, head: Head) -> list[np.ndarray]:
    """Cell by cell: gaps, quotes, decimal commas, and the place of what is wrong."""
    rows, lines = _rows(stream, head)
    if not rows:
        raise MeasurementError(expected="lines of numbers below the names", got="none", remedy="write the file again")
    columns = list(zip(*rows, strict=True))
    comma = _decimal_comma(columns, head)
    return [_numbers(name, cells, lines, comma) for name, cells in zip(head.names, columns, strict=True)]


def _rows(stream: io.StringIO, head: Head) -> tuple[list[list[str]], list[int]]:
    """The cells line by line, and where in the file each line stands."""
    if head.separator is None:
        split = ((number, line.split()) for number, line in enumerate(stream, start=1))
    else:
        reader = csv.reader(stream, delimiter=head.separator, skipinitialspace=True)
        split = ((reader.line_num, row) for row in reader)
    rows, lines, width = [], [], len(head.names)
    for number, row in split:
        if not row or (len(row) == 1 and not row[0].strip()):
            continue
        if len(row) < width or any(cell.strip() for cell in row[width:]):
            raise MeasurementError(
                f"row {head.lines + number}", expected=f"{width} columns", got=str(len(row)),
                remedy="leave a cell empty where nothing was measured",
            )  # fmt: skip
        rows.append(row[:width])
        lines.append(head.lines + number)
    return rows, lines


def _decimal_comma(columns: list[tuple[str, ...]], head: Head) -> bool:
    """Whether 1,5 is one and a half; it can be only where the comma does not separate columns."""
    if head.separator not in (";", "\t"):
        return False
    texts = ["".join(cells) for cells in columns]
    comma, point = (any(mark in text for text in texts) for mark in ",.")
    if comma and point:
        raise MeasurementError(
            expected="decimal commas or decimal points", got="both", remedy="write all numbers the same way"
        )
    return comma


def _numbers(name: str, cells: tuple[str, ...], lines: list[int], comma: bool) -> np.ndarray:
    if comma:
        cells = tuple(cell.replace(",", ".") for cell in cells)
    try:
        if "_" not in "".join(cells):  # Python reads 1_000 as a number
            return np.fromiter(map(float, cells), float, len(cells))
    except ValueError:
        pass
    return np.array([_number(name, cell.strip(), line) for cell, line in zip(cells, lines, strict=True)], dtype=float)


def _number(name: str, cell: str, line: int) -> float:
    if cell.lower() in MISSING:
        return np.nan
    if not _is_number(cell):
        raise MeasurementError(
            f"column {name!r}, row {line}", expected="a number", got=repr(cell[:100]),
            remedy=_remedy(name, cell),
        )  # fmt: skip
    return float(cell)


def _remedy(name: str, cell: str) -> str:
    if re.fullmatch(r"[-+]?\d+,\d+([eE][-+]?\d+)?", cell):
        return "write decimals with a point, or columns apart by semicolons"
    if name.lower() == "pair":
        return "number the pairs 1, 2, 3, …"
    return "correct the cell, or leave it empty where nothing was measured"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell

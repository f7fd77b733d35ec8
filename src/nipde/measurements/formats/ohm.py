"""The unified data format of BERT, pyGIMLi and ResIPy (.ohm, .dat): electrodes, then four of them for every datum.

    4# Number of electrodes        2# Number of data        0
    # x z                          # a b m n u/mV i/mA err/%
    0 0                            1 2 3 4 5.1 100 2
    ...                            ...

Electrodes are counted from 1; 0 is one infinitely far away. What follows a # is a comment, except for the names of the
columns. Arrays here are `positions` (electrode, axis) and one of every column that is known, in SI units; `err` is a
share, or in Ω if its unit is `Ohm`. Topography behind the data is left alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents

AXES = ("x", "y", "z")
ELECTRODES = ("a", "b", "m", "n")
ALIASES = {
    "c1": "a", "c2": "b", "p1": "m", "p2": "n", "ra": "rhoa", "rho_a": "rhoa", "v": "u", "error": "err", "std": "err"
}  # fmt: skip
#: What is meant where columns have no names.
UNNAMED = ["a", "b", "m", "n", "rhoa", "err"]
#: Unit of a column -> what its values are multiplied with; the first is that of a column without a unit.
UNITS = {
    "r": {"ohm": 1.0},
    "rhoa": {"ohmm": 1.0, "ohm*m": 1.0, "ohm-m": 1.0, "ohmmeter": 1.0},
    "u": {"v": 1.0, "mv": 1e-3, "uv": 1e-6},
    "i": {"a": 1.0, "ma": 1e-3, "ua": 1e-6},
    "k": {"m": 1.0},
    "err": {"1": 1.0, "%": 0.01, "ohm": 1.0},
    "valid": {"1": 1.0},
}


def parse(path: Path, *, values: int) -> Contents:
    """Positions and known columns; the others are named among the skipped."""
    contents = Contents(values)
    lines = _Lines(path.read_text(encoding="utf-8", errors="replace").splitlines())
    axes, places = _table(lines, "electrodes", contents)
    names = [name.lower() for name in axes] or list({2: ("x", "z"), 3: AXES}.get(places.shape[1], ()))
    if sorted(names) not in (["x"], ["x", "y"], ["x", "z"], ["x", "y", "z"]):
        raise MeasurementError(
            "columns of the electrodes", expected="x, x y, x z or x y z", got=" ".join(names)[:80] or places.shape[1],
            remedy="name them in a line such as # x z above the positions",
        )  # fmt: skip
    contents.add("positions", places)
    contents.note("axes", "".join(names))
    columns, data = _table(lines, "data", contents)
    if not columns and data.shape[1] not in (5, 6):
        raise MeasurementError(
            "columns of the data", expected=f"names, or {' '.join(UNNAMED)}", got=f"{data.shape[1]} without names",
            remedy="name them in a line such as # a b m n r err above the data",
        )  # fmt: skip
    _keep(columns or UNNAMED, data, len(places), contents)
    _check_end(lines, len(data))
    return contents


@dataclass
class _Lines:
    """Read one after the other."""

    lines: list[str]
    place: int = 0

    def next(self) -> tuple[str, list[str]] | None:
        """The next line that says something before its #, and the comments that stood before; None at the end."""
        comments: list[str] = []
        while self.place < len(self.lines):
            text, mark, comment = self.lines[self.place].partition("#")
            self.place += 1
            if text.strip():
                return text.strip(), comments
            if mark:
                comments.append(comment)
        return None


def _table(lines: _Lines, what: str, contents: Contents) -> tuple[list[str], np.ndarray]:
    """How many rows there are, the names of their columns if they are given, and the rows."""
    first = lines.next()
    try:
        count = int(first[0].split()[0]) if first else 0
    except ValueError:
        count = 0
    if first is None or count < 1:
        raise MeasurementError(
            f"line {lines.place}", expected=f"the number of {what}", got=repr(first[0][:80]) if first else "the end",
            remedy="see that the file has the unified data format of BERT and pyGIMLi",
        )  # fmt: skip
    rows, names = list[list[float]](), list[str]()
    for number in range(count):
        found = lines.next()
        if found is None:
            raise MeasurementError(expected=f"{count} {what}", got=number, remedy="see that the file is whole")
        cells = found[0].replace(",", " ").split()
        if not rows:
            contents.reserve(what, (count, len(cells)))
            names = _names(found[1], len(cells), what)
        if rows and len(cells) != len(rows[0]):
            raise _wrong(lines, f"{len(rows[0])} numbers", found[0])
        try:
            rows.append([float(cell) for cell in cells])
        except ValueError:
            raise _wrong(lines, "numbers", found[0]) from None
    return names, np.array(rows)


def _names(comments: Sequence[str], width: int, what: str) -> list[str]:
    """Of the last comment that begins with names of columns; words may follow them."""
    needed = {"x"} if what == "electrodes" else set(ELECTRODES)
    for comment in reversed(comments):
        tokens = comment.split()[:width]
        plain = [token.split("/")[0].lower() for token in tokens]
        if len(tokens) == width and needed <= {ALIASES.get(token, token) for token in plain}:
            return tokens
    return []


def _keep(columns: Sequence[str], data: np.ndarray, electrodes: int, contents: Contents) -> None:
    for column, values in zip(columns, data.T, strict=False):
        name, _, unit = column.lower().partition("/")
        name = ALIASES.get(name, name)
        if name in ELECTRODES:
            if not np.all((values == np.round(values)) & (values >= 0) & (values <= electrodes)):
                raise MeasurementError(
                    f"column {column!r}", expected=f"electrodes 1 to {electrodes}, or 0: infinitely far",
                    got=f"{values.min():g} to {values.max():g}", remedy="count electrodes from 1",
                )  # fmt: skip
            contents.add(name, values.astype(np.int64))
        elif name == "rho":  # by the format's description a resistance, in many files an apparent resistivity
            raise MeasurementError(
                "column 'rho'", expected="r (resistance) or rhoa (apparent resistivity)", got="rho",
                remedy="name the column by what it is",
            )  # fmt: skip
        elif name in UNITS:
            if unit and unit not in UNITS[name]:
                known = ", ".join(f"{name}/{one}" for one in UNITS[name])
                raise MeasurementError(
                    f"column {column!r}", expected=known, got=unit, remedy="state one of these units"
                )
            contents.add(name, values * UNITS[name].get(unit, 1.0))
            if name == "err":
                contents.units[name] = "ohm" if unit == "ohm" else "1"
        else:
            contents.skipped.append(name[:80])
    if missing := [name for name in ELECTRODES if name not in contents.arrays]:
        raise MeasurementError(
            "columns of the data", expected="a b m n and a resistance", got=f"no {' '.join(missing)}",
            remedy="name the columns in a line such as # a b m n r err above the data",
        )  # fmt: skip


def _check_end(lines: _Lines, count: int) -> None:
    """Nothing, or the number of points of the topography and these points."""
    rest = 0
    first = lines.next()
    while first is not None and lines.next() is not None:
        rest += 1
    if first is not None and first[0].split() != [str(rest)]:
        raise MeasurementError(
            expected=f"{count} data, then the end, or a number of points of topography and these points",
            got=f"{rest + 1} more lines", remedy="correct the number of data",
        )  # fmt: skip


def _wrong(lines: _Lines, expected: str, got: str) -> MeasurementError:
    return MeasurementError(f"line {lines.place}", expected=expected, got=repr(got[:80]), remedy="correct the line")

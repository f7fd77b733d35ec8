"""ARAMIS, as the open exporter for its scripting editor writes a stage: `x_undef [mm]; …; u [mm]; v [mm]; w [mm]; …`.

Names stand in the last line that is marked as a comment, below what was set, and below signals such as a force: those
with a number become columns of this one value. Columns become X, Y, Z, U, V and W. Lost facets are not finite.
"""

import re
from pathlib import Path

import numpy as np

from nipde.measurements.formats import Contents, csv

NAMES = {"x_undef": "X", "y_undef": "Y", "z_undef": "Z", "u": "U", "v": "V", "w": "W"}
DISPLACEMENTS = ("U", "V")
#: `force : analog_input : 12.5`, below the line SIGNALS.
SIGNAL = re.compile(r"^(?P<name>[^:]+?)\s*:\s*[^:]*:\s*(?P<value>[-+\d.eE]+)$")


def recognises(path: Path) -> bool:
    """By the names in its last comment."""
    with path.open("rb") as file:
        marked = [line for line in file.read(2**16).splitlines() if line.startswith(b"#")]
    return bool(marked) and b"x_undef" in marked[-1] and b";" in marked[-1]


def parse(path: Path, *, values: int) -> Contents:
    """Every column, signals, and where displacements are finite."""
    contents = csv.parse(path, values=values, names_marked=True)
    contents.arrays = {NAMES.get(name, name): array for name, array in contents.arrays.items()}
    contents.units = {NAMES.get(name, name): unit for name, unit in contents.units.items()}
    csv.require(contents, "X", "Y", *DISPLACEMENTS, format="ARAMIS")
    rows = len(contents.arrays["X"])
    for name, value in _signals(csv.read_head(path, names_marked=True).comments).items():
        if name not in contents.arrays:
            contents.reserve(name, (rows,))
            contents.add(name, np.full(rows, value))
    contents.valid = np.all([np.isfinite(contents.arrays[name]) for name in DISPLACEMENTS], axis=0)
    return contents


def _signals(comments: tuple[str, ...]) -> dict[str, float]:
    start = next((number for number, line in enumerate(comments) if line.upper().startswith("SIGNALS")), len(comments))
    found = {}
    for line in comments[start + 1 :]:
        if signal := SIGNAL.match(line.strip()):
            try:
                found[signal["name"].strip()] = float(signal["value"])
            except ValueError:  # dashes and points alone
                continue
    return found

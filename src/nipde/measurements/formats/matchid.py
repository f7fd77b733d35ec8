"""MatchID tables: `coor.X [mm]`, `disp.Horizontal Displacement U [mm]`, …; before 2024 x_pic, y_pic, x, y, u, v.

Columns become X, Y, Z and U, V, W, and x, y in the picture. Units are those of the header; before 2024 it has none.
"""

from pathlib import Path

import numpy as np

from nipde.measurements.formats import Contents, csv

#: Names since 2024, and what they become.
NAMES = {
    "Coordinates.Image X": "x", "Coordinates.Image Y": "y", "coor.X": "X", "coor.Y": "Y", "coor.Z": "Z",
    "disp.Horizontal Displacement U": "U", "disp.Vertical Displacement V": "V", "disp.Out-Of-Plane: W": "W",
}  # fmt: skip
#: The same before.
BEFORE = {"x_pic": "x", "y_pic": "y", "x": "X", "y": "Y", "z": "Z", "u": "U", "v": "V", "w": "W"}
DISPLACEMENTS = ("U", "V")


def recognises(path: Path) -> bool:
    """By names that only MatchID writes."""
    names = set(csv.read_head(path).names)
    known = {old for old, new in NAMES.items() if new in DISPLACEMENTS}
    return known <= names or {"x_pic", "y_pic", "u", "v"} <= names


def parse(path: Path, *, values: int) -> Contents:
    """Every column, and where displacements are finite."""
    contents = csv.parse(path, values=values)
    renamed = BEFORE if "x_pic" in contents.arrays else NAMES
    contents.arrays = {renamed.get(name, name): array for name, array in contents.arrays.items()}
    contents.units = {renamed.get(name, name): unit for name, unit in contents.units.items()}
    csv.require(contents, *DISPLACEMENTS, format="MatchID")
    for name in ("x", "y"):
        if name in contents.arrays:
            contents.units.setdefault(name, "px")
    contents.valid = np.all([np.isfinite(contents.arrays[name]) for name in DISPLACEMENTS], axis=0)
    return contents

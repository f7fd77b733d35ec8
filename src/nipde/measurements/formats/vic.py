"""VIC-2D and VIC-3D tables: x, y, u, v in pixels, X, Y, Z, U, V, W in the unit of the calibration, sigma = -1: lost.

The export does not state the unit of the calibration unless the names carry it, so it is left open.
"""

from pathlib import Path

from nipde.errors import MeasurementError
from nipde.measurements.formats.contents import Contents
from nipde.measurements.formats.table import read_head, read_table

IN_PIXELS = ("x", "y", "u", "v")


def recognises(path: Path) -> bool:
    """By its names: pixels, displacements and sigma, and no other unit for pixels."""
    head = read_head(path)
    names = set(head.names)
    displaced = {"u", "v"} <= names or {"U", "V"} <= names
    in_pixels = all(head.units.get(name, "px") == "px" for name in IN_PIXELS)
    return {"x", "y", "sigma"} <= names and displaced and in_pixels


def read(path: Path, *, values: int) -> Contents:
    """Every column, and where the correlation succeeded."""
    contents = read_table(path, values=values)
    if "sigma" not in contents.arrays:
        raise MeasurementError(
            expected="a column sigma", got=", ".join(contents.arrays), remedy="export it too, or pass format='csv'"
        )
    contents.valid = contents.arrays["sigma"] != -1
    for name in IN_PIXELS:
        if name in contents.arrays:
            contents.units.setdefault(name, "px")
    return contents

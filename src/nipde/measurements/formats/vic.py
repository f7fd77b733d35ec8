"""VIC-2D and VIC-3D tables: x, y, u, v in pixels, X, Y, Z, U, V, W in the unit of the calibration, sigma = -1: lost.

The export does not state the unit of the calibration unless the names carry it, so it is left open.
"""

from pathlib import Path

from nipde.measurements.formats import Contents, csv

IN_PIXELS = ("x", "y", "u", "v")


def recognises(path: Path) -> bool:
    """By its names: pixels, displacements and sigma, and no other unit for pixels."""
    head = csv.read_head(path)
    names = set(head.names)
    displaced = {"u", "v"} <= names or {"U", "V"} <= names
    in_pixels = all(head.units.get(name, "px") == "px" for name in IN_PIXELS)
    return {"x", "y", "sigma"} <= names and displaced and in_pixels


def parse(path: Path, *, values: int) -> Contents:
    """Every column, and where the correlation succeeded."""
    contents = csv.parse(path, values=values)
    csv.require(contents, "sigma", format="VIC")
    contents.valid = contents.arrays["sigma"] != -1
    for name in IN_PIXELS:
        if name in contents.arrays:
            contents.units.setdefault(name, "px")
    return contents

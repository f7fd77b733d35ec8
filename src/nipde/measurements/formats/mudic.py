"""muDIC in pixels: its table (id, x, y, ux, uy, ...), or the fields `coords` and `disp` saved with NumPy.

muDIC's own files are pickles and stay closed; `np.savez(file, coords=fields.coords(), disp=fields.disp())` keeps
the same fields, with axes element (one), component, two of space, frame. What is not finite was not measured.
"""

from pathlib import Path

import numpy as np

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents, csv, npz

COLUMNS = ("x", "y", "ux", "uy")


def recognises(path: Path) -> bool:
    """By the names of arrays or columns that only muDIC writes together."""
    if names := npz.names(path):
        return {"coords", "disp"} <= names
    return {"id", *COLUMNS, "true_strain_xx"} <= set(csv.read_head(path).names)


def parse(path: Path, *, values: int) -> Contents:
    """Positions and displacements in pixels, and where they are finite."""
    if npz.names(path):
        return _fields(npz.parse(path, values=values))
    contents = csv.parse(path, values=values)
    csv.require(contents, *COLUMNS, format="muDIC")
    contents.units.update(dict.fromkeys(COLUMNS, "px"))
    contents.valid = np.isfinite(contents.arrays["ux"]) & np.isfinite(contents.arrays["uy"])
    return contents


def _fields(contents: Contents) -> Contents:
    """x, y of the first frame on [i j]; ux, uy on [frame i j]."""
    csv.require(contents, "coords", "disp", format="muDIC")
    coords, disp = contents.arrays.pop("coords"), contents.arrays.pop("disp")
    if coords.ndim != 5 or coords.shape[:2] != (1, 2) or coords.shape != disp.shape or not coords.size:
        raise MeasurementError(
            "coords and disp", expected="shape (1, 2, i, j, frames) each", got=f"{coords.shape} and {disp.shape}"
        )
    ux, uy = np.moveaxis(disp[0], -1, 1)
    fields = dict(zip(COLUMNS, (*coords[0, :, :, :, 0], ux, uy), strict=True))
    for name, field in fields.items():
        contents.add(name, field, unit="px")
    contents.valid = np.isfinite(ux) & np.isfinite(uy)
    return contents

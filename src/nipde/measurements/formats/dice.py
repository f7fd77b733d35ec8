"""DICe text: COORDINATE_X, DISPLACEMENT_X, SIGMA, STATUS_FLAG, ...; in pixels, below lines that begin with ***.

A point is lost where SIGMA is -1 or STATUS_FLAG is none of DICe's flags of success.
"""

from pathlib import Path

import numpy as np

from nipde.measurements.formats import Contents, csv

#: Older and newer names of the same columns.
IN_PIXELS = (
    ("COORDINATE_X", "COORDINATE_Y", "DISPLACEMENT_X", "DISPLACEMENT_Y"),
    ("SUBSET_COORDINATES_X", "SUBSET_COORDINATES_Y", "SUBSET_DISPLACEMENT_X", "SUBSET_DISPLACEMENT_Y"),
)
#: Correlation, initialisation (four ways) and search that succeeded; 15, a mean of neighbours, is not measured.
SUCCESSFUL = (0, 1, 2, 3, 4, 6, 18)


def recognises(path: Path) -> bool:
    """By the names of its columns."""
    names = set(csv.read_head(path, spaced=True).names)
    return any(names.issuperset(columns) for columns in IN_PIXELS)


def parse(path: Path, *, values: int) -> Contents:
    """Every column, where the correlation succeeded, and what the lines above the table say."""
    contents = csv.parse(path, values=values, spaced=True)
    columns = next((columns for columns in IN_PIXELS if set(columns) <= set(contents.arrays)), IN_PIXELS[0])
    csv.require(contents, *columns, format="DICe")
    contents.units.update(dict.fromkeys(columns, "px"))
    valid = np.ones(contents.arrays[columns[0]].shape, bool)
    if "SIGMA" in contents.arrays:
        valid &= contents.arrays["SIGMA"] != -1
    if "STATUS_FLAG" in contents.arrays:
        valid &= np.isin(contents.arrays["STATUS_FLAG"], SUCCESSFUL)
    contents.valid = valid
    for line in csv.read_head(path, spaced=True).comments:
        key, colon, value = line.partition(":")
        if colon and value.strip():
            contents.note(key.strip(), value.strip())
    return contents

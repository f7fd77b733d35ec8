"""Tables of the lab's own program: `LAB`, a line of names with units, then numbers."""

from pathlib import Path

import numpy as np

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents, Format

FORMAT = Format("lab", module=__name__, suffixes=(".lab",), content=rb"LAB\n")


def parse(path: Path, *, values: int) -> Contents:
    """Columns by name."""
    _, names, *rows = [*path.read_text().splitlines(), "", ""]
    table = [row.split() for row in rows if row]
    columns = [name.partition(":") for name in names.split()]
    if not columns or any(len(row) != len(columns) for row in table):
        raise MeasurementError(f"{path.name}: expected {len(columns)} numbers in every row", remedy="export it again")
    contents = Contents(values)
    contents.reserve("table", (len(table), len(columns)))
    for (name, _, unit), column in zip(columns, np.array(table, dtype=float).T, strict=True):
        contents.add(name, column, unit=unit or None)
    return contents

"""Tables of anybody's making, separated by comma, semicolon or tab; units stand behind the names."""

from pathlib import Path

from nipde.measurements.formats.contents import Contents
from nipde.measurements.formats.table import read_table


def read(path: Path, *, values: int) -> Contents:
    """Every column; what is not there is NaN."""
    return read_table(path, values=values)

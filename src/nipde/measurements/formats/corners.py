"""Corners of an outline: the first two columns of a table, x and y, with or without a head; `ring 0`."""

from pathlib import Path

import numpy as np

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents


def parse(path: Path, *, values: int) -> Contents:
    """In the order of the table."""
    contents = Contents(values)
    rows = [line.split(",")[:2] for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    try:
        float(rows[0][0])
    except (ValueError, IndexError):
        rows = rows[1:]
    contents.reserve("ring 0", (len(rows), 2))
    try:
        contents.add("ring 0", np.array(rows, dtype=np.float64))
    except ValueError as error:
        raise MeasurementError(
            expected="two columns of numbers, x and y", got=str(error), remedy="export the corners again"
        ) from error
    return contents

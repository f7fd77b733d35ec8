"""What a reader found in a file: arrays of numbers by name, within a budget of values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nipde.errors import MeasurementError


@dataclass
class Contents:
    """Filled by a reader, array by array; `values` is the number of values that may still come."""

    values: int
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str | float] = field(default_factory=dict)
    valid: np.ndarray | None = None
    skipped: list[str] = field(default_factory=list)

    def reserve(self, name: str, shape: Sequence[int]) -> None:
        """Refuse an array by its declared shape, before memory is spent on it."""
        count = math.prod(map(int, shape))
        if min(shape, default=0) < 0 or count > self.values:
            raise MeasurementError(
                f"array {name!r} of shape {tuple(map(int, shape))}",
                expected=f"at most {self.values:,} more values",
                got=f"{count:,}",
                remedy="read a part of the file, or pass Limits(values=...)",
            )
        self.values -= count

    def add(self, name: str, array: np.ndarray, *, unit: str | None = None) -> None:
        """Keep an array for which room was reserved."""
        if array.dtype.kind not in "biuf":
            raise MeasurementError(f"array {name!r}", expected="real numbers or booleans", got=f"dtype {array.dtype}")
        if name in self.arrays:
            raise MeasurementError(expected="every name once", got=f"{name!r} twice", remedy="rename one of them")
        wide = array.dtype.kind == "f" and array.dtype.itemsize > 8
        self.arrays[name] = array.astype(np.float64 if wide else array.dtype.newbyteorder("="), copy=False)
        if unit:
            self.units[name] = unit

    def note(self, name: str, value: object) -> None:
        """Keep a number or a text as an attribute; anything else is named among the skipped."""
        if isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
            self.attributes[name] = float(value)
        elif isinstance(value, str):
            self.attributes[name] = str(value)
        else:
            self.skipped.append(name)

"""Electrode voltages as the Kuopio Tomography Challenge 2023 stores them: MATLAB variables Inj, Mpat and Uel.

`Inj` are currents (electrode, injection), `Mpat` patterns (electrode, reading), `Uel` the voltages of all readings of
the first injection, then of the second, and so on; `Injref` and `Uelref` in files of the reference. Arrays here are
`currents` (injection, electrode), `patterns` (reading, electrode) and `voltages` (injection, reading).
"""

from pathlib import Path
from typing import Any

import numpy as np

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents
from nipde.measurements.formats.mat import load


def parse(path: Path, *, values: int) -> Contents:
    """Currents, patterns and voltages; other variables are left alone."""
    contents = Contents(values)
    variables = load(path, contents)
    currents, patterns = _one_of(variables, "Inj", "Injref"), _one_of(variables, "Mpat")
    voltages = _one_of(variables, "Uel", "Uelref")
    if currents.ndim != 2 or patterns.ndim != 2 or len(currents) != len(patterns):
        raise MeasurementError(
            expected="Inj (electrode, injection) and Mpat (electrode, reading)",
            got=f"shapes {currents.shape} and {patterns.shape}", remedy="give every electrode one row in both",
        )  # fmt: skip
    shape = (currents.shape[1], patterns.shape[1])
    if voltages.size != shape[0] * shape[1]:
        raise MeasurementError(
            "Uel", expected=f"{shape[0]} injections × {shape[1]} readings = {shape[0] * shape[1]} voltages",
            got=voltages.size, remedy="store all readings of every injection, NaN where one is missing",
        )  # fmt: skip
    contents.add("currents", currents.T)
    contents.add("patterns", patterns.T)
    contents.add("voltages", voltages.reshape(shape[::-1], order="F").T)
    return contents


def _one_of(variables: dict[str, Any], *names: str) -> np.ndarray:
    present = [name for name in names if name in variables]
    if len(present) != 1:
        raise MeasurementError(
            expected=f"one variable {' or '.join(names)}", got=" and ".join(present) or ", ".join(variables) or "none",
            remedy="store each measurement in a file of its own, in the layout of the challenge",
        )  # fmt: skip
    value = variables[present[0]]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        raise MeasurementError(present[0], expected="real numbers", got=type(value).__name__, remedy="store a matrix")
    return value.astype(np.float64)

"""Voltages between electrodes, measured or of the homogeneous reference; a pair of them is `ElectrodeTests`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from jaxtyping import Float

from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.parts import Specimen
from nipde.errors import MeasurementError
from nipde.measurements.formats import MATLAB, Format
from nipde.measurements.parse import parse_in_child
from nipde.measurements.sandbox import DEFAULT_LIMITS, Limits

_KTC = Format("ktc", "nipde.measurements.formats.ktc", (".mat",), MATLAB)
#: Currents and patterns of a reference agree with those of the body to this share of the largest.
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class ElectrodeVoltages:
    """One measurement; a voltage that is missing is NaN. Electrodes are in the order of the specimen's terminals."""

    currents: Float[np.ndarray, "injection electrode"]
    patterns: Float[np.ndarray, "reading electrode"]
    voltages: Float[np.ndarray, "injection reading"]
    sha256: str = ""

    @classmethod
    def read(cls, path: Path | str, *, limits: Limits = DEFAULT_LIMITS) -> Self:
        """A `.mat` file in the layout of the Kuopio Tomography Challenge 2023, parsed in a child process."""
        digest, _, contents = parse_in_child(Path(path), candidates=lambda _: [_KTC], limits=limits)
        return cls(**contents.arrays, sha256=digest)

    def tests(self, specimen: Specimen, reference: "ElectrodeVoltages", *, noise: float) -> ElectrodeTests:
        """With the same injections and readings of the homogeneous body; `noise` as in `ElectrodeTests`."""
        for name in ("currents", "patterns"):
            here, there = getattr(self, name), getattr(reference, name)
            if here.shape != there.shape or not np.abs(here - there).max() <= SAME * np.abs(here).max():
                raise MeasurementError(
                    f"{name} of the reference", expected="those of the body, in the same order",
                    got=f"others: shapes {there.shape} and {here.shape}",
                    remedy="measure the homogeneous body with the same injections and readings",
                )  # fmt: skip
        return ElectrodeTests(specimen, self.currents, self.patterns, self.voltages, reference.voltages, noise)

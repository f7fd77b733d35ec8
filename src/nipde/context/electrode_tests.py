"""Electrical impedance tomography of one body: currents through electrodes, voltages between them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from nipde.discretisation.parts import Specimen, Terminal
from nipde.errors import PairsError, ShapeError


@dataclass(frozen=True, eq=False)
class ElectrodeTests:
    """Electrodes are the terminals of the specimen, in the order in which it names them.

    `patterns` say which potentials a reading adds and subtracts, one row per reading. A reading that is missing is NaN.
    `reference` are the readings of the same injections on the homogeneous body: only differences to it are used, which
    frees them of what the model of the empty body lacks. `noise` is the standard deviation of such a difference, beside
    errors in proportion to it; one number, or one for every voltage.
    """

    specimen: Specimen
    currents: Float[np.ndarray, "injection electrode"]
    patterns: Float[np.ndarray, "reading electrode"]
    voltages: Float[np.ndarray, "injection reading"]
    reference: Float[np.ndarray, "injection reading"]
    noise: float | Float[np.ndarray, "injection reading"]

    @classmethod
    def from_arrays(
        cls, specimen: Specimen, currents: Any, patterns: Any, voltages: Any, reference: Any, *, noise: Any
    ) -> "ElectrodeTests":
        """From anything like arrays."""
        injected, read, measured, empty = (
            np.asarray(one, dtype=np.float64) for one in (currents, patterns, voltages, reference)
        )
        deviation = float(noise) if np.ndim(noise) == 0 else np.asarray(noise, dtype=np.float64)
        return cls(specimen, injected, read, measured, empty, deviation)

    def __post_init__(self) -> None:
        count = len(self.electrodes)
        wanted = (len(self.currents), len(self.patterns))
        if self.currents.shape[1:] != (count,) or self.patterns.shape[1:] != (count,):
            raise ShapeError(
                "electrodes", expected=f"{count} columns, one per terminal of the specimen",
                got=(self.currents.shape, self.patterns.shape), remedy="name every electrode as a terminal",
            )  # fmt: skip
        for name, values in (("voltages", self.voltages), ("reference", self.reference)):
            if values.shape != wanted:
                raise ShapeError(
                    name, expected=f"(injection, reading) = {wanted}", got=values.shape, remedy="transpose"
                )
        sums = np.abs(self.currents.sum(axis=1)).max()
        if sums > 1e-6 * np.abs(self.currents).max():
            raise PairsError(expected="currents that sum to 0", got=f"{sums:g}", remedy="what flows in must flow out")
        if not self.measured.any():
            raise PairsError(expected="measured voltages", got="none", remedy="check the file")
        if np.ndim(self.noise) and np.shape(self.noise) != wanted:
            raise ShapeError(
                "noise", expected=f"a number, or (injection, reading) = {wanted}", got=np.shape(self.noise),
                remedy="give every voltage its deviation",
            )  # fmt: skip
        noise = np.asarray(self.noise)[self.measured if np.ndim(self.noise) else ...]
        if not np.all((noise > 0) & (noise < np.inf)):
            raise PairsError(
                expected="noise > 0", got=self.noise, remedy="repeat a measurement: give the deviation of a voltage"
            )

    @property
    def electrodes(self) -> tuple[str, ...]:
        """Names of the terminals."""
        return tuple(part for part, one in self.specimen.conditions.items() if isinstance(one, Terminal))

    @property
    def measured(self) -> np.ndarray:
        """Where there is a voltage and one of the reference."""
        return np.isfinite(self.voltages) & np.isfinite(self.reference)

"""Pairs of a load and what sensors read: loads are fields, responses are known at the sensors only."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.context.sensors import Sensors
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import Specimen
from nipde.errors import PairsError, ShapeError
from nipde.grid import Grid


@dataclass(frozen=True, eq=False)
class SensorPairs:
    """One system in physical units; `noise` is the standard deviation of the readings, None if unknown.

    A reading that is missing is NaN. `noise` is one number, one per sensor, or one per reading; `covariance` instead
    states that of the errors of all sensors in one pair.
    """

    grid: Grid
    loads: Float[Tensor, "pair component *space"]
    sensors: Sensors
    readings: Float[Tensor, "pair sensor"]
    noise: Float[Tensor, "*#reading"] | float | None = None
    covariance: Float[Tensor, "sensor sensor"] | None = None
    #: Shape and conditions of its outline; None: the box of the grid, with the boundaries of its axes.
    specimen: Specimen | None = None
    #: Loads on its outline, one per pair; none: nothing acts there.
    outline: tuple[LoadCase, ...] = ()

    def __post_init__(self) -> None:
        wanted = (len(self.loads), len(self.sensors))
        if self.loads.ndim != self.grid.dimension + 2 or self.loads.shape[1] != 1:
            raise ShapeError("loads", expected="(pair, 1, *space)", got=tuple(self.loads.shape), remedy="one component")
        self.grid.check(self.loads)
        if tuple(self.readings.shape) != wanted:
            raise ShapeError(
                "readings do not fit", expected=f"(pair, sensor) = {wanted}", got=tuple(self.readings.shape),
                remedy="give one reading per load and sensor, NaN where it is missing",
            )  # fmt: skip
        if not bool(torch.isfinite(self.loads).all()):
            raise PairsError(expected="finite loads", got="others", remedy="check the loads")
        if not bool(torch.isfinite(self.readings).any()):
            raise PairsError(expected="at least one reading", got="none", remedy="check the readings")
        if self.specimen is not None:
            outside = ~self.specimen.shape.covers(self.sensors.points)
            if outside.any():
                raise PairsError(
                    expected="sensors inside the specimen", got=f"{outside.sum()} of {len(outside)} outside",
                    remedy="leave them out, or check the units and the origin of the outline",
                )  # fmt: skip
            for case in self.outline:
                case.check({name: self.specimen.condition(name) for name in self.specimen.shape.parts})
        if self.outline and (self.specimen is None or len(self.outline) != len(self.loads)):
            raise PairsError(
                expected=f"a specimen, and {len(self.loads)} cases of loads on its outline",
                got=f"{len(self.outline)} cases" + (" and no specimen" if self.specimen is None else ""),
                remedy="give one case per pair",
            )  # fmt: skip
        if self.noise is not None:
            noise = torch.as_tensor(self.noise, dtype=torch.float64)
            try:
                fits = np.broadcast_shapes(noise.shape, wanted) == wanted
            except ValueError:
                fits = False
            if not fits or not bool((noise >= 0).all()):
                raise PairsError(
                    expected=f"deviations >= 0, one or {wanted}", got=f"shape {tuple(noise.shape)}",
                    remedy="give one per reading, per sensor, or one for all",
                )  # fmt: skip
        if self.covariance is not None and (
            tuple(self.covariance.shape) != wanted[1:] * 2 or bool(torch.isnan(self.readings).any())
        ):
            raise PairsError(
                expected="a covariance of all sensors, and every reading", got=tuple(self.covariance.shape),
                remedy="leave out sensors with gaps, or give deviations instead",
            )  # fmt: skip

    @classmethod
    def from_arrays(
        cls, loads: Any, readings: Any, *, grid: Grid, sensors: Sensors, noise: Any = None, covariance: Any = None,
        specimen: Specimen | None = None, outline: Sequence[LoadCase] = (),
    ) -> Self:  # fmt: skip
        """From NumPy arrays: loads `(pair, *space)`, readings `(pair, sensor)`."""
        loads, readings = (torch.as_tensor(np.asarray(values, dtype=np.float64)) for values in (loads, readings))
        loads = loads[:, None] if loads.ndim == grid.dimension + 1 else loads
        noise, covariance = (
            value if value is None else torch.as_tensor(value, dtype=torch.float64) for value in (noise, covariance)
        )
        return cls(grid, loads, sensors, readings, noise, covariance, specimen, tuple(outline))

    @classmethod
    def from_cases(
        cls, cases: Sequence[LoadCase], readings: Any, *, grid: Grid, sensors: Sensors, specimen: Specimen,
        noise: Any = None,
    ) -> Self:  # fmt: skip
        """Of one specimen, from the loads of every test: densities and loads on parts of the outline."""
        densities = [np.zeros(grid.shape) if case.density is None else case.density for case in cases]
        outline = [case.on_outline for case in cases]
        return cls.from_arrays(
            np.stack(densities), readings, grid=grid, sensors=sensors, noise=noise, specimen=specimen, outline=outline
        )

    @classmethod
    def of(cls, pairs: Pairs) -> Self:
        """Pairs of one system, their measured nodes as sensors: those that no pair measured are none."""
        if pairs.batch or pairs.components != (1, 1):
            raise PairsError(
                expected="one system with scalar fields", got=f"a batch {pairs.batch}, components {pairs.components}",
                remedy="take pairs.system(0)",
            )  # fmt: skip
        pairs = pairs.to(dtype=torch.float64, device="cpu")
        mask = torch.ones((), dtype=torch.bool) if pairs.mask is None else pairs.mask
        mask = mask.expand_as(pairs.responses)[:, 0]
        somewhere = mask.any(0).numpy() & pairs.grid.unknown
        if not somewhere.any():
            raise PairsError(expected="a measured value inside the domain", got="none", remedy="check the mask")
        at = torch.as_tensor(somewhere)
        readings = torch.where(mask, pairs.responses[:, 0], torch.nan)[:, at]
        return cls(pairs.grid, pairs.loads, Sensors.at_nodes(pairs.grid, mask=somewhere), readings, pairs.noise)

    @property
    def count(self) -> int:
        """d, the number of pairs."""
        return len(self.loads)

    def take(self, pairs: Any) -> Self:
        """Some of the pairs."""
        pairs = [int(pairs)] if isinstance(pairs, int | np.integer) else pairs
        noise = self.noise
        if isinstance(noise, Tensor) and noise.ndim == 2 and len(noise) > 1:
            noise = noise[pairs]
        outline = tuple(self.outline[pair] for pair in pairs) if self.outline else ()
        return replace(self, loads=self.loads[pairs], readings=self.readings[pairs], noise=noise, outline=outline)

    def at_sensors(self, numbers: Any) -> Self:
        """Some of the sensors."""
        noise, covariance = self.noise, self.covariance
        if isinstance(noise, Tensor) and noise.ndim and noise.shape[-1] > 1:
            noise = noise[..., numbers]
        if covariance is not None:
            covariance = covariance[numbers][:, numbers]
        sensors = Sensors(self.sensors.points[numbers], self.sensors.radii[numbers])
        return replace(self, sensors=sensors, readings=self.readings[:, numbers], noise=noise, covariance=covariance)

    def numbers_at(self, positions: Float[np.ndarray, "place axis"]) -> Int[np.ndarray, " sensor"]:
        """Of the sensors at these positions."""
        apart = np.linalg.norm(self.sensors.points[:, None] - positions, axis=-1)
        length = max(axis.length for axis in self.grid.axes)
        return np.flatnonzero((apart <= 1e-9 * length).any(axis=1))

    def without_sensors(self, numbers: Any) -> Self:
        """What the others read."""
        return self.at_sensors(np.setdiff1d(np.arange(len(self.sensors)), numbers)) if len(numbers) else self

    def without_sensors_at(self, positions: Float[np.ndarray, "place axis"]) -> Self:
        """The same by position."""
        return self.without_sensors(self.numbers_at(positions))

    def without_pairs(self, numbers: Any) -> Self:
        """All others."""
        return self.take(np.setdiff1d(np.arange(self.count), numbers).tolist()) if len(numbers) else self

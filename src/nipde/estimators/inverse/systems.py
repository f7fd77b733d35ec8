"""One system at a time, in units of its own: loads and responses of rms 1, unknown cells only, one column per pair.

If f/f₀ and u/u₀ give the permeability b, then f and u give b f₀/u₀.
"""

from dataclasses import dataclass
from math import log

import numpy as np
import torch
from jaxtyping import Float

from nipde.context.pairs import Pairs
from nipde.discretisation.sensitivity import Conductances
from nipde.errors import PairsError, PhysicsError
from nipde.grid import Grid
from nipde.physics.darcy import Darcy


@dataclass(frozen=True, eq=False)
class MeasuredSystem:
    """Columns are pairs, rows unknown cells in the order of the solver."""

    conductances: Conductances
    #: ∫_cell f.
    cell_loads: Float[np.ndarray, "unknown pair"]
    #: Zero where nothing was measured.
    responses: Float[np.ndarray, "unknown pair"]
    #: Quadrature weights of the measured values, scaled to the sum 1; one column if equal for all pairs.
    weights: Float[np.ndarray, "unknown #pair"]
    #: Standard deviation of the responses' error; None if unknown.
    noise: float | None

    @property
    def count(self) -> int:
        """Number of measured values."""
        measured = int(np.count_nonzero(self.weights))
        return measured * (self.responses.shape[1] if self.weights.shape[1] == 1 else 1)

    def constant(self) -> float:
        """log b of the best constant coefficient: u ≈ u₁/b, u₁ the response at b = 1."""
        grid = self.conductances.links.grid
        unit = Darcy(grid, np.ones(grid.shape), self.conductances.mean).factor.solve(self.cell_loads)
        own, across, size = (
            float(np.sum(self.weights * product)) for product in (unit**2, unit * self.responses, self.responses**2)
        )
        if not (own > 0 and size > 0):
            raise PairsError(
                expected="loads and responses at interior nodes", got="zeros there", remedy="check the pairs"
            )
        # Responses may point against their loads: no law does that, but their size still gives one.
        return log(own / across if across > 0 else np.sqrt(own / size))


def systems_of(pairs: Pairs, conductances: Conductances, *, precision: float) -> list[MeasuredSystem]:
    """Systems of a batch of normalised pairs; exact responses still carry the rounding of their `precision`."""
    shape, unknown = (-1, pairs.count, pairs.grid.size), conductances.links.unknown
    mask = torch.ones((), dtype=torch.bool) if pairs.mask is None else pairs.mask
    parts = (pairs.loads, pairs.responses, mask.expand_as(pairs.responses))
    fields = [field.reshape(shape).numpy()[..., unknown].swapaxes(1, 2) for field in parts]
    noises: list[float | None] = [None] * len(fields[0])
    if pairs.noise is not None:
        deviations = torch.as_tensor(pairs.noise, dtype=torch.float64).cpu().expand(pairs.batch).reshape(-1)
        noises = [max(float(deviation), precision) for deviation in deviations]
    systems, volume = [], conductances.links.volume[:, None]
    for loads, responses, measured, noise in zip(*fields, noises, strict=True):
        if not measured.any():
            raise PairsError(expected="a measured value inside the domain", got="none", remedy="check the mask")
        alike = bool(np.all(measured == measured[:, :1]))
        weights = (measured[:, :1] if alike else measured) * volume
        weights = weights / (np.sum(weights) * (measured.shape[1] / weights.shape[1]))
        systems.append(MeasuredSystem(conductances, loads * volume, np.where(measured, responses, 0.0), weights, noise))
    return systems


def check_law(grid: Grid, components: tuple[int, int]) -> None:
    """Raise unless a Darcy law can have made such pairs."""
    if components != (1, 1):
        raise PairsError(
            "Darcy's law maps one scalar field to one", expected="1 component of load and response", got=components,
            remedy="use an estimator that does not know the law",
        )  # fmt: skip
    if not any(axis.boundary.essential for axis in grid.axes):
        raise PhysicsError(
            expected="a Dirichlet axis", got="none: the response is fixed only up to a constant",
            remedy="give one axis a Dirichlet boundary",
        )  # fmt: skip

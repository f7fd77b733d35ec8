"""One system at a time, in units of its own: loads and responses of rms 1, unknown cells only, one column per pair.

If f/f₀ and u/u₀ give the permeability b, then f and u give b f₀/u₀.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np
import torch
from jaxtyping import Float

from nipde.context.pairs import Pairs
from nipde.context.scaling import Scaling
from nipde.discretisation.checkerboard import fix_checkerboard_gauge
from nipde.discretisation.links import FaceMean
from nipde.discretisation.sensitivity import Conductances, conductances_of
from nipde.errors import PairsError, PhysicsError
from nipde.grid import Grid
from nipde.kernels.law import LawKernel
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


def permeability_each(
    pairs: Pairs, *, face_mean: FaceMean, fit: Callable[[MeasuredSystem], Float[np.ndarray, " node"]]
) -> Float[np.ndarray, "system *space"]:
    """`fit` for every system of a batch; the permeabilities in physical units, in the gauge of least variation."""
    check_law(pairs.grid, pairs.components)
    pairs.check_finite()
    precision = torch.finfo(pairs.responses.dtype).eps
    exact = pairs.to(dtype=torch.float64, device="cpu")
    scaling = Scaling.of(exact)
    systems = _systems(conductances_of(pairs.grid, face_mean), scaling.normalised(exact), precision)
    logs = torch.tensor(np.stack([fit(system) for system in systems])).view(-1, *pairs.grid.shape)
    unit = (1 / scaling.kernel).reshape(-1, *(1,) * pairs.grid.dimension)
    return (fix_checkerboard_gauge(pairs.grid, logs, face_mean.power).exp() * unit).numpy()


def law_kernel(
    pairs: Pairs, *, face_mean: FaceMean, fit: Callable[[MeasuredSystem], Float[np.ndarray, " node"]]
) -> LawKernel[Darcy]:
    """The kernel of the fitted laws, in the pairs' precision and place."""
    fields = permeability_each(pairs, face_mean=face_mean, fit=fit)
    laws = tuple(Darcy(pairs.grid, field, face_mean) for field in fields)
    return LawKernel(pairs.grid, laws, pairs.responses.new_ones(pairs.batch))


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


def _systems(conductances: Conductances, pairs: Pairs, precision: float) -> list[MeasuredSystem]:
    """Systems of a batch of normalised pairs; exact responses still carry the rounding of their precision."""
    size, unknown = pairs.grid.size, conductances.links.unknown
    loads, responses = (
        field.reshape(-1, pairs.count, size).numpy()[..., unknown] for field in (pairs.loads, pairs.responses)
    )
    mask = torch.ones((), dtype=torch.bool) if pairs.mask is None else pairs.mask
    masks = mask.expand_as(pairs.responses).reshape(-1, pairs.count, size).numpy()[..., unknown]
    noises: list[float | None] = [None] * len(loads)
    if pairs.noise is not None:
        deviations = torch.as_tensor(pairs.noise, dtype=torch.float64).cpu().expand(pairs.batch).reshape(-1)
        noises = [max(float(deviation), precision) for deviation in deviations]
    return [
        _system(conductances, load, response, measured, noise)
        for load, response, measured, noise in zip(loads, responses, masks, noises, strict=True)
    ]


def _system(
    conductances: Conductances, loads: np.ndarray, responses: np.ndarray, mask: np.ndarray, noise: float | None
) -> MeasuredSystem:
    if not mask.any():
        raise PairsError(expected="a measured value inside the domain", got="none", remedy="check the mask")
    volume = conductances.links.volume[:, None]
    columns = mask[:1] if np.all(mask == mask[0]) else mask
    weights = columns.T * volume
    weights = weights / (np.sum(weights) * (len(mask) / weights.shape[1]))
    return MeasuredSystem(
        conductances=conductances,
        cell_loads=loads.T * volume,
        responses=np.where(mask, responses, 0.0).T,
        weights=weights,
        noise=noise,
    )

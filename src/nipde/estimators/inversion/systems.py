"""One system at a time, in units of its own: loads and responses of rms 1, free nodes only, one column per pair.

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
from nipde.errors import PairsError, PhysicsError
from nipde.estimators.inversion.face_map import FaceMap, face_map
from nipde.grid import Grid
from nipde.kernels.law import LawKernel
from nipde.physics.darcy import Darcy
from nipde.physics.faces import FaceMean


@dataclass(frozen=True, eq=False)
class MeasuredSystem:
    """Columns are pairs, rows free nodes in the order of the solver."""

    faces: FaceMap
    #: ∫_cell f.
    cell_loads: Float[np.ndarray, "free pair"]
    #: Zero where nothing was measured.
    responses: Float[np.ndarray, "free pair"]
    #: Quadrature weights of the measured values, scaled to the sum 1; one column if equal for all pairs.
    weights: Float[np.ndarray, "free #pair"]
    #: Standard deviation of the responses' error; None if unknown.
    noise: float | None

    @property
    def count(self) -> int:
        """Number of measured values."""
        seen = int(np.count_nonzero(self.weights))
        return seen * (self.responses.shape[1] if self.weights.shape[1] == 1 else 1)

    def constant(self) -> float:
        """log b of the constant medium that fits best: u ≈ u₁/b, u₁ the response at b = 1."""
        unit = Darcy(self.faces.grid, np.ones(self.faces.grid.shape), self.faces.mean).factor.solve(self.cell_loads)
        own, across, size = (
            float(np.sum(self.weights * product)) for product in (unit**2, unit * self.responses, self.responses**2)
        )
        if not (own > 0 and size > 0):
            raise PairsError(expected="loads and responses at free nodes", got="zeros there", remedy="check the pairs")
        # Responses may point against their loads: no law does that, but a size can still be told.
        return log(own / across if across > 0 else np.sqrt(own / size))


def permeability_each(
    pairs: Pairs, *, face_mean: FaceMean, fit: Callable[[MeasuredSystem], Float[np.ndarray, " node"]]
) -> Float[np.ndarray, "system *space"]:
    """`fit` for every system of a batch; the permeabilities in physical units, of least variation."""
    check_law(pairs.grid, pairs.components)
    pairs.check_finite()
    precision = torch.finfo(pairs.responses.dtype).eps
    exact = pairs.to(dtype=torch.float64, device="cpu")
    scaling = Scaling.of(exact)
    unit = (1 / scaling.kernel).reshape(-1).numpy()
    faces = face_map(pairs.grid, face_mean)
    found = []
    for system, factor in zip(_systems(faces, scaling.normalised(exact), precision), unit, strict=True):
        found.append(np.exp(faces.checkerboard.least_variation(fit(system))).reshape(pairs.grid.shape) * factor)
    return np.stack(found)


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
    if not any(axis.boundary.clamped for axis in grid.axes):
        raise PhysicsError(
            expected="a Dirichlet axis", got="none: the response is fixed only up to a constant",
            remedy="clamp at least one axis",
        )  # fmt: skip


def _systems(faces: FaceMap, pairs: Pairs, precision: float) -> list[MeasuredSystem]:
    """Systems of a batch of normalised pairs; exact responses still carry the rounding of their precision."""
    size, free = faces.grid.size, faces.unknown
    loads, responses = (
        field.reshape(-1, pairs.count, size).numpy()[..., free] for field in (pairs.loads, pairs.responses)
    )
    mask = torch.ones((), dtype=torch.bool) if pairs.mask is None else pairs.mask
    masks = mask.expand_as(pairs.responses).reshape(-1, pairs.count, size).numpy()[..., free]
    noises: list[float | None] = [None] * len(loads)
    if pairs.noise is not None:
        levels = torch.as_tensor(pairs.noise, dtype=torch.float64).cpu().expand(pairs.batch).reshape(-1)
        noises = [max(float(level), precision) for level in levels]
    return [
        _system(faces, load, response, seen, noise)
        for load, response, seen, noise in zip(loads, responses, masks, noises, strict=True)
    ]


def _system(
    faces: FaceMap, loads: np.ndarray, responses: np.ndarray, mask: np.ndarray, noise: float | None
) -> MeasuredSystem:
    if not mask.any():
        raise PairsError(expected="a measured value inside the domain", got="none", remedy="check the mask")
    columns = mask[:1] if np.all(mask == mask[0]) else mask
    weights = columns.T * faces.volume[:, None]
    weights = weights / (np.sum(weights) * (len(mask) / weights.shape[1]))
    return MeasuredSystem(
        faces=faces,
        cell_loads=loads.T * faces.volume[:, None],
        responses=np.where(mask, responses, 0.0).T,
        weights=weights,
        noise=noise,
    )

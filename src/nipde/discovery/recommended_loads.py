"""Recommended loads: the best of the longest waves, named so that a person can apply them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from nipde.discovery.a_optimal_design import Sensor, most_informative
from nipde.discovery.candidates import Loads, at_effort, wave_loads
from nipde.discovery.design import Ranking, next_load
from nipde.discovery.discovery import RecommendedLoads
from nipde.errors import KernelError
from nipde.grid import AXES, Grid
from nipde.physics.darcy import Darcy

#: Number of waves that are compared.
CANDIDATES = 60
#: Gains of candidates for predicting queries, at an effort or, with None, as they are.
Rank = Callable[[Any, Any, float | None], Ranking]


def by_kernel(kernel: Any) -> Rank:
    """By the variance of predictions that the correction of a conditioned kernel has left."""
    return lambda candidates, queries, effort: next_load(kernel, candidates, queries, effort=effort)


def by_material(kernel: Any, loads: Loads, *, sensor: Sensor) -> Rank:
    """By the uncertainty of the coefficient that a kernel has inferred from the responses to `loads`.

    Queries count at the effort of these loads, so that the noise of the sensor is a share of responses like theirs.
    """
    if kernel.coefficient is None or getattr(getattr(kernel, "prior", None), "drift", None) is not None:
        raise KernelError(
            expected="a kernel with an inferred coefficient and no drift", got=type(kernel).__name__,
            remedy="use an elliptic prior without drift, or rank by kernel",
        )  # fmt: skip
    law = Darcy(kernel.grid, kernel.coefficient.detach().cpu().double().numpy())
    usual = effort_of(loads)
    return lambda candidates, queries, effort: most_informative(
        law, candidates, at_effort(kernel.grid, queries, effort=usual), sensor=sensor, applied=loads, effort=effort
    )


def long_waves(grid: Grid) -> Loads:
    """The waves that are compared, and whose responses are to be predicted."""
    return wave_loads(grid, min(CANDIDATES, int(grid.unknown.sum()) - 1))


def recommended_loads(
    kernel: Any, *, effort: float, count: int, unit: str = "", rank: Rank | None = None
) -> RecommendedLoads:
    """The best of the longest waves of root mean square `effort`, for predicting the responses to all of them.

    None for a kernel without uncertainty of its predictions, unless a `rank` is given.
    """
    grid, waves = kernel.grid, long_waves(kernel.grid)
    if rank is None and getattr(kernel, "subspace", None) is None:
        return RecommendedLoads((), np.zeros(0), np.zeros((0, *grid.shape)))
    ranking = (by_kernel(kernel) if rank is None else rank)(waves, waves, effort)
    best = ranking.order[:count]
    loads = (waves[best, 0] * effort).cpu().numpy()
    names = tuple(f"{_named(grid, load)}, rms {effort:.3g} {unit}".rstrip() for load in loads)
    return RecommendedLoads(names, ranking.gains[best].cpu().numpy(), loads)


def _named(grid: Grid, load: np.ndarray) -> str:
    """A wave by its number of half waves along every axis."""
    counts = []
    for place, axis in enumerate(grid.axes):
        along = np.moveaxis(load, place, 0).reshape(load.shape[place], -1)
        line = along[:, np.argmax(np.abs(along).max(0))]
        signs = np.sign(line[np.abs(line) > 1e-6 * np.abs(line).max()])
        changes = int(np.count_nonzero(np.diff(signs)))
        counts.append(changes + changes % 2 if axis.boundary.periodic else changes + int(axis.boundary.essential))
    words = [f"{count} half wave{'s' if count > 1 else ''}" if count else "constant" for count in counts]
    return ", ".join(f"{word} along {axis}" for word, axis in zip(words, AXES, strict=False))


def effort_of(loads: torch.Tensor) -> float:
    """Root mean square of the loads applied so far."""
    return float(loads.double().square().mean().sqrt())

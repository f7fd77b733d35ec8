"""The next loads worth applying, named so that a person can apply them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from nipde.discovery.candidates import Loads, at_effort, wave_loads
from nipde.discovery.design import Ranking, next_load
from nipde.discovery.discovery import NextLoads
from nipde.discovery.informative import most_informative
from nipde.discovery.sensor import Sensor
from nipde.errors import KernelError
from nipde.grid import AXES, Grid
from nipde.kernels.conditioned import ConditionedKernel
from nipde.kernels.elliptic import EllipticKernel
from nipde.physics.darcy import Darcy

#: Waves that are compared.
CANDIDATES = 60
#: What candidates are worth for answering queries, at an effort or, with None, as they are.
Rank = Callable[[Any, Any, float | None], Ranking]


def by_kernel(kernel: ConditionedKernel) -> Rank:
    """By what the correction of a kernel can use."""
    return lambda candidates, queries, effort: next_load(kernel, candidates, queries, effort=effort)


def by_material(kernel: ConditionedKernel, loads: Loads, *, sensor: Sensor) -> Rank:
    """By what is not yet known of the material that a kernel has inferred from its response to `loads`.

    Queries count at the effort of these loads, and so the noise of the sensor is a share of readings like theirs.
    """
    prior = kernel.prior
    if not isinstance(prior, EllipticKernel) or prior.drift is not None:
        raise KernelError(
            expected="weights that infer a material at rest", got="others",
            remedy="use an elliptic prior without drift, or rank by kernel",
        )  # fmt: skip
    medium = Darcy(kernel.grid, prior.coefficient.detach().cpu().double().numpy())
    usual = effort_of(loads)
    return lambda candidates, queries, effort: most_informative(
        medium, candidates, at_effort(kernel.grid, queries, effort=usual), sensor=sensor, applied=loads, effort=effort
    )


def long_waves(grid: Grid) -> Loads:
    """The waves that are compared, and that one wants to answer."""
    return wave_loads(grid, min(CANDIDATES, int(grid.unknown.sum()) - 1))


def next_loads(
    kernel: ConditionedKernel, *, effort: float, count: int, unit: str = "", rank: Rank | None = None
) -> NextLoads:
    """The best of the longest waves of root mean square `effort`, for answering others of them."""
    grid, waves = kernel.grid, long_waves(kernel.grid)
    ranking = (by_kernel(kernel) if rank is None else rank)(waves, waves, effort)
    best = ranking.order[:count]
    loads = (waves[best, 0] * effort).cpu().numpy()
    names = tuple(f"{_named(grid, load)}, rms {effort:.3g} {unit}".rstrip() for load in loads)
    return NextLoads(names, ranking.gains[best].cpu().numpy(), loads)


def _named(grid: Grid, load: np.ndarray) -> str:
    """A wave by the number of its half waves along every axis."""
    counts = []
    for place, axis in enumerate(grid.axes):
        along = np.moveaxis(load, place, 0).reshape(load.shape[place], -1)
        line = along[:, np.argmax(np.abs(along).max(0))]
        signs = np.sign(line[np.abs(line) > 1e-6 * np.abs(line).max()])
        turns = int(np.count_nonzero(np.diff(signs)))
        counts.append(turns + turns % 2 if axis.boundary.periodic else turns + int(axis.boundary.clamped))
    words = [f"{count} half wave{'s' if count > 1 else ''}" if count else "even" for count in counts]
    return ", ".join(f"{word} along {axis}" for word, axis in zip(words, AXES, strict=False))


def effort_of(loads: torch.Tensor) -> float:
    """Root mean square of the loads so far: what the engineer's machine can do."""
    return float(loads.double().square().mean().sqrt())

"""The next loads worth applying, named so that a person can apply them."""

import numpy as np
import torch

from nipde.discovery.candidates import wave_loads
from nipde.discovery.design import next_load
from nipde.discovery.discovery import NextLoads
from nipde.grid import Grid
from nipde.kernels.conditioned import ConditionedKernel

#: Waves that are compared.
CANDIDATES = 60


def next_loads(kernel: ConditionedKernel, *, effort: float, count: int, unit: str = "") -> NextLoads:
    """The best of the longest waves of root mean square `effort`, for answering others of them."""
    grid = kernel.grid
    waves = wave_loads(grid, min(CANDIDATES, int(grid.unknown.sum()) - 1))
    ranking = next_load(kernel, waves, waves, effort=effort)
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
    return ", ".join(f"{word} along {axis}" for word, axis in zip(words, "xyz", strict=False))


def effort_of(loads: torch.Tensor) -> float:
    """Root mean square of the loads so far: what the engineer's machine can do."""
    return float(loads.double().square().mean().sqrt())

"""Recommended loads: the best of patches, points or doublets, named so that a person can apply them.

Ranked by what a load would add to predictions for all candidates and for the loads applied so far, half and half. Where
the kernel has a coefficient, the candidates inform about it (`a_optimal_design`); elsewhere, about the kernel
(`design`). Of neighbours only the best is recommended.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.discovery.a_optimal_design import Sensor, most_informative
from nipde.discovery.candidates import PATCH, Candidates, Kind, Loads, acting_inside, as_loads, candidates_like
from nipde.discovery.design import Ranking, next_load
from nipde.discovery.discovery import RecommendedLoads
from nipde.discovery.load_names import load_name
from nipde.discretisation.interpolation import multilinear
from nipde.errors import KernelError
from nipde.grid import Grid
from nipde.measurements.units import Units
from nipde.physics.darcy import Darcy

#: Noise where it is neither stated nor estimated, as a share of the readings.
USUAL_NOISE = 0.01
#: The coefficient is linearised on a grid of so many nodes at most: matrices are as large as the grid.
MOST_NODES = 500
#: Gains of candidates for predicting queries, both as they are.
Rank = Callable[[Loads, Loads], Ranking]


def recommend(
    kernel: Any,
    context: Pairs | SensorPairs,
    *,
    count: int,
    units: Units | None = None,
    origin: tuple[float, ...] | None = None,
    kind: Kind | None = None,
    rank: Rank | None = None,
) -> RecommendedLoads:
    """The best loads to apply after those of the context, at their effort (`candidates_like`).

    `origin` is the position of the first node. A `kind` of None follows the context: points if its loads are points,
    patches otherwise. Empty for a kernel without uncertainty, unless a `rank` is given, and for specimens that were
    loaded on their outline only.
    """
    grid, rank = kernel.grid, usual_rank(kernel, context) if rank is None else rank
    none = RecommendedLoads((), np.zeros(0), np.zeros((0, *grid.shape)))
    on_shape = isinstance(context, SensorPairs) and context.specimen is not None
    applied = context.loads * torch.tensor(kernel.laws[0].inside) if on_shape else context.loads
    applied = applied[applied.flatten(1).any(1)]
    if rank is None or not len(applied):
        return none
    candidates = candidates_like(grid, applied, kind)
    if on_shape:
        candidates = acting_inside(candidates, kernel.laws[0].inside)
        if not len(candidates.fields):
            return none
    ranking = rank(candidates.fields, queries_of(candidates.fields, applied))
    best = _apart(candidates, ranking.order.tolist())[:count]
    names = tuple(load_name(candidates, place, units=units, origin=origin) for place in best)
    return RecommendedLoads(names, ranking.gains[best].cpu().numpy(), candidates.fields[best, 0].numpy())


def queries_of(candidates: Loads, applied: Loads) -> Loads:
    """Loads whose responses are to be predicted: candidates, and applied loads repeated to about as many."""
    applied = applied.to(candidates)
    return torch.cat([candidates, applied.repeat_interleave(max(1, round(len(candidates) / len(applied))), 0)])


def usual_rank(kernel: Any, context: Pairs | SensorPairs) -> Rank | None:
    """By the coefficient and its posterior, by the subspace of the context, or None if the kernel has neither."""
    subspace = getattr(kernel, "subspace", None)
    if isinstance(context, SensorPairs) and context.specimen is not None:
        return by_readings(kernel)
    if _has_coefficient(kernel) and (subspace is not None or kernel.posterior is not None):
        return by_material(kernel, context)
    return None if subspace is None else by_kernel(kernel)


def by_kernel(kernel: Any) -> Rank:
    """By the variance of predictions that the correction of a conditioned kernel has left."""
    return lambda candidates, queries: next_load(kernel, candidates, queries, effort=None)


def by_readings(kernel: Any) -> Rank:
    """By the posterior of a fit to sensors, on the specimen that it was fitted on."""
    gains_of = kernel.laws[0].posterior.reading_gains
    return lambda candidates, queries: Ranking(
        torch.tensor(gains_of(candidates[:, 0].numpy(), queries[:, 0].cpu().numpy()))
    )


def by_material(kernel: Any, context: Pairs | SensorPairs, *, sensor: Sensor | None = None) -> Rank:
    """By the uncertainty that the readings of the context leave of the coefficient, read at the same sensors again.

    Noise is that of `sensor`; with None, as stated by the context, estimated by the kernel, or 1 % of the readings.
    """
    if not _has_coefficient(kernel):
        raise KernelError(
            expected="a kernel with an inferred coefficient and no drift", got=type(kernel).__name__,
            remedy="use an elliptic prior without drift, or rank by kernel",
        )  # fmt: skip
    readings = context if isinstance(context, SensorPairs) else SensorPairs.of(context)
    grid, coarse = kernel.grid, _design_grid(kernel.grid)
    log = np.log(kernel.coefficient.detach().cpu().double().numpy())
    law = Darcy(coarse, np.exp(log if coarse == grid else grid.interpolate(log, to=coarse)))
    sensor = Sensor(0.0, least=_deviation(kernel, readings)) if sensor is None else sensor
    sensor, applied = replace(sensor, at=readings.sensors), _moved(readings.loads, grid, to=coarse)

    def rank(candidates: Loads, queries: Loads) -> Ranking:
        moved = [_moved(loads, grid, to=coarse) for loads in (candidates, queries)]
        return most_informative(law, *moved, sensor=sensor, applied=applied, effort=None)

    return rank


def _has_coefficient(kernel: Any) -> bool:
    drift = getattr(getattr(kernel, "prior", None), "drift", None)
    return kernel.coefficient is not None and drift is None


def _deviation(kernel: Any, readings: SensorPairs) -> float:
    """Standard deviation of a reading."""
    if readings.covariance is not None:
        return float(readings.covariance.diagonal().mean().sqrt())
    if readings.noise is not None:
        return float(torch.as_tensor(readings.noise, dtype=torch.float64).square().mean().sqrt())
    laws = getattr(kernel, "laws", ())
    estimated = getattr(laws[0], "summary", {}).get("noise") if laws else None
    return USUAL_NOISE * float(readings.readings.square().nanmean().sqrt()) if estimated is None else float(estimated)


def _design_grid(grid: Grid) -> Grid:
    """The same box with at most about `MOST_NODES` nodes."""
    share = (MOST_NODES / grid.size) ** (1 / grid.dimension)
    return grid if share >= 1 else replace(
        grid, axes=tuple(axis.resampled(max(4, int(axis.intervals * share))) for axis in grid.axes)
    )  # fmt: skip


def _moved(loads: Loads, grid: Grid, *, to: Grid) -> Loads:
    """Loads on another grid of the box, ∫f as before."""
    fields = as_loads(grid, loads).cpu()
    if to == grid:
        return fields
    points = np.stack([x.ravel() for x in grid.coordinates], axis=-1)
    moments = fields[:, 0].numpy().reshape(len(fields), -1) * grid.weights.ravel()
    shared = (multilinear(to, points).T @ moments.T).T / to.weights.ravel()
    return torch.tensor(shared).reshape(len(fields), 1, *to.shape)


def _apart(candidates: Candidates, order: list[int]) -> list[int]:
    """Those that are not next to a better one: within a fifth of every side, doublets with both ends."""
    near = PATCH * np.array([axis.length for axis in candidates.grid.axes]) * (1 - 1e-6)
    kept: list[int] = []
    for one in order:
        distances = np.abs(candidates.places[kept] - candidates.places[one])
        if not candidates.places.size or not (distances < near).all((1, 2)).any():
            kept.append(one)
    return kept

"""Coverage of the low-rank posterior of log b: log-normal materials, data of finite elements eight times finer.

Each system: ten loads, readings at 64 of the nodes of 21², 1 % noise; a smooth law is fitted (`SensorInversion`), and
its posterior taken on grids of 41² and 161² unknowns. Judged are all cells of the solver's mesh, and those away from
the rim: the share within 1.645 deviations, which should be 90 %.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.resumed import resumed
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.discretisation.interpolation import multilinear
from nipde.estimators.inverse.posterior_at_size import posterior_at_size
from nipde.estimators.inverse.sensor_inversion import SensorInversion

SEED = 6203
SYSTEMS, PAIRS, SENSORS, NOISE, INTERVALS = 20, 10, 64, 0.01, (40, 160)
#: Half width of a band of 90 %, and cells at the rim that are judged apart, as a share of the length.
NORMAL, RIM = 1.645, 0.05


def measure(*, quick: bool) -> dict[str, Any]:
    """All systems; `quick` sees five. One that is finished leaves a file: an interrupted run goes on."""
    systems = 5 if quick else SYSTEMS
    judged = [resumed("posterior-coverage", str(number), partial(judge, number)) for number in range(systems)]
    names = ("within", "within_inner", "deviation", "error", "rank")
    rows = [
        {"intervals": int(one), **{name: float(np.mean([each[one][name] for each in judged])) for name in names},
         "lowest": min(each[one]["within_inner"] for each in judged)}
        for one in map(str, INTERVALS)
    ]  # fmt: skip
    return {
        "systems": systems, "pairs": PAIRS, "sensors": SENSORS, "noise": NOISE, "rows": rows,
        "each": judged,
    }  # fmt: skip


def judge(number: int) -> dict[str, dict[str, float]]:
    """One system, its posterior on every grid."""
    recipe = ReferenceDarcyRecipe(nodes=21, pairs=PAIRS, family="log-normal", precision="float64")
    system = recipe.build(np.uint64(SEED + number))
    rng, grid = np.random.default_rng(SEED + number), recipe.grid
    read = np.zeros(grid.shape, dtype=bool)
    read.ravel()[rng.choice(np.flatnonzero(grid.unknown), SENSORS, replace=False)] = True
    pairs = with_white_noise(Pairs.from_arrays(system.loads, system.responses, grid=grid), share=NOISE, seed=number)
    law = SensorInversion(piecewise_constant=False)(replace(pairs, mask=torch.tensor(read)[None, None])).laws[0]
    assert system.fine is not None
    truth = np.log(system.fine[0])
    cells = (np.arange(len(truth)) + 0.5) / len(truth)
    points = np.stack(np.meshgrid(cells, cells, indexing="ij"), -1).reshape(-1, 2)
    error = np.abs(law.log_coefficient_at(points).reshape(truth.shape) - truth)
    rim, found = round(RIM * len(truth)), {}
    for one in INTERVALS:
        posterior = posterior_at_size(law, intervals=one)
        deviation = multilinear(posterior.grid, points) @ posterior.log_deviation().ravel()
        within = error <= NORMAL * deviation.reshape(truth.shape)
        found[str(one)] = {
            "within": float(within.mean()), "within_inner": float(within[rim:-rim, rim:-rim].mean()),
            "deviation": float(np.median(deviation)), "error": float(np.sqrt(np.mean(error**2))),
            "rank": posterior.low_rank.rank,
        }  # fmt: skip
    return found

"""Sensors to material on reference data: finite elements eight times finer, materials with details below the grid.

Rows are families, loads, pairs, noise and sensors. Every system is one job that leaves a file in the folder of work:
an interrupted campaign goes on, and rows grow evenly. Errors are against the solver's own mesh: held-out responses
without noise, and the coefficient in every cell of it.
"""

import json
import time
from collections import defaultdict
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import campaign
from nipde.atomic import write_bytes
from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.data.plan import Plan
from nipde.data.reference import Family, LoadKind, ReferenceDarcyRecipe
from nipde.estimators.inverse.sensor_inversion import SensorInversion

SEED = 2029
#: Systems of every row.
BUDGETS = {"quick": 1, "standard": 10, "long": 50}
QUERIES, LEVELS = 15, (0.5, 0.8, 0.9, 0.95)
#: Cells at the rim that are not judged, as a share of the length: no response depends on them much.
RIM = 0.05


@dataclass(frozen=True)
class Row:
    """One kind of experiment."""

    name: str
    family: Family = "two-phase"
    loads: LoadKind = "middle"
    pairs: int = 50
    noise: float = 0.01
    #: Measured nodes; 0: all of them.
    sensors: int = 0


ROWS = (
    Row("two phases"), Row("log-normal", family="log-normal"), Row("rough loads", loads="rough"),
    Row("circles", family="circles"), Row("Voronoi", family="voronoi"), Row("stripes", family="stripes"),
    Row("three phases", family="three-phase"), Row("no noise", noise=0.0), Row("10 pairs", pairs=10),
    Row("log-normal, 10 pairs", family="log-normal", pairs=10), Row("5 % noise", noise=0.05),
    Row("half of the nodes", sensors=180), Row("36 sensors", sensors=36),
    Row("30 sensors, 10 pairs", sensors=30, pairs=10),
    Row("25 points, 8 wells", family="log-normal", loads="wells", pairs=8, sensors=25),
)  # fmt: skip


def measure(
    *, budget: str, before: Any = None, work: Path, only: list[str] | None = None, workers: int = 1,
    progress: Any = lambda finished: None,
) -> dict[str, Any]:  # fmt: skip
    """Every row over the systems of the budget, or over those finished."""
    rows = [row for row in ROWS if not only or row.name in only]
    folder = work / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [(row, number) for number in range(BUDGETS[budget]) for row in rows]
    with campaign.workers(workers) as pool:
        due = [job for job in jobs if not _path(folder, *job).exists()]
        for done in as_completed([pool.submit(judged, row, number, folder) for row, number in due]):
            progress(done.result())
    return {"rows": [summary(row, folder) for row in ROWS], "systems": BUDGETS[budget], "queries": QUERIES}


def judged(row: Row, number: int, folder: Path) -> str:
    """One system, unless it was before."""
    torch.set_num_threads(1)
    context, system, chosen = experiment(row, number)
    start = time.process_time()
    kernel = SensorInversion()(context)
    seconds = time.process_time() - start
    law = kernel.laws[0]
    loads, truth = (torch.as_tensor(field[-QUERIES:].astype(np.float64)) for field in (system.loads, system.responses))
    if row.loads == "wells":  # the pressure in a well has no limit on finer meshes
        beside = (loads != 0) | (torch.nn.functional.max_pool2d((loads != 0).double(), 3, 1, 1) > 0)
    else:
        beside = torch.zeros_like(loads, dtype=torch.bool)
    judged_at = torch.tensor(kernel.grid.unknown) & ~beside
    off = (kernel.predict(loads) - truth).where(judged_at, 0.0)
    errors = off.flatten(1).norm(dim=1) / truth.where(judged_at, 0.0).flatten(1).norm(dim=1)
    deviation = torch.as_tensor(law.posterior.response_deviation(loads[:, 0].numpy()))[:, None]
    ratios = (off.abs() / deviation)[judged_at].numpy()
    fine = np.log(system.fine[0].astype(np.float64))
    log = np.log(law.map_of(fine.shape))
    rim = round(RIM * len(fine))
    inner = np.s_[rim:-rim, rim:-rim]
    apart = np.abs(log - fine)[inner]
    middle = np.log(6.0)
    around = np.pad(fine, 1, mode="edge")
    step = len(fine) // (kernel.grid.shape[0] - 1)
    corners = np.stack(
        [around[i : i + len(fine) + 1 : step, j : j + len(fine) + 1 : step] for i in (0, 1) for j in (0, 1)]
    )
    of_material = (np.abs(corners - law.log_coefficient) / law.posterior.log_deviation())[:, kernel.grid.unknown]
    found = {
        "held_out": float(errors.mean()), "ratios": np.quantile(ratios, LEVELS).tolist(),
        "within": [float(np.mean(ratios < factor)) for factor in (0.674, 1.282, 1.645, 1.960)],
        "material_ratios": np.quantile(of_material, LEVELS).tolist(), "log_mean": float(apart.mean()),
        "log_median": float(np.median(apart)),
        "phases_inside": float(np.mean(((log > middle) == (fine > middle))[inner])), "seconds": seconds,
        "sensors": int(np.count_nonzero(chosen)), **law.summary,
    }  # fmt: skip
    write_bytes(_path(folder, row, number), json.dumps(found).encode())
    return f"{row.name} {number}"


def experiment(row: Row, number: int) -> tuple[SensorPairs, Any, np.ndarray]:
    """Readings of a context, the system behind them, and which nodes have a sensor."""
    recipe = ReferenceDarcyRecipe(pairs=row.pairs + QUERIES, family=row.family, loads=row.loads)
    system = recipe.build(Plan(recipe, number + 1, SEED).system_seed(number))
    grid, rng = recipe.grid, np.random.default_rng([SEED, number])
    loads, responses = (field[: row.pairs, 0].astype(np.float64) for field in (system.loads, system.responses))
    chosen = grid.unknown.copy()
    if row.loads == "wells":  # observation points stand away from the wells
        near = np.pad((loads != 0).any(0), 1)
        chosen &= ~np.any([near[1 + i : grid.shape[0] + 1 + i, 1 + j : grid.shape[1] + 1 + j]
                           for i in (-1, 0, 1) for j in (-1, 0, 1)], axis=0)  # fmt: skip
    if row.sensors:
        kept = rng.choice(np.flatnonzero(chosen), row.sensors, replace=False)
        chosen = np.isin(np.arange(grid.size), kept).reshape(grid.shape)
    level = row.noise * float(np.sqrt(np.mean(responses[:, chosen] ** 2)))
    noisy = responses + level * rng.standard_normal(responses.shape)
    pairs = Pairs.from_arrays(loads, noisy, grid=grid, mask=np.broadcast_to(chosen, noisy.shape), noise=level)
    return SensorPairs.of(pairs), system, chosen


def summary(row: Row, folder: Path) -> dict[str, Any]:
    """Means over the systems that are there; `bands` are shares within raw bands of the posterior."""
    each = [json.loads(path.read_bytes()) for path in sorted(folder.glob(f"{_stem(row)}-*.json"))]
    if not each:
        return {"row": row.name, "systems": 0}
    models: dict[str, int] = defaultdict(int)
    for one in each:
        models[one["model"]] += 1
    means = ("held_out", "log_mean", "log_median", "phases_inside", "chi_square", "effective_dof", "seconds")
    return {
        "row": row.name, **vars(row), "systems": len(each), "models": dict(models),
        **{name: float(np.mean([one[name] for one in each])) for name in means},
        "held_out_worst": float(np.max([one["held_out"] for one in each])),
        "within": np.mean([one["within"] for one in each], axis=0).tolist(),
    }  # fmt: skip


def _stem(row: Row) -> str:
    return row.name.replace(" ", "-").replace("%", "percent").replace(",", "")


def _path(folder: Path, row: Row, number: int) -> Path:
    return folder / f"{_stem(row)}-{number}.json"

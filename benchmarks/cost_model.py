"""Does the cost model hold? Calibrated on seconds of work, it predicts runs of other sizes here; then two sets that
nobody has room for.

What is compared is processor time: the cores are shared with other work, and a time on the wall would say how much of
it there was.
"""

import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.timing import in_fresh_process
from nipde.data.array_jobs import generate_share, merge_shares
from nipde.data.cost import Machines, Speed, calibrate, estimate
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan

SEED = 0
#: Assumptions, not facts: what a user would fill in.
MACHINES = Machines(
    cores=128, failures=1e-4, restart_hours=0.5, price_core_hour=0.05, price_terabyte_month=20.0, months=12
)
#: Grid, pairs and systems of runs that are predicted.
RUNS = ((11, 2, 4000), (21, 100, 1000), (81, 32, 60), (256, 32, 8))


def measure(*, quick: bool) -> dict[str, Any]:
    """Predicted and measured runs, and the forecasts."""
    plans = [Plan(DarcyRecipe(nodes=nodes, pairs=pairs), systems=count, seed=SEED) for nodes, pairs, count in RUNS]
    if quick:
        plans = [dataclasses.replace(plan, systems=max(3, plan.systems // 20)) for plan in plans[:2]]
    rows = [_row(plan, in_fresh_process(calibrate, plan), in_fresh_process(_run, plan)) for plan in plans]
    sets = [Plan(DarcyRecipe(nodes=256, pairs=32), systems=systems, seed=SEED) for systems in (100_000, 1_000_000)]
    speed = in_fresh_process(calibrate, sets[0])
    return {
        "rows": rows,
        "machines": dataclasses.asdict(MACHINES),
        "speed_at_256": dataclasses.asdict(speed),
        "sets": [dataclasses.asdict(estimate(plan, speed, MACHINES)) for plan in sets],
    }


def _row(plan: Plan, speed: Speed, measured: dict[str, float]) -> dict[str, Any]:
    found = estimate(plan, speed)
    predicted = {
        "bytes": found.bytes, "files": found.files, "processor_seconds": 3600 * found.core_hours,
        "check_processor_seconds": 3600 * found.merge_hours,
    }  # fmt: skip
    recipe = plan.recipe
    return {
        "grid": recipe.nodes, "pairs": recipe.pairs, "systems": plan.systems, "shards": plan.shards,
        "speed": dataclasses.asdict(speed), "predicted": predicted, "measured": measured,
        "ratio": {name: predicted[name] / measured[name] for name in predicted},
    }  # fmt: skip


def _run(plan: Plan) -> dict[str, float]:
    """One job makes everything, then the merge checks every byte."""
    with tempfile.TemporaryDirectory(prefix="nipde-bench-") as folder:
        one = dataclasses.replace(plan, systems=1, shard_systems=1, split=(1.0, 0.0, 0.0))
        generate(one, f"{folder}/warm", workers=1)
        start, used = time.perf_counter(), time.process_time()
        generate_share(plan, f"{folder}/set", job=1, jobs=1, workers=1)
        made, seconds = time.process_time(), time.perf_counter() - start
        merge_shares(plan, f"{folder}/set", jobs=1, workers=1)
        checked = time.process_time() - made
        sizes = [path.stat().st_size for path in Path(folder, "set").rglob("*") if path.is_file()]
    return {
        "bytes": sum(sizes), "files": len(sizes), "processor_seconds": made - used, "seconds": seconds,
        "check_processor_seconds": checked,
    }  # fmt: skip

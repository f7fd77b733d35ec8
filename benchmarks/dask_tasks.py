"""How many tasks a second dask hands out and takes back: shards are its tasks, these do nothing but return a record."""

import json
import resource
import time
from typing import Any

from benchmarks.timing import in_fresh_process
from nipde.data.cluster import working

SEED = 0
WORKERS = 2
#: Sizes that the one before says would take longer are left out.
MOST_SECONDS = 900.0


def measure(*, quick: bool) -> dict[str, Any]:
    """By number of tasks, each in a cluster of its own."""
    sizes = (10, 100, 1000) if quick else (1_000, 10_000, 100_000)
    rows: list[dict[str, Any]] = []
    for tasks in sizes:
        expected = rows[-1]["seconds"] / rows[-1]["tasks"] * tasks if rows else 0.0
        if expected < MOST_SECONDS:
            rows.append({"tasks": tasks, **in_fresh_process(_tasks, tasks)})
    return {"workers": WORKERS, "rows": rows, "not_run": [tasks for tasks in sizes if tasks > rows[-1]["tasks"]]}


def _tasks(count: int) -> dict[str, Any]:
    """So many tasks through two workers, as shards go; the start of the cluster is not counted."""
    with working(WORKERS) as work:
        list(work(_record, range(WORKERS)))
        start, used = time.perf_counter(), time.process_time()
        returned = sum(1 for _ in work(_record, range(count)))
        seconds, processor = time.perf_counter() - start, time.process_time() - used
    assert returned == count
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seconds": seconds, "per_second": count / seconds, "client_and_scheduler_processor_seconds": processor,
        "client_and_scheduler_peak_mib": peak,
    }  # fmt: skip


def _record(shard: int) -> str:
    """A record of about the size that a shard leaves."""
    return json.dumps({"shard": shard, "files": {f"array{n}/c.{shard}.0.0.0": 64 * "0" for n in range(6)}})

"""An archive by four jobs that never talk, two of them killed and run again, against one run.

Jobs, merge and the one run are the commands a person types, each a process of its own. The one run goes beside the
jobs: they share the machine's cores, so the processor's time of each is what compares.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from nipde.data.archive import open_archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.manifest import PROGRESS
from nipde.data.plan import Plan

SEED = 7
JOBS, KILLED = 4, (2, 3)
#: The cheapest system that is solved at all: small, few loads, yet every one with its own material.
RECIPE = DarcyRecipe(nodes=11, pairs=2)


def measure(*, quick: bool) -> dict[str, Any]:
    """Digest, time and processor time of the jobs and of one run."""
    plan = Plan(RECIPE, systems=2_000 if quick else 100_000, seed=SEED)
    folder = Path(tempfile.mkdtemp(prefix="nipde-bench-"))
    try:
        beside = _command(plan, folder / "one", "--workers", "1")
        jobs = _by_jobs(plan, folder / "jobs")
        one = beside.end()
        digests = [open_archive(folder / name, verify=True).digest for name in ("jobs", "one")]
        stored = [path.stat().st_size for path in (folder / "one").rglob("*") if path.is_file()]
    finally:
        shutil.rmtree(folder)
    return {
        "systems": plan.systems, "grid": RECIPE.nodes, "pairs": RECIPE.pairs, "shards": plan.shards, "jobs": JOBS,
        "same_digest": digests[0] == digests[1], "digest": digests[0], "files": len(stored), "bytes": sum(stored),
        "by_jobs": jobs, "one_run": one,
    }  # fmt: skip


def _by_jobs(plan: Plan, out: Path) -> dict[str, Any]:
    """All jobs at once; two get SIGKILL at a random moment after their first shard. These again, then the merge."""
    rng, start = np.random.default_rng(SEED), time.perf_counter()
    running = {job: _command(plan, out, "--shard", f"{job}/{JOBS}", "--workers", "1") for job in range(1, JOBS + 1)}
    moments = dict(zip(KILLED, rng.uniform(0, plan.systems / 2_000, len(KILLED)), strict=True))
    for job in sorted(KILLED, key=moments.__getitem__):
        while not _kept(plan, out, job):
            time.sleep(0.01)
        time.sleep(moments[job])
        os.killpg(running[job].process.pid, signal.SIGKILL)
        running[job].process.wait()
    kept = {job: _kept(plan, out, job) for job in KILLED}
    refused = _command(plan, out, "--merge", str(JOBS)).refusal()
    running |= {job: _command(plan, out, "--shard", f"{job}/{JOBS}", "--workers", "1") for job in KILLED}
    finished = {job: running[job].end() for job in running if job not in KILLED}
    again = {job: running[job].end() for job in KILLED}
    at_once = _command(plan, out, "--shard", f"1/{JOBS}", "--workers", "1").end()
    merged = _command(plan, out, "--merge", str(JOBS)).end()
    return {
        "seconds": time.perf_counter() - start, "killed": list(KILLED), "kept_by_the_killed": kept,
        "merge_before_they_ran_again": refused.replace(str(out), "OUT"), "jobs": finished, "again": again,
        "a_finished_job_again": at_once, "merge": merged,
    }  # fmt: skip


def _kept(plan: Plan, out: Path, job: int) -> int:
    """Systems in recorded shards of a job."""
    shards = [int(path.stem) for path in (out / PROGRESS).glob("*.json")]
    return sum(len(plan.systems_of(shard)) for shard in shards if shard % JOBS == job - 1)


class _command:
    """`nipde generate` in a process group of its own."""

    def __init__(self, plan: Plan, out: Path, *words: str) -> None:
        recipe = {"grid": RECIPE.nodes, "pairs": RECIPE.pairs, "systems": plan.systems, "seed": plan.seed, "out": out}
        options = [word for name, value in recipe.items() for word in (f"--{name}", str(value))]
        self.start = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nipde.cli", "generate", "darcy", *options, *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def end(self) -> dict[str, Any]:
        """Wait for it: seconds, processor seconds, and how many systems it computed."""
        printed, complaint = (pipe.read() if pipe else "" for pipe in (self.process.stdout, self.process.stderr))
        _, status, used = os.wait4(self.process.pid, 0)
        seconds = time.perf_counter() - self.start
        if os.waitstatus_to_exitcode(status):
            raise RuntimeError(complaint)
        computed = int(printed.split(" computed now")[0].rsplit("(", 1)[1])
        return {"computed": computed, "seconds": seconds, "processor_seconds": used.ru_utime + used.ru_stime}

    def refusal(self) -> str:
        """What it complains of; an error if it does not."""
        _, complaint = self.process.communicate()
        if self.process.returncode != 2:
            raise RuntimeError(f"it was not refused: {complaint}")
        return complaint.strip()

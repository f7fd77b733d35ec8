"""Does a run survive being killed? Real processes, SIGKILL, and the digest of an undisturbed run to compare with."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from nipde.data.archive import open as open_archive
from nipde.data.generate import generate
from nipde.data.manifest import MANIFEST, PROGRESS
from nipde.data.plan import Plan
from nipde.data.problems import DarcyRecipe

SEED = 5


def measure(*, quick: bool) -> dict[str, Any]:
    """A worker of a real cluster killed in mid-run, and whole runs killed at random moments and started again."""
    systems, kills = (400, 2) if quick else (1000, 20)
    plan = Plan(DarcyRecipe(), systems=systems, seed=SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        undisturbed = generate(plan, folder / "undisturbed", workers=1).digest
        worker = _kill_a_worker(plan, folder)
        rng = np.random.default_rng(SEED)
        runs = [_kill_the_run(plan, folder / f"killed-{index}", rng, early=index % 4 == 3) for index in range(kills)]
    return {
        "systems": systems,
        "shards": plan.shards,
        "digest": undisturbed,
        "worker_killed": {**worker, "same_digest": worker["digest"] == undisturbed},
        "runs_killed": kills,
        "same_digest": sum(run["digest"] == undisturbed for run in runs),
        "only_missing_recomputed": sum(run["computed_after"] == systems - run["kept"] for run in runs),
        "runs": [
            {key: run[key] for key in ("killed_after_seconds", "early", "kept", "computed_after")} for run in runs
        ],
    }


def _kill_a_worker(plan: Plan, folder: Path) -> dict[str, Any]:
    """Scheduler and two workers as processes of their own; one worker dies once some shards are done."""
    out = folder / "cluster"
    with _scheduler(folder) as address, _process(*_worker(address)) as victim, _process(*_worker(address)):
        with _process(*_generate(plan, out), "--scheduler", address, stdout=subprocess.PIPE) as run:
            _wait_until(lambda: _kept(plan, out) > 0)
            kept = _kept(plan, out)
            victim.send_signal(signal.SIGKILL)
            printed, _ = run.communicate(timeout=300)
        assert run.returncode == 0, printed
    return {"ready_when_killed": kept, "digest": open_archive(out, verify=True).digest}


def _kill_the_run(plan: Plan, out: Path, rng: np.random.Generator, *, early: bool) -> dict[str, Any]:
    """All processes of a local run die at once, at a random moment; then the same command again.

    Moments are drawn from the time since the first shard was ready, or for `early` ones since the start.
    """
    command = [*_generate(plan, out), "--workers", "2"]
    delay = float(rng.uniform(0.0, 2.0))
    with _process(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        if not early:
            _wait_until(lambda: _kept(plan, out) > 0)
        time.sleep(delay)
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    kept = _kept(plan, out)
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    computed = int(re.search(r"\((\d+) computed now\)", printed).group(1))  # type: ignore[union-attr]
    finished = {"digest": open_archive(out, verify=True).digest, "computed_after": computed}
    return {"killed_after_seconds": round(delay, 2), "early": early, "kept": kept, **finished}


def _kept(plan: Plan, out: Path) -> int:
    """Systems whose shards are recorded as done, or all if the archive is finished."""
    if (out / MANIFEST).exists():
        return plan.systems
    return sum(len(plan.systems_of(int(path.stem))) for path in (out / PROGRESS).glob("*.json"))


def _generate(plan: Plan, out: Path) -> list[str]:
    words = ["generate", "darcy", "--systems", str(plan.systems), "--seed", str(plan.seed), "--out", str(out)]
    return [sys.executable, "-m", "nipde.cli", *words]


def _worker(address: str) -> list[str]:
    words = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
    return [sys.executable, "-m", "distributed.cli.dask_worker", address, *words]


@contextmanager
def _scheduler(folder: Path) -> Iterator[str]:
    address = folder / "scheduler.json"
    words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(address)]
    with _process(sys.executable, "-m", "distributed.cli.dask_scheduler", *words):
        _wait_until(address.exists)
        found = _wait_until(lambda: re.search(r'"address":\s*"([^"]+)"', address.read_text()))
        yield found.group(1)


@contextmanager
def _process(*command: str, **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """A process in a group of its own, which ends with the block."""
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "text": True, "start_new_session": True}
    process = subprocess.Popen(command, **{**quiet, **options})
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until(condition: Any, *, seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing happened in {seconds} s")
        time.sleep(0.01)
    return found

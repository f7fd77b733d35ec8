"""A run survives being killed: real processes, SIGKILL, and the digest of an undisturbed run to compare with."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nipde.data.archive import open_archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.manifest import MANIFEST, PROGRESS
from nipde.data.plan import Plan


@pytest.fixture(scope="module", params=[(200, 1), pytest.param((1000, 20), marks=pytest.mark.long)])
def undisturbed(request, tmp_path_factory):
    """A plan, the digest of its archive, and how often a run of it is killed."""
    systems, kills = request.param
    plan = Plan(DarcyRecipe(), systems=systems, seed=5)
    return plan, kills, generate(plan, tmp_path_factory.mktemp("kills") / "undisturbed", workers=1).digest


def test_a_cluster_that_loses_a_worker_makes_the_same_archive(undisturbed, tmp_path):
    """Scheduler and two workers as processes of their own; one worker dies once some shards are done."""
    plan, _, digest = undisturbed
    out = tmp_path / "cluster"
    with scheduler(tmp_path) as address, process(*worker(address)) as victim, process(*worker(address)):
        with process(*generating(plan, out), "--scheduler", address, stdout=subprocess.PIPE) as run:
            wait_until(lambda: kept(plan, out) > 0)
            assert kept(plan, out) < plan.systems
            victim.send_signal(signal.SIGKILL)
            printed, _ = run.communicate(timeout=300)
        assert run.returncode == 0, printed
    assert open_archive(out, verify=True).digest == digest


@pytest.mark.timeout(900)
def test_a_run_that_is_killed_goes_on_where_it_was(undisturbed, tmp_path):
    """All processes die at a random moment after the first shard, each fourth time after the start; then once more."""
    plan, kills, digest = undisturbed
    rng = np.random.default_rng(5)
    for index in range(kills):
        out = tmp_path / f"killed-{index}"
        command = [*generating(plan, out), "--workers", "2"]
        with process(*command) as run:
            if index % 4 != 3:
                wait_until(lambda out=out: kept(plan, out) > 0)
            time.sleep(float(rng.uniform(0.0, plan.systems / 500)))
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        ready = kept(plan, out)
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert int(re.search(r"\((\d+) computed now\)", printed)[1]) == plan.systems - ready
        assert open_archive(out, verify=True).digest == digest


def kept(plan: Plan, out: Path) -> int:
    """Systems whose shards are recorded as done, or all if the archive is finished."""
    if (out / MANIFEST).exists():
        return plan.systems
    return sum(len(plan.systems_of(int(path.stem))) for path in (out / PROGRESS).glob("*.json"))


def generating(plan: Plan, out: Path) -> list[str]:
    words = ["generate", "darcy", "--systems", str(plan.systems), "--seed", str(plan.seed), "--out", str(out)]
    return [sys.executable, "-m", "nipde.cli", *words]


def worker(address: str) -> list[str]:
    words = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
    return [sys.executable, "-m", "distributed.cli.dask_worker", address, *words]


@contextmanager
def scheduler(folder: Path) -> Iterator[str]:
    address = folder / "scheduler.json"
    words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(address)]
    with process(sys.executable, "-m", "distributed.cli.dask_scheduler", *words):
        wait_until(address.exists)
        found = wait_until(lambda: re.search(r'"address":\s*"([^"]+)"', address.read_text()))
        yield found.group(1)


@contextmanager
def process(*command: str, **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """A process in a group of its own, which ends with the block."""
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "text": True, "start_new_session": True}
    process = subprocess.Popen(command, **{**quiet, **options})
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until(condition: Any, *, seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing happened in {seconds} s")
        time.sleep(0.01)
    return found

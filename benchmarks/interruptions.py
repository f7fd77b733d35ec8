"""Training cut short: SIGKILL at random moments, SIGTERM, a full disk; the end must be that of an undisturbed run.

Runs are short and save after every step, so that many kills fall into a save. What is compared bit by bit: weights,
both moments and the step count of Adam, the counters, and the best weights; the learning rate is a function of these.
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nipde.data.archive import Archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.errors import CheckpointError
from nipde.training.fit import fit
from nipde.training.recipe import ModelRecipe, TrainingRecipe
from nipde.weights import checkpoint
from nipde.weights.models import BEST, LAST

SEED = 11
RECIPE = TrainingRecipe(
    ModelRecipe("nips", layers=2, channels=8), context=8, batch=4, steps=40, validate_every=10, validation_systems=4
)
#: The runs that get signals take longer, so that a signal finds them at work.
LONG_STEPS = 400


def measure(*, quick: bool) -> dict[str, Any]:
    """Kills, polite signals, full disks."""
    kills, signals, disks = (10, 2, 10) if quick else (200, 20, 50)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = Plan(DarcyRecipe(nodes=11, pairs=24), systems=30, seed=SEED)
        archive = generate(plan, folder / "data", workers=1)
        return {
            "steps": RECIPE.steps,
            "killed": _killed(archive, folder, kills),
            "terminated": _terminated(folder, signals),
            "disk_full": _disk_full(folder, disks),
        }


def _killed(archive: Archive, folder: Path, kills: int) -> dict[str, Any]:
    """Runs are killed up to three times each, then finished; forked, so that little of their life is starting up."""
    rng = np.random.default_rng(SEED)
    _fit(archive, folder / "warm")  # what is loaded on first use, forked processes have from the start
    start = time.monotonic()
    _in_a_process(_fit, archive, folder / "undisturbed")()
    usual, truth = time.monotonic() - start, _end(folder / "undisturbed")
    runs = equal = sent = during = 0
    while sent < kills:
        out = folder / f"killed-{runs}"
        for _ in range(min(int(rng.integers(1, 4)), kills - sent)):
            process = _in_a_process(_fit, archive, out)
            time.sleep(float(rng.uniform(0, 1.05 * usual)))
            sent += process(kill=True)
            during += (out / f".{LAST}.part").exists() or (out / f".{BEST}.part").exists()
        _in_a_process(_fit, archive, out)()
        runs, equal = runs + 1, equal + _same(_end(out), truth)
    return {"kills": sent, "runs": runs, "equal": equal, "kills_during_a_write": during}


def _terminated(folder: Path, signals: int) -> dict[str, Any]:
    """The command itself, SIGTERM and SIGUSR1 in turn at random moments after its first step; then `--resume`."""
    rng = np.random.default_rng(SEED + 1)
    subprocess.run(_command(folder, folder / "calm"), check=True, stdout=subprocess.DEVNULL)
    truth, seconds, equal, codes = _end(folder / "calm"), [], 0, []
    for number in range(signals):
        out = folder / f"told-{number}"
        kind = signal.SIGUSR1 if number % 4 == 3 else signal.SIGTERM
        process = subprocess.Popen(_command(folder, out), stdout=subprocess.DEVNULL)
        while not (out / "log.csv").exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0.05, 2.0)))
        told = time.monotonic()
        process.send_signal(kind)
        if rng.random() < 0.3:
            process.send_signal(kind)  # an impatient one
        codes.append(process.wait(timeout=60))
        seconds.append(time.monotonic() - told)
        subprocess.run(_command(folder, out), check=True, stdout=subprocess.DEVNULL)
        equal += _same(_end(out), truth)
    return {"signals": signals, "equal": equal, "slowest_exit_seconds": round(max(seconds), 2), "codes": codes}


def _disk_full(folder: Path, sizes: int) -> dict[str, Any]:
    """A file may not grow beyond a random size while a state is saved over an older one."""
    rng = np.random.default_rng(SEED + 2)
    path, before = folder / "full" / LAST, _end(folder / "undisturbed")[LAST]
    path.parent.mkdir()
    checkpoint.save(path, before, {"step": 1})
    size = path.stat().st_size
    refused = kept = left = 0
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in rng.integers(0, size, sizes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), limits[1]))
        try:
            checkpoint.save(path, {name: value + 1 for name, value in before.items()}, {"step": 2})
        except CheckpointError:
            refused += 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        tensors, record = checkpoint.load(path)
        kept += record == {"step": 1} and _same({LAST: tensors}, {LAST: before})
        left += len(list(path.parent.iterdir())) - 1
    return {"sizes": sizes, "refused": refused, "previous_kept": kept, "files_left_over": left}


def _fit(archive: Archive, out: Path) -> None:
    fit(RECIPE, archive, out, resume=True, save_seconds=0.0)


def _command(folder: Path, out: Path) -> list[str]:
    words = ["train", "nips-2", "--data", str(folder / "data"), "--out", str(out), "--resume", "--no-tensorboard"]
    sizes = {"channels": 8, "context": 8, "batch": 4, "steps": LONG_STEPS, "validate-every": 50, "threads": 1}
    return [sys.executable, "-m", "nipde.cli", *words, *(f"--{name}={value}" for name, value in sizes.items())]


def _in_a_process(work: Callable[..., None], *arguments: Any) -> Callable[..., bool]:
    """Start `work` in a process of its own; call the result to wait for it, or with `kill` to kill it.

    Says whether a kill came before the work was done.
    """
    child = os.fork()
    if child == 0:
        try:
            work(*arguments)
        except BaseException:
            os._exit(1)
        os._exit(0)

    def end(*, kill: bool = False) -> bool:
        if kill:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        if not killed and os.waitstatus_to_exitcode(status):
            raise RuntimeError("a training process failed")
        return killed

    return end


def _end(folder: Path) -> dict[str, dict[str, Tensor]]:
    """State and best weights of a finished run; counters as tensors too, times left out."""
    result = {}
    for name in (LAST, BEST):
        tensors, record = checkpoint.load(folder / name)
        counters = {key: float(record[key]) for key in ("step", "best", "best_step") if key in record}
        result[name] = tensors | {key: torch.tensor(value, dtype=torch.float64) for key, value in counters.items()}
    return result


def _same(one: dict[str, dict[str, Tensor]], other: dict[str, dict[str, Tensor]]) -> bool:
    return one.keys() == other.keys() and all(
        one[name].keys() == other[name].keys()
        and all(torch.equal(one[name][key], other[name][key]) for key in one[name])
        for name in one
    )

"""Two real processes against one: the same global batch must give the same losses, also after one of them was killed.

`torchrun` starts both; they exchange gradients over gloo. One process that cuts its batch in two parts adds the same
two numbers in the same precision, so that its weights are the same bits.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.training.callbacks import read_log
from nipde.weights import checkpoint
from nipde.weights.models import LAST

SEED = 12
STEPS = 200


def measure(*, quick: bool) -> dict[str, Any]:
    """Loss curves of one process, one in two parts, two; and of two with kills."""
    steps, kills = (20, 1) if quick else (STEPS, 3)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(Plan(DarcyRecipe(load_alpha=4.0), systems=40, seed=SEED), folder / "data", workers=1)
        runs = {
            "one": trained(folder, "one", steps),
            "one_in_two_parts": trained(folder, "parts", steps, "--parts=2"),
            "two": trained(folder, "two", steps, "--devices=2"),
        }
        curves = {what: _losses(out) for what, out in runs.items()}
        killed = killed_run(folder, steps, kills)
        return {
            "steps": steps,
            "batch": 10,
            "largest_relative_gap_of_losses": _gap(curves["two"], curves["one"]),
            "gap_with_two_parts": _gap(curves["two"], curves["one_in_two_parts"]),
            "bitwise_as_two_parts": same_state(runs["two"], runs["one_in_two_parts"]),
            "kills_of_one_process": killed["kills"],
            "bitwise_after_kills": same_state(runs["two"], killed["out"]),
            "first_and_last_loss": [curves["one"][0], curves["one"][-1]],
        }


def killed_run(folder: Path, steps: int, kills: int, *more: str) -> dict[str, Any]:
    """One of the two is killed after a random while, several times; torchrun starts both again."""
    rng = np.random.default_rng(SEED)
    out = folder / "killed"
    command = _command(folder, out, steps, "--devices=2", "--save-seconds=0.2", f"--restarts={kills + 1}", *more)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen: set[int] = set()
    done = 0
    while process.poll() is None and done < kills:
        workers = [pid for pid in _children(process.pid) if pid not in seen]
        before = (out / LAST).stat().st_mtime if (out / LAST).exists() else 0.0
        if len(workers) == 2 and _waited_for_a_save(out, before, process):
            time.sleep(float(rng.uniform(0, 0.2)))
            seen.update(workers)
            with suppress(ProcessLookupError):  # it may have finished meanwhile
                os.kill(workers[int(rng.integers(2))], signal.SIGKILL)
                done += 1
        time.sleep(0.02)
    if process.wait(timeout=600):
        raise RuntimeError("torchrun gave up")
    return {"out": out, "kills": done}


def _waited_for_a_save(out: Path, before: float, process: "subprocess.Popen[bytes]") -> bool:
    """Whether these processes have come far enough to save."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if (out / LAST).exists() and (out / LAST).stat().st_mtime > before:
            return True
        time.sleep(0.01)
    return False


def _children(pid: int) -> list[int]:
    """Training processes below torchrun."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed if "train" in Path(f"/proc/{child}/cmdline").read_text()]


def trained(folder: Path, name: str, steps: int, *more: str) -> Path:
    """The folder of a finished run."""
    out = folder / name
    subprocess.run(_command(folder, out, steps, *more), check=True, capture_output=True)
    return out


def _command(folder: Path, out: Path, steps: int, *more: str) -> list[str]:
    words = ["train", "nips-2", "--data", str(folder / "data"), "--out", str(out), "--steps", str(steps),
             "--log-every", "1", "--no-tensorboard", "--threads", "1", *more]  # fmt: skip
    return [sys.executable, "-m", "nipde.cli", *words]


def _losses(out: Path) -> list[float]:
    return [float(row["loss"]) for row in read_log(out / "log.csv")]


def _gap(one: list[float], other: list[float]) -> float:
    return float(np.max(np.abs(np.subtract(one, other)) / np.asarray(other)))


def same_state(one: Path, other: Path) -> bool:
    """Whether two runs end in the same bits."""
    first, second = (checkpoint.load(out / LAST)[0] for out in (one, other))
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)

"""What long benchmarks share: whole runs, a judged estimator in short, learning curves, and results that are kept."""

import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from nipde.benchmarks.record import commit, now
from nipde.data.archive import Archive
from nipde.errors import NipdeError, StoppedEarly
from nipde.evaluation.evaluate import evaluate
from nipde.training import checkpoint
from nipde.training.fit import fit
from nipde.training.observers import read_log
from nipde.training.recipe import TrainingRecipe
from nipde.training.run import Run

#: Seconds that work has to come to an end when nobody waits for it any more.
GRACE = 20.0
#: File of a finished row, in a folder of its name.
RESULT = "result.json"


def workers(count: int) -> ProcessPoolExecutor:
    """New processes, one piece of work each, that end when who started them is gone."""
    return ProcessPoolExecutor(
        count, mp_context=get_context("spawn"), max_tasks_per_child=1, initializer=_end_with, initargs=(os.getpid(),)
    )


def _end_with(parent: int) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)  # a training writes where it is
        time.sleep(GRACE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def whole(recipe: TrainingRecipe, archive: Archive, out: Path) -> Run:
    """Train to the end of the budget, going on from what is in `out`; a run that was told to stop is no result."""
    with warnings.catch_warnings(action="ignore", category=StoppedEarly):  # said below
        run = fit(recipe, archive, out, resume=True)
    if run.stopped_by:
        raise NipdeError(
            expected=f"{out.name} trained to its end",
            got=f"{signal.Signals(run.stopped_by).name} after {run.step} steps",
            remedy="give the same command again: it goes on from there",
        )
    return run


def judge(estimator: Any, archive: Archive, *, kept: Sequence[str], **asked: Any) -> dict[str, Any]:
    """What a record keeps of an evaluation."""
    found = evaluate(estimator, archive, **asked)
    return {name: found[name] for name in (*kept, "systems", "queries", "seconds_per_system")}


def curve(run: Path) -> list[dict[str, float]]:
    """Validation errors against steps and seconds, and the loss since the one before; about 40 of them and the last."""
    points: list[dict[str, float]] = []
    losses: list[float] = []
    for row in read_log(run / "log.csv"):
        losses.append(float(row["loss"]))
        if row["held_out"]:
            point = {name: float(row[name]) for name in ("step", "seconds", "held_out", "in_context")}
            points.append({**point, "loss": float(np.mean(losses))})
            losses = []
    return [*points[: -1 : max(1, len(points) // 40)], *points[-1:]]


def trend(curve: list[dict[str, float]], paper: float | None) -> dict[str, float | None] | None:
    """A power of the number of steps through the validation errors, and the steps at which it meets the paper's figure.

    Fitted from a tenth to eight tenths of the run: before, the rate is rising; after, it has all but vanished.
    """
    last = curve[-1]["step"] if curve else 0.0
    used = [point for point in curve if 0.1 * last <= point["step"] <= 0.8 * last]
    if len(used) < 3 or paper is None:
        return None
    steps, errors = (np.log([point[what] for point in used]) for what in ("step", "in_context"))
    power, level = np.polyfit(steps, errors, 1)
    meets = float(np.exp((np.log(paper / 100) - level) / power)) if power < 0 else None
    return {"power": float(power), "level": float(level), "steps_to_paper": meets}


def earlier(record: Path) -> dict[str, dict[str, Any]]:
    """Rows of a campaign's record by name, if there is one: what was measured is not lost with the folder it ran in."""
    if not record.exists():
        return {}
    measured = json.loads(record.read_text())["measured"]
    rows = [row for value in measured.values() if isinstance(value, list) for row in value if isinstance(row, dict)]
    return {row["name"]: row for row in rows if "name" in row}


def finished(folder: Path, before: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows by name: of runs in `folder` and from before, the later one."""
    files = {path.parent.name: path for path in sorted(folder.glob(f"*/{RESULT}"))}
    here = {name: {"name": name, **json.loads(path.read_text())} for name, path in files.items()}
    return {**here, **{name: row for name, row in before.items() if row["time"] > here.get(name, {}).get("time", "")}}


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """A finished row, with the commit and time of its making."""
    made = {"commit": commit(), "time": now(), "threads": os.environ.get("OMP_NUM_THREADS", "1")}
    folder.mkdir(parents=True, exist_ok=True)
    row = {"name": folder.name, **result, **made}
    checkpoint.write(folder / RESULT, (json.dumps(row, indent=1) + "\n").encode())

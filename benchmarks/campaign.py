"""Work of long benchmarks: processes for it, training to the end of a budget, and an estimator judged in short."""

import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from torch import nn

from benchmarks.record import commit
from nipde.atomic import write_bytes
from nipde.data.archive import Archive, open_archive
from nipde.data.generation import generate
from nipde.data.manifest import MANIFEST
from nipde.data.plan import Plan
from nipde.errors import NipdeError, StoppedEarly
from nipde.evaluation.evaluate import evaluate
from nipde.training.fit import fit
from nipde.training.recipe import TrainingRecipe
from nipde.training.run import Run

#: Seconds that work has to come to an end when nobody waits for it any more.
GRACE = 20.0
#: A row of a campaign, and the number of a system in it.
Job = tuple[Any, int]


def workers(count: int, *, fresh: bool = True) -> ProcessPoolExecutor:
    """Processes that end when who started them is gone; a fresh one for every piece of work, or the same for all."""
    return ProcessPoolExecutor(
        count, mp_context=get_context("spawn"), max_tasks_per_child=1 if fresh else None, initializer=_end_with,
        initargs=(os.getpid(),),
    )  # fmt: skip


def measured_systems(
    jobs: Sequence[Job], judged: Callable[..., str], *, name: Callable[..., str], path: Callable[..., Path],
    folder: Path, before: dict[str, Any], count: int, progress: Callable[[str], None],
) -> list[dict[str, Any]]:  # fmt: skip
    """Run jobs `(row, number)` that are neither in `before` nor on file; each leaves a file. All that is known then.

    Every system keeps the commit it was measured at: a record grows over many.
    """
    due = [job for job in jobs if name(*job) not in before and not path(folder, *job).exists()]
    with workers(count, fresh=False) as pool:  # a process takes seconds to start
        running = {pool.submit(judged, *job, folder): path(folder, *job) for job in due}
        for done in as_completed(running):
            found = json.loads(running[done].read_bytes())
            write_bytes(running[done], json.dumps({**found, "commit": commit()}).encode())
            progress(done.result())
    here = {one["name"]: one for one in (json.loads(each.read_bytes()) for each in sorted(folder.glob("*.json")))}
    return list({**before, **here}.values())


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


def generated(plan: Plan, place: Path) -> Archive:
    """The archive of a plan, generated once."""
    if not (place / MANIFEST).exists():
        generate(plan, place, workers=1)
    return open_archive(place)


def of_training(run: Run, model: nn.Module) -> dict[str, Any]:
    """What a record keeps of a run."""
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()), "steps": run.step,
        "seconds": run.seconds, "seconds_before": run.seconds_before, "best_step": run.best_step,
        "validation": run.best,
    }  # fmt: skip


def check_cases(only: Sequence[str], known: Sequence[str]) -> None:
    """Raise unless every case that was asked for is known."""
    if unknown := set(only) - set(known):
        raise NipdeError(expected=f"cases among {', '.join(known)}", got=", ".join(sorted(unknown)))


def judge(estimator: Any, archive: Archive, *, kept: Sequence[str], **asked: Any) -> dict[str, Any]:
    """What a record keeps of an evaluation."""
    result = evaluate(estimator, archive, **asked).to_dict()
    return {name: result[name] for name in (*kept, "systems", "queries", "seconds_per_system")}

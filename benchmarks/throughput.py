"""Samples per second of `nipde train` over those of the bare loop: the same step on batches already in memory.

Both run in one process, in turn, on one thread; processor time, median of rounds.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nipde.context.sampling import Sampler
from nipde.data.archive import Archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.freed_memory import keep_freed_memory
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.training.feed import Source
from nipde.training.fit import KEEP_BYTES, fit
from nipde.training.loop import Callback, Report
from nipde.training.processes import Group
from nipde.training.recipe import CASES, TrainingRecipe
from nipde.training.run import Run

SEED = 13
ROUNDS, STEPS = 3, 500


def measure(*, quick: bool) -> dict[str, Any]:
    """Two models; validation, logs, saving and signals as in any run."""
    rounds, steps = (2, 10) if quick else (ROUNDS, STEPS)
    torch.set_num_threads(1)
    keep_freed_memory(KEEP_BYTES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive = generate(Plan(DarcyRecipe(), systems=100, seed=SEED), folder / "data", workers=1)
        rows = [_row(case, archive, folder, rounds, steps) for case in ("nips-2", "nips-4")]
    return {"rounds": rounds, "steps": steps, "rows": rows}


def _row(case: str, archive: Archive, folder: Path, rounds: int, steps: int) -> dict[str, Any]:
    recipe = CASES[case].with_options({"steps": steps, "minutes": None, "validate_every": 500})
    trained, bare = [], []
    for number in range(rounds):
        watch = _Watch()
        fit(recipe, archive, folder / f"{case}-{number}", tensorboard=True, callbacks=[watch])
        trained.append(recipe.batch * steps / watch.seconds)
        bare.append(recipe.batch * steps / _bare_seconds(recipe, archive, steps))
    return {
        "case": case,
        "batch": recipe.batch,
        "trained_per_second": float(np.median(trained)),
        "bare_per_second": float(np.median(bare)),
        "ratio": float(np.median(np.divide(trained, bare))),
    }


class _Watch(Callback):
    """Processor time from the first step to the last."""

    def started(self, run: Run) -> None:
        self.zero = time.process_time()

    def stepped(self, run: Run, report: Report) -> None:
        self.seconds = time.process_time() - self.zero


def _bare_seconds(recipe: TrainingRecipe, archive: Archive, steps: int) -> float:
    run = Run.fresh(recipe, archive, Group())
    source = Source(archive, "train", limit=20)
    sampler = Sampler(len(source.systems), len(source.pairs), recipe.context)
    batches = [source.batch(sampler.draw(step, range(recipe.batch))) for step in range(10)]
    start = time.process_time()
    for step in range(steps):
        run.optimiser.zero_grad()
        run.task(batches[step % len(batches)]).mean().backward()
        run.optimiser.step()
    return time.process_time() - start

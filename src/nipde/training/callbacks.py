"""Callbacks of every run: saving, validation, logs; and signals.

Validation looks at loads outside the context, and never in training where systems share them.
"""

import csv
import io
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from nipde.context.sampling import Draw, Sampler
from nipde.data.archive import Archive
from nipde.errors import CheckpointError, NonFiniteError, TrainingError, needing
from nipde.records import reading
from nipde.training.feed import Source
from nipde.training.loop import Callback, Report
from nipde.training.processes import SIGNALS, Group
from nipde.training.recipe import TrainingRecipe
from nipde.training.run import Run, Validated, begin
from nipde.training.task import Task
from nipde.weights import checkpoint
from nipde.weights.models import BEST, LAST, card, tensors_of

#: Queries per system at most, and systems at a time.
QUERIES, TOGETHER = 20, 10
COLUMNS = ("step", "seconds", "loss", "rate", "gradient_norm", "held_out", "in_context")


class Saver(Callback):
    """Keeps the state on disk: every `seconds`, and at the end of a sitting."""

    def __init__(self, folder: Path, *, seconds: float = 60.0) -> None:
        self.path, self.seconds = folder / LAST, seconds
        self.saved = time.monotonic()

    def stepped(self, run: Run, report: Report) -> None:
        """Save when it is time."""
        if time.monotonic() - self.saved >= self.seconds:
            self.ended(run)

    def ended(self, run: Run) -> None:
        """Save now; the first process does it for all."""
        if run.group.rank == 0:
            checkpoint.save(self.path, *run.state())
        self.saved = time.monotonic()


def mean_of(each: Sequence[Validated]) -> Validated:
    """Over several archives, each of equal weight."""
    return Validated(*(sum(values) / len(each) for values in zip(*(vars(one).values() for one in each), strict=True)))


class Validator:
    """The same contexts and queries every time; processes share the systems."""

    def __init__(self, recipe: TrainingRecipe, archive: Archive, group: Group) -> None:
        known = archive.load_indices("train")
        # Where loads are shared, queries have a part of their own; else they are other pairs of the same system.
        unseen = archive.load_indices("validation") if "loads" in archive.split else known[:0]
        precision = getattr(torch, recipe.precision)
        self.source = Source(
            archive, "validation", pairs=np.concatenate([known, unseen]), dtype=precision, device=group.device,
            limit=recipe.validation_systems,
        )  # fmt: skip
        self.group, self.noise = group, {"noise": recipe.noises[0], "load_noise": recipe.load_noise}
        context = recipe.contexts[0]
        self.systems = len(self.source.systems)
        spare = 0 if len(unseen) else min(QUERIES, len(known) - context)
        if not len(unseen) and spare < 1:
            raise TrainingError(
                "nothing is left to validate on", expected=f"more than {context} pairs per system",
                got=len(known), remedy="generate more pairs, or take a smaller context",
            )  # fmt: skip
        sampler = Sampler(systems=self.systems, pairs=len(known), context=context, queries=spare, seed=recipe.seed)
        self.draw = sampler.one_each(range(self.systems))
        if len(unseen):
            places = len(known) + np.arange(min(QUERIES, len(unseen)))
            self.draw = replace(self.draw, queries=np.tile(places, (self.systems, 1)))

    @torch.no_grad()
    def __call__(self, task: Task) -> Validated:
        """The same result on every process."""
        errors = np.zeros((2, self.systems))
        mine = range(self.systems)[self.group.share :: self.group.shares]
        for start in range(0, len(mine), TOGETHER):
            some = np.asarray(mine[start : start + TOGETHER])
            for kind, draw in enumerate((_some(self.draw, some), _some(self.draw, some, queries=False))):
                errors[kind, some] = task(self.source.batch(draw, **self.noise)).mean(1).double().cpu()
        held_out, in_context = self.group.sum(*(errors.sum(1) / self.systems / self.group.space))
        if not np.isfinite([held_out, in_context]).all():
            bad = self.source.systems[~np.isfinite(errors).all(0)].tolist()
            raise NonFiniteError(
                f"validation on {self.source.archive.storage.address}", expected="finite errors",
                got=f"others from system(s) {bad}", remedy="look at these systems, or lower the learning rate",
            )  # fmt: skip
        return Validated(held_out, in_context)


def _some(draw: Draw, which: np.ndarray, *, queries: bool = True) -> Draw:
    queried = draw.queries[which] if queries else draw.queries[which, :0]
    return Draw(draw.systems[which], draw.contexts[which], queried, draw.seeds[which])


class Selector(Callback):
    """Validates every so many steps and at the end, and keeps the weights that did best."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.path = folder / BEST
        self.validators = [Validator(run.recipe, archive, run.group) for archive in run.archives]
        self.latest: tuple[int, Validated] | None = None

    def started(self, run: Run) -> None:
        """Make the folder; the first callback, so that nothing is left behind by what is refused before."""
        begin(self.path.parent, run)

    def stepped(self, run: Run, report: Report) -> None:
        """Look, if it is time or the run is over."""
        if report.step % run.recipe.validate_every and run.progress < 1:
            return
        errors = mean_of([validator(run.task) for validator in self.validators])
        self.latest = report.step, errors
        if errors.held_out < run.best:
            run.best, run.best_step = errors.held_out, report.step
            if run.group.rank == 0:
                record = {**run.card(), "validation": vars(errors)}
                checkpoint.save(self.path, tensors_of(run.task.model), record)


class Log(Callback):
    """log.csv, and TensorBoard's files if `tensorboard`: every `every` steps and with every validation."""

    def __init__(self, folder: Path, selector: Selector, *, every: int, tensorboard: bool) -> None:
        self.folder, self.selector, self.every, self.tensorboard = folder, selector, every, tensorboard
        self.board: Any = None

    def started(self, run: Run) -> None:
        """Forget what was logged after the step the run goes on from."""
        path = self.folder / "log.csv"
        rows = [row for row in read_log(path) if int(row["step"]) <= run.step]
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        checkpoint.write(path, text.getvalue().encode())
        self.file = open(path, "a")  # noqa: SIM115  (open as long as the run)
        if self.tensorboard:
            self.board = _board()(str(self.folder / "tensorboard"), purge_step=run.step + 1)

    def stepped(self, run: Run, report: Report) -> None:
        """One row."""
        latest = self.selector.latest
        validated = vars(latest[1]) if latest is not None and latest[0] == report.step else {}
        if report.step % self.every and not validated:
            return
        row = {"seconds": round(run.seconds, 3), **vars(report), **validated}
        csv.DictWriter(self.file, COLUMNS, lineterminator="\n").writerow(row)
        self.file.flush()
        if self.board is not None:
            for name in set(row) - {"step"}:
                self.board.add_scalar(name, row[name], report.step)

    def ended(self, run: Run) -> None:
        """Close the files."""
        self.file.close()
        if self.board is not None:
            self.board.close()


@contextmanager
def listening(run: Run) -> Iterator[None]:
    """Until the end of the block, SIGTERM, SIGINT and SIGUSR1 ask the run to end after the step at hand.

    A thread other than the first receives none.
    """

    def receive(number: int, frame: FrameType | None) -> None:
        run.pending_signal = number

    heard = SIGNALS if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, receive) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def read_log(path: Path) -> list[dict[str, str]]:
    """Whole rows of a log; a row that a kill cut short does not count."""
    if not path.exists():
        return []
    with checkpoint.open_regular(path) as file:
        whole = file.read().rpartition(b"\n")[0]
    with reading(f"{path} is damaged", CheckpointError, csv.Error, expected="rows of numbers"):
        rows = list(csv.DictReader(io.StringIO(whole.decode())))
        for row in rows:
            numbers = [float(value or 0) for value in row.values()]
            if tuple(row) != COLUMNS or numbers[0] != int(row["step"]):
                raise ValueError(row)
    return rows


def history(folder: Path) -> dict[str, Any]:
    """How the best weights of a run were trained, for `nipde.weights.publish`: its record, and the validation curve."""
    record = card(folder / BEST)
    names = ("recipe", "grid", "data", "step", "seconds", "validation")
    if missing := [name for name in names if name not in record]:
        raise CheckpointError(f"{folder / BEST}", expected="weights of a run", got=f"no {missing[0]} in its record")
    rows = [row for row in read_log(folder / "log.csv") if row["held_out"]]
    training = {name: record[name] for name in (*names, "seconds_before") if name in record}
    if start := training["recipe"].get("start"):  # the folder's name: where it was is nobody's concern
        training["recipe"] = {**training["recipe"], "start": Path(start).name}
    return {
        "training": training,
        "curve": [{name: float(row[name]) for name in ("step", "seconds", "held_out")} for row in rows],
    }


def _board() -> Any:
    with needing("TensorBoard", extra="train", remedy=", or train with --no-tensorboard"):
        from torch.utils.tensorboard import SummaryWriter
    return SummaryWriter

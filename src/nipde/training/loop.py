"""The loop: draw, predict, differentiate, step. Whatever else a run needs is a callback."""

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from nipde.errors import NonFiniteError
from nipde.training.feed import Batch, Feed
from nipde.training.processes import SIGNALS
from nipde.training.run import Run


@dataclass(frozen=True)
class Report:
    """One step as callbacks see it."""

    step: int
    loss: float
    rate: float
    gradient_norm: float


class Callback:
    """Is called after every step, when the weights are those of `run.step`; does nothing unless a method is defined."""

    def started(self, run: Run) -> None:
        """Before the first step of this sitting."""

    def stepped(self, run: Run, report: Report) -> None:
        """After a step."""

    def ended(self, run: Run) -> None:
        """After the last step of this sitting, also when a signal ended it."""


def train(run: Run, callbacks: Sequence[Callback]) -> None:
    """Take steps until the recipe is fulfilled or a signal asks for an end."""
    feed = Feed.of(run.recipe, run.archives, run.group)
    batches = feed.batches(run.step)
    shared = _shared(run)
    for callback in callbacks:
        callback.started(run)
    clock = _Clock(run)
    while run.progress < 1 and not run.stopped_by:
        report = _step(run, shared, feed, batches, clock)
        for callback in callbacks:
            callback.stepped(run, report)
    for callback in callbacks:
        callback.ended(run)


def _shared(run: Run) -> torch.nn.Module:
    """The task, its gradients averaged over the parts of a batch; processes that share a grid have them complete."""
    if run.group.shares == 1:
        return run.task
    return DistributedDataParallel(run.task, process_group=run.group.mesh and run.group.mesh["data"].get_group())


def _step(run: Run, shared: torch.nn.Module, feed: Feed, batches: Iterator[Batch], clock: "_Clock") -> Report:
    recipe, group = run.recipe, run.group
    rate = recipe.rate(run.step, run.progress)
    run.optimiser.param_groups[0]["lr"] = rate
    run.optimiser.zero_grad()
    systems, means = [], []
    for part in range(recipe.parts):
        batch = next(batches)
        last = part == recipe.parts - 1
        # Processes exchange gradients once, with the last part.
        with nullcontext() if last or group.shares == 1 else shared.no_sync():  # type: ignore[operator]
            errors = shared(batch, prior_weight=recipe.prior_weight)
            (errors.mean() / recipe.parts).backward()
        systems.append(batch.systems)
        means.append(errors.detach().mean(1))
    length = torch.nn.utils.get_total_norm([one.grad for one in run.task.parameters() if one.grad is not None])
    loss, norm, bad = _read(means, length, systems)
    if norm > recipe.clip:
        torch.nn.utils.clip_grads_with_norm_(run.task.parameters(), recipe.clip, length)
    # One small exchange: the loss, whether all is well, the first process's clock, and signals received.
    loss, wrong, run.seconds, *received = group.sum(
        loss / group.ranks,
        float(not (torch.isfinite(torch.tensor([loss, norm])).all())),
        clock() if group.rank == 0 else 0.0,
        *(float(run.pending_signal == signal) for signal in SIGNALS),
    )
    if wrong:
        which = f"system(s) {sorted(set(bad))}" if bad else "no single system"
        of = f" of {feed.archive(run.step).storage.address}" if len(run.archives) > 1 else ""
        raise NonFiniteError(
            f"step {run.step}: loss {loss:g}, gradient norm {norm:g}", expected="finite numbers",
            got=f"others from {which}{of}",
            remedy="what was saved before is finite; lower the learning rate, or look at these systems",
        )  # fmt: skip
    run.stopped_by = next((int(signal) for signal, count in zip(SIGNALS, received, strict=True) if count), 0)
    run.optimiser.step()
    run.step += 1
    return Report(run.step, loss, rate, norm)


def _read(
    means: list[Tensor], length: Tensor, systems: list[Int[np.ndarray, " sample"]]
) -> tuple[float, float, list[int]]:
    """The loss, the gradient's norm and the systems whose error is no number: an accelerator is waited for once."""
    numbers = torch.cat([*means, torch.stack([*(mean.mean() for mean in means), length])]).tolist()
    *losses, norm = numbers[-len(means) - 1 :]
    finite = np.isfinite(numbers[: -len(means) - 1])
    return sum(loss / len(means) for loss in losses), norm, np.concatenate(systems)[~finite].tolist()


class _Clock:
    """Seconds on the recipe's clock, going on from earlier sittings."""

    def __init__(self, run: Run) -> None:
        self.read = time.process_time if run.recipe.clock == "cpu" else time.monotonic
        self.zero = self.read() - run.seconds

    def __call__(self) -> float:
        return self.read() - self.zero

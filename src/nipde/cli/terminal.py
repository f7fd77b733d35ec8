"""Printed results, files of results and progress bars, shared by the verbs."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from nipde.atomic import atomic_file


def one_thread() -> None:
    """One thread for torch unless OMP_NUM_THREADS is set: for small fields a second one mostly waits."""
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(1)


def say(text: Any) -> None:
    """Print a result without wrapping lines."""
    Console(soft_wrap=True, highlight=False, markup=False).print(text)


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """A file to write to: it becomes `path`, whole, at the end of the block, and is announced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as partial:
        yield partial
    say(f"written: {path}")


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar with rate and remaining time on a terminal, nothing elsewhere; call the result with every advance."""
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn()]
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda step: bar.advance(task, step)


class _Rate(ProgressColumn):
    """Steps per second."""

    def render(self, task: Task) -> Text:
        """Over the last half minute."""
        return Text(f"{task.speed:.1f}/s" if task.speed else "-", style="progress.data.speed")

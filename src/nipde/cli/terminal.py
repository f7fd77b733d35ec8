"""Parsers, checks of output paths, printed results and progress bars, shared by the verbs."""

import os
from argparse import SUPPRESS, Action
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, DefaultHelpFormatter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from nipde.errors import NipdeError

#: Endings of pictures.
PICTURES = (".png", ".svg", ".pdf")


def parser(verb: str, description: str, *, example: str = "") -> ArgumentParser:
    """Parser of one verb; `example` are the words after `nipde VERB`."""
    epilog = f"example: nipde {verb} {example}" if example else None
    return ArgumentParser(prog=f"nipde {verb}", description=description, epilog=epilog, formatter_class=_Help)


def add_archive(to: ArgumentParser) -> None:
    """The archive a verb reads."""
    to.add_argument("path", type=str, help="folder of the archive, or an address such as s3://bucket/name")
    add_storage_options(to)


def add_storage_options(to: ArgumentParser) -> None:
    """What fsspec needs to reach an address."""
    to.add_argument(
        "--storage-options",
        type=dict[str, Any],
        default={},
        help='JSON for fsspec, e.g. \'{"endpoint_url": "http://127.0.0.1:9000"}\'',
    )


def check_file(path: str | Path, *, endings: tuple[str, ...] = (), option: str = "--out") -> None:
    """Raise before any computation if the result cannot be written to this file."""
    place = Path(path)
    if place.is_dir() or (endings and place.suffix.lower() not in endings):
        named = f" ending in {', '.join(endings)}" if endings else ""
        raise NipdeError(expected=f"{option}: a file{named}", got=str(place), remedy="name another one")


def one_thread() -> None:
    """One thread for torch unless OMP_NUM_THREADS is set: for small fields a second one mostly waits."""
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(1)


def say(text: Any) -> None:
    """Print a result without wrapping lines."""
    Console(soft_wrap=True, highlight=False, markup=False).print(text)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar with rate and remaining time on a terminal, nothing elsewhere; call the result with every advance."""
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn()]
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda step: bar.advance(task, step)


class _Help(DefaultHelpFormatter):  # type: ignore[misc]
    """Help texts with the default where there is one, without Python types."""

    def _get_help_string(self, action: Action) -> str | None:
        shown = action.default not in (None, "", False, {}, SUPPRESS)
        return f"{action.help} (default: {action.default})" if shown else action.help


class _Rate(ProgressColumn):
    """Steps per second."""

    def render(self, task: Task) -> Text:
        """Over the last half minute."""
        return Text(f"{task.speed:.1f}/s" if task.speed else "-", style="progress.data.speed")

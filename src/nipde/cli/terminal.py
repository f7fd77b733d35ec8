"""What a person sees while a verb works: parsers with one look, a progress bar that is quiet when nobody watches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jsonargparse import ArgumentParser
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


def parser(verb: str, description: str) -> ArgumentParser:
    """Parser of one verb."""
    return ArgumentParser(prog=f"nipde {verb}", description=description)


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


def say(text: Any) -> None:
    """Print a result; long lines are left whole."""
    Console(soft_wrap=True, highlight=False, markup=False).print(text)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar with rate and time left on a terminal, nothing elsewhere; call the result with every advance."""
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    ]
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda step: bar.advance(task, step)


class _Rate(ProgressColumn):
    """Things per second."""

    def render(self, task: Task) -> Text:
        """Over the last half minute."""
        return Text(f"{task.speed:.1f}/s" if task.speed else "-", style="progress.data.speed")

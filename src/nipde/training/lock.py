"""One process writes into a run's folder at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nipde.errors import TrainingError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder until the end of the block; the system lets go of it when a process dies."""
    folder.mkdir(parents=True, exist_ok=True)
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainingError(
                expected="a folder in which nobody trains", got=f"{folder}, in which a process does",
                remedy="wait for its end, stop it, or choose another folder",
            ) from None  # fmt: skip
        yield
    finally:
        os.close(held)
        with suppress(OSError):  # unless something was written into it
            folder.rmdir()

"""Files and folders that are whole or absent: written beside their place, synced, renamed there."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nipde.errors import NipdeError

#: How the names of what is being written end; what carries it was left by a process that was killed.
PARTIAL = ".part"


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """A name to write to. It becomes `path` at the end of the block; after an error nothing is left of it."""
    place = Path(path)
    partial = place.with_name(f".{place.name[:100]}.{uuid.uuid4().hex}{PARTIAL}")
    try:
        yield partial
        sync(partial)
        os.replace(partial, place)
        sync(place.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Bytes to a file, atomically and for good: file and folder are synced before this returns."""
    with atomic_file(path) as partial:
        partial.write_bytes(data)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """An empty folder to fill. It becomes `path` at the end of the block and replaces the folder there, if any.

    After an error the old folder stands as before.
    """
    place = Path(path).absolute()
    if place.exists() and not place.is_dir():
        raise NipdeError(expected="a folder to write to", got=f"the file {place}", remedy="choose another name")
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f".{place.name[:100]}.{uuid.uuid4().hex}{PARTIAL}")
    partial.mkdir()
    try:
        yield partial
        for written in partial.rglob("*"):
            sync(written)
        sync(partial)
        replaced = partial.with_suffix(".old")
        if place.is_dir():
            os.replace(place, replaced)  # a folder that is not empty cannot be replaced in one step
        try:
            os.replace(partial, place)
        except OSError:
            if replaced.is_dir():
                os.replace(replaced, place)
            raise
        sync(place.parent)
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def sync(path: Path) -> None:
    """Make what was written survive a power cut; folders only where the system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:  # folders on Windows
        return
    try:
        os.fsync(descriptor)
    except OSError:
        if os.name != "nt":  # where only files opened for writing can be synced
            raise
    finally:
        os.close(descriptor)

"""A private copy of a file: what is parsed is what was hashed, whatever happens to the file meanwhile."""

import hashlib
import os
import stat
from pathlib import Path

from nipde.errors import MeasurementError

_BLOCK = 2**20


def snapshot(path: Path, copy: Path, *, most: int) -> tuple[str, bytes]:
    """Copy a regular file of at most so many bytes; SHA-256 and beginning of the copy."""
    if not path.is_file():
        raise _no_file(path, "something else" if path.exists() else "nothing")
    with open(path, "rb", buffering=0, opener=_open_without_waiting) as source, copy.open("xb") as target:
        before = os.fstat(source.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise _no_file(path, "something else")
        if before.st_size > most:
            raise MeasurementError(
                path.name, expected=f"at most {most:,} bytes", got=f"{before.st_size:,}",
                remedy="pass Limits(memory=...)",
            )  # fmt: skip
        start, digest = b"", hashlib.sha256()
        while (block := source.read(_BLOCK)) and target.tell() <= before.st_size:
            start = start or block[:1024]
            digest.update(block)
            target.write(block)
        after = os.fstat(source.fileno())
        if (target.tell(), after.st_size, after.st_mtime_ns) != (before.st_size, before.st_size, before.st_mtime_ns):
            raise MeasurementError(
                path.name, expected="a file that stays as it is", got="one that changes while it is read",
                remedy="read it again when it has been written",
            )  # fmt: skip
    return digest.hexdigest(), start


def _open_without_waiting(path: str, flags: int) -> int:
    """A pipe that took the file's place since it was looked at would wait for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _no_file(path: Path, got: str) -> MeasurementError:
    return MeasurementError(str(path), expected="a file", got=got, remedy="check the path")

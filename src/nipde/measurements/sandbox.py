"""Files are read in another process: a crash, a hang or a bomb there is an ordinary error here."""

import atexit
import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nipde.errors import MeasurementError, MissingExtraError
from nipde.measurements.formats import Contents, Format
from nipde.measurements.formats.server import LENGTH

#: The child gets its modules from where ours come from, and nothing from the current folder.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from nipde.measurements.formats import server
server.serve()
"""
#: One thread, no plugins loaded at a file's wish, no locks on files we only read.
_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HDF5_PLUGIN_PRELOAD": "::",
    "HDF5_USE_FILE_LOCKING": "FALSE",
}
#: Importing the libraries does not count against a file's time.
_START_SECONDS = 60.0
_LARGEST_HEADER = 2**26


@dataclass(frozen=True)
class Limits:
    """What reading one file may cost: wall time, address space of the child, values over all arrays."""

    seconds: float = 5.0
    memory: int = 2 * 2**30
    values: int = 50_000_000


DEFAULT_LIMITS = Limits()


class Sandbox:
    """A child process that reads files; it is started at the first one and again after any accident."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._folders: list[str] = []
        #: Files whose reading crashed, and files whose reading did not end.
        self.deaths = 0
        self.hangs = 0

    def read(self, path: Path, *, candidates: Sequence[Format], limits: Limits) -> tuple[str, Contents]:
        """The format among the candidates that the file has, and what it holds."""
        readers = [(format.name, format.module) for format in candidates]
        request = {"path": str(path.absolute()), "candidates": readers, **asdict(limits)}
        with self._lock:
            try:
                header, payload = self._ask(request, limits)
                outcome = (
                    _contents(header, payload) if "format" in header else _refusal(path, candidates, header, limits)
                )
            except BaseException as accident:
                self._stop()  # whatever it was about to say must not answer the next question
                if isinstance(accident, TimeoutError):
                    self.hangs += 1
                    raise MeasurementError(
                        f"{path.name}: reading it did not end",
                        expected=f"at most {limits.seconds:g} s",
                        remedy="check that the file is whole; for a large one pass Limits(seconds=...)",
                    ) from None
                if isinstance(accident, EOFError | ValueError | TypeError | KeyError):
                    self.deaths += 1
                    raise _broken(path, candidates, "the reading process ended, or talked nonsense") from None
                raise
        if isinstance(outcome, Exception):
            self.deaths += "died" in header
            raise outcome
        return header["format"], outcome

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._stop()

    def _ask(self, request: dict[str, Any], limits: Limits) -> tuple[dict[str, Any], bytearray]:
        server = self._started()
        assert server.stdin is not None
        assert server.stdout is not None
        replies = server.stdout.fileno()
        try:
            server.stdin.write(json.dumps(request).encode() + b"\n")
            server.stdin.flush()
        except BrokenPipeError:
            raise EOFError from None
        _receive(replies, 1, _START_SECONDS)
        end = time.monotonic() + limits.seconds
        (length,) = LENGTH.unpack(_receive(replies, LENGTH.size, limits.seconds))
        if length > _LARGEST_HEADER:
            raise EOFError
        header = json.loads(_receive(replies, length, end - time.monotonic()))
        size = sum(_size(dtype, shape) for dtype, shape in header.get("arrays", ()))
        if size > 9 * limits.values:  # eight bytes a value, one for whether it is valid
            raise EOFError
        return header, _receive(replies, size, end - time.monotonic())

    def _started(self) -> subprocess.Popen[bytes]:
        folders = [folder for folder in sys.path if folder] + [str(Path(__file__).parents[2])]
        if folders != self._folders:
            self._stop()  # a format may have come with a folder that the child does not know
        if self._server is None or self._server.poll() is not None:
            self._folders = folders
            self._server = subprocess.Popen(
                [sys.executable, "-I", "-B", "-c", _START, json.dumps(folders)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pipesize=2**20,
                cwd=os.sep,
                env={**os.environ, **_SETTINGS},
                start_new_session=True,
            )
        return self._server

    def _stop(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)  # and the fork that reads
            with suppress(BrokenPipeError):
                server.communicate()


@cache
def sandbox() -> Sandbox:
    """The one of this process; a fork gets its own, since it must not talk to its parent's child."""
    box = Sandbox()
    atexit.register(box.close)
    return box


os.register_at_fork(after_in_child=sandbox.cache_clear)


def _receive(replies: int, size: int, seconds: float) -> bytearray:
    """So many bytes within so many seconds."""
    content = bytearray(size)
    rest = memoryview(content)
    poll = select.poll()
    poll.register(replies, select.POLLIN)
    end = time.monotonic() + seconds
    while rest:
        if not poll.poll(max(0.0, end - time.monotonic()) * 1e3):
            raise TimeoutError
        read = os.readv(replies, [rest])
        if read == 0:
            raise EOFError
        rest = rest[read:]
    return content


def _size(dtype: str, shape: list[int]) -> int:
    """Of an array in bytes; the child may have come to harm, so nothing but numbers is believed."""
    numbers = np.dtype(dtype)
    if numbers.kind not in "biuf" or any(length < 0 for length in shape):
        raise ValueError
    return numbers.itemsize * math.prod(shape)


def _contents(header: dict[str, Any], payload: bytearray) -> Contents:
    arrays, start = [], 0
    for dtype, shape in header["arrays"]:
        size = _size(dtype, shape)
        arrays.append(np.frombuffer(memoryview(payload)[start : start + size], dtype).reshape(shape).copy())
        start += size
    names = header["names"]
    return Contents(
        values=0,
        arrays=dict(zip(names, arrays, strict=False)),
        units=header["units"],
        attributes=header["attributes"],
        valid=arrays[-1] if len(arrays) > len(names) else None,
    )


def _refusal(path: Path, candidates: Sequence[Format], header: dict[str, Any], limits: Limits) -> Exception:
    """What went wrong over there, in our words."""
    if "error" in header:
        message, expected, got, remedy = header["error"]
        message = f"{path.name}: {message}" if message else path.name
        return MeasurementError(message, expected=expected, got=got, remedy=remedy)
    if "missing" in header:
        return MissingExtraError(f"{path.name}: {header['missing']}", remedy="pip install 'nipde[measurements]'")
    if "memory" in header:
        return MeasurementError(
            f"{path.name}: reading it takes too much memory",
            expected=f"at most {limits.memory / 2**30:g} GiB",
            remedy="check that the file is whole; for a large one pass Limits(memory=...)",
        )
    code = header.get("died", 1)
    cause = signal.Signals(-code).name if code < 0 else code
    return _broken(path, candidates, header.get("broken") or f"the reading process died of {cause}")


def _broken(path: Path, candidates: Sequence[Format], reason: str) -> MeasurementError:
    return MeasurementError(
        path.name,
        expected=f"a readable {candidates[-1].name} file",
        got=reason,
        remedy="check that the file is whole, or name its format with format=",
    )

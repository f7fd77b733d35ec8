"""Files are parsed in another process: a crash, a hang or a bomb there is an ordinary error here."""

import atexit
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nipde.errors import MeasurementError, MissingExtraError
from nipde.measurements.formats import Contents, Format
from nipde.measurements.formats.server import LENGTH
from nipde.measurements.snapshot import snapshot

#: The child gets its modules from where ours come from, and nothing from the current folder.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from nipde.measurements.formats import server
server.serve(sys.argv[2])
"""
#: All of its environment: one thread, no plugins loaded at a file's wish, no locks on files we only read.
_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HDF5_PLUGIN_PRELOAD": "::",
    "HDF5_USE_FILE_LOCKING": "FALSE",
}
#: And what Python may need to start at all: where shared libraries are.
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", *(["PATH"] if os.name == "nt" else []))
#: Importing the libraries does not count against a file's time.
_START_SECONDS = 60.0
_LARGEST_HEADER = 2**26
#: How often the memory of a child is looked at that the kernel does not bound.
_LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Limits:
    """What reading one file may cost: wall time, memory of the child, values over all arrays."""

    seconds: float = 5.0
    memory: int = 2 * 2**30
    values: int = 50_000_000


DEFAULT_LIMITS = Limits()


class Sandbox:
    """A child process that parses files; it is started at the first one and again after any accident."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self._search_path: list[str] = []
        #: Files whose reading crashed, and files whose reading did not end.
        self.deaths = 0
        self.hangs = 0
        #: Means by which the last file's parser was confined, such as `Landlock 7` and `seccomp`.
        self.confined: tuple[str, ...] = ()

    def read(
        self, path: Path, *, candidates: Callable[[bytes], Sequence[Format]], limits: Limits, most: int | None = None
    ) -> tuple[str, str, Contents]:
        """The file's SHA-256, the format it has among the candidates for its beginning, and what it holds."""
        with self._lock:
            self._ensure_started()
            copy = Path(self._folder, path.name)
            try:
                digest, start = snapshot(path, copy, most=most or limits.memory)
                format, contents = self._parsed(path.name, copy, list(candidates(start)), limits)
            finally:
                copy.unlink(missing_ok=True)
        return digest, format, contents

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._stop()

    def forget(self) -> None:
        """In a fork: leave the child, its folder and its pipes to the process that started it."""
        self._lock = threading.Lock()
        if self._server is not None:
            for pipe in (self._server.stdin, self._server.stdout):
                pipe.close()  # type: ignore[union-attr]
            self._server.returncode = 0  # not ours to wait for
            self._server, self._folder = None, ""

    def _parsed(self, name: str, copy: Path, candidates: list[Format], limits: Limits) -> tuple[str, Contents]:
        readers = [(format.name, format.module) for format in candidates]
        request = {"path": str(copy), "candidates": readers, **asdict(limits)}
        try:
            header, payload = self._ask(request, limits)
            outcome = _contents(header, payload) if "format" in header else _refusal(name, candidates, header, limits)
        except BaseException as accident:
            self._stop()  # whatever it was about to say must not answer the next question
            if isinstance(accident, TimeoutError):
                self.hangs += 1
                raise MeasurementError(
                    f"{name}: reading it did not end", expected=f"at most {limits.seconds:g} s",
                    remedy="check that the file is whole; for a large one pass Limits(seconds=...)",
                ) from None  # fmt: skip
            if isinstance(accident, MemoryError):
                raise _refusal(name, candidates, {"memory": True}, limits) from None
            if isinstance(accident, Exception):
                self.deaths += 1
                raise _broken(name, candidates, "the reading process ended, or talked nonsense") from None
            raise
        if isinstance(outcome, Exception):
            self.deaths += "died" in header
            raise outcome
        return str(header["format"]), outcome

    def _ask(self, request: dict[str, Any], limits: Limits) -> tuple[dict[str, Any], bytearray]:
        with self._watched(_START_SECONDS, memory=None):
            self._server.stdin.write(json.dumps(request).encode() + b"\n")  # type: ignore[union-attr]
            ready = self._frame()
        if "confined" not in ready:
            return ready, bytearray()
        self.confined = tuple(map(str, ready["confined"]))
        with self._watched(limits.seconds, memory=None if ready["bounded"] else limits.memory):
            header = self._frame()
            size = sum(_size(dtype, shape) for dtype, shape in header.get("arrays", ()))
            if size > 9 * limits.values:  # eight bytes a value, one for whether it is valid
                raise EOFError
            return header, self._receive(size)

    def _frame(self) -> dict[str, Any]:
        (length,) = LENGTH.unpack(self._receive(LENGTH.size))
        if length > _LARGEST_HEADER:
            raise EOFError
        header = json.loads(self._receive(length))
        if not isinstance(header, dict):
            raise TypeError
        return header

    def _receive(self, size: int) -> bytearray:
        content = bytearray(size)
        rest = memoryview(content)
        while rest:
            read = self._server.stdout.readinto(rest)  # type: ignore[union-attr]
            if not read:
                raise EOFError
            rest = rest[read:]
        return content

    @contextmanager
    def _watched(self, seconds: float, *, memory: int | None) -> Iterator[None]:
        """End the child, and so its replies, after so many seconds or above so many bytes."""
        done, reasons = threading.Event(), list[type[Exception]]()
        resident = None if memory is None else _resident_memory(self._server.pid)  # type: ignore[union-attr]

        def watch() -> None:
            end = time.monotonic() + seconds
            while not done.wait(seconds if memory is None else _LOOK_SECONDS):
                if time.monotonic() >= end:
                    reasons.append(TimeoutError)
                elif resident is None or memory is None or resident() <= memory:
                    continue
                else:
                    reasons.append(MemoryError)
                self._kill()
                return

        watchdog = threading.Thread(target=watch, daemon=True)
        watchdog.start()
        try:
            yield
        finally:
            done.set()
            watchdog.join()
            if reasons:
                raise reasons[0] from None

    def _ensure_started(self) -> None:
        search_path = [folder for folder in sys.path if folder] + [str(Path(__file__).parents[2])]
        if search_path != self._search_path or (self._server is not None and self._server.poll() is not None):
            self._stop()  # it ended, or a format may have come with a folder that it does not know
        if self._server is None:
            self._search_path = search_path
            self._folder = tempfile.mkdtemp(prefix="nipde-")
            self._server = subprocess.Popen(
                [sys.executable, "-I", "-B", "-c", _START, json.dumps(search_path), self._folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                pipesize=2**20,
                cwd=self._folder,
                env={**{name: os.environ[name] for name in _KEPT if name in os.environ}, **_SETTINGS},
                start_new_session=True,
            )

    def _kill(self) -> None:
        assert self._server is not None
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(self._server.pid, signal.SIGKILL)  # and the fork that parses
            else:
                self._server.kill()

    def _stop(self) -> None:
        if self._server is not None:
            self._kill()
            self._server.communicate()
            self._server = None
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


_OURS = Sandbox()


def sandbox() -> Sandbox:
    """The one of this process; a fork gets its own child, since it must not talk to its parent's."""
    return _OURS


atexit.register(_OURS.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OURS.forget)


def _resident_memory(process: int) -> Callable[[], int]:
    """A function that looks how much memory a process uses now."""
    import psutil  # needed only where the kernel does not bound it

    child = psutil.Process(process)

    def look() -> int:
        try:
            return int(child.memory_info().rss)
        except psutil.Error:  # it has just ended
            return 0

    return look


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
    names, units, attributes = header["names"], header["units"], header["attributes"]
    texts = (*names, *units.values(), *(value for value in attributes.values() if not isinstance(value, float | int)))
    if len(arrays) not in (len(names), len(names) + 1) or not all(isinstance(text, str) for text in texts):
        raise ValueError
    valid = arrays.pop() if len(arrays) > len(names) else None
    return Contents(
        values=0, arrays=dict(zip(names, arrays, strict=True)), units=units, attributes=attributes, valid=valid
    )


def _refusal(name: str, candidates: Sequence[Format], header: dict[str, Any], limits: Limits) -> Exception:
    """What went wrong over there, in our words."""
    if "error" in header:
        message, expected, got, remedy = header["error"]
        message = f"{name}: {message}" if message else name
        return MeasurementError(message, expected=expected, got=got, remedy=remedy)
    if "missing" in header:
        return MissingExtraError(f"{name}: {header['missing']}", remedy="pip install 'nipde[measurements]'")
    if "memory" in header:
        return MeasurementError(
            f"{name}: reading it takes too much memory", expected=f"at most {limits.memory / 2**30:g} GiB",
            remedy="check that the file is whole; for a large one pass Limits(memory=...)",
        )  # fmt: skip
    code = header.get("died", 1)
    cause = signal.Signals(-code).name if code < 0 else code
    return _broken(name, candidates, header.get("broken") or f"the reading process died of {cause}")


def _broken(name: str, candidates: Sequence[Format], reason: str) -> MeasurementError:
    return MeasurementError(
        name, expected=f"a readable {candidates[-1].name} file", got=reason,
        remedy="check that the file is whole, or name its format with format=",
    )  # fmt: skip

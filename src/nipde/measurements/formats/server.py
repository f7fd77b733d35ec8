"""The child process: imports the libraries once, then parses one file after the other, confined.

A request is one line of JSON. The reply is a frame that says how the parser is confined and whether the kernel bounds
its memory, then a frame of what the file holds: eight bytes of length, JSON, and the arrays as plain bytes. On Linux
every file is parsed in a fork of its own, which it cannot leave; elsewhere in this process, which ends if anything
but a refusal comes of it.
"""

import faulthandler
import gc
import json
import os
import shutil
import signal
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from nipde.errors import MeasurementError, NipdeError
from nipde.measurements.confinement import confine
from nipde.measurements.formats import Contents, Format

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

LENGTH = struct.Struct("<Q")
MOST_ARRAYS = 20_000
#: The caller ends what takes too long; should it have been killed itself, the child does so after this.
_GRACE_SECONDS = 2.0
#: Where shared libraries may be that a module of Python needs.
_SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/dev/null",
    "/dev/urandom",
)
#: Only Linux has forks that are sound in any process.
_FORKS = sys.platform == "linux" and hasattr(os, "fork") and resource is not None


def serve(folder: str) -> None:
    """Reply to requests until their pipe is closed; then remove the folder that files are passed in."""
    replies = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not end up among the replies
    try:
        for line in sys.stdin.buffer:
            request = json.loads(line)
            try:
                formats = [Format(name, module, ()) for name, module in request["candidates"]]
                readable = [folder, *_libraries(formats), *_SYSTEM]
            except Exception as error:
                _send(replies, {"missing" if isinstance(error, ImportError) else "broken": str(error)})
                continue
            if _FORKS:
                _answer_in_a_fork(replies, request, formats, readable)
                continue
            faulthandler.dump_traceback_later(request["seconds"] + _GRACE_SECONDS, exit=True)
            if not _answer(replies, request, formats, []):
                return
            faulthandler.cancel_dump_traceback_later()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _libraries(formats: list[Format]) -> list[str]:
    """Import the readers; where they and all installed packages are."""
    places = []
    for name in (*(one.module for one in formats), "nipde.errors"):
        file = Path(str(import_module(name).__file__))
        places.append(str(file.parent if "." in name else file))
    installed = (sys.prefix + os.sep, sys.base_prefix + os.sep)
    packages = ("site-packages", "dist-packages")
    return places + [one for one in sys.path if one.startswith(installed) or Path(one).name in packages]


def _answer_in_a_fork(replies: int, request: dict[str, Any], formats: list[Format], readable: list[str]) -> None:
    gc.freeze()  # so that a fork does not copy what it never touches
    child = os.fork()
    if child == 0:
        status = 1
        try:
            gc.disable()  # it is over before there is garbage worth collecting
            os.close(0)
            _limit(request["seconds"], request["memory"])
            _answer(replies, request, formats, confine(readable))
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status:
        _send(replies, {"died": os.waitstatus_to_exitcode(status)})


def _answer(replies: int, request: dict[str, Any], formats: list[Format], confined: list[str]) -> bool:
    """Whether the process is as good as before."""
    _send(replies, {"confined": confined, "bounded": _FORKS})
    arrays: list[np.ndarray] = []
    try:
        format, contents = _read(Path(request["path"]), formats, request["values"])
        header, arrays = _described(format, contents)
    except NipdeError as error:
        fields = (error.message, error.expected, error.got, error.remedy)
        header = {"error": [None if one is None else str(one)[:2000] for one in fields]}
    except MemoryError:
        header = {"memory": True}
    except Exception as error:
        header = {"broken": f"{type(error).__name__}: {error}"[:500]}
    _send(replies, header, arrays)
    return "format" in header or "error" in header


def _limit(seconds: float, memory: int) -> None:
    """Time, memory, no files written, no core dumped."""
    signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    for kind, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, int(used + seconds) + 2),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ValueError, OSError):  # one that is lower already
            resource.setrlimit(kind, (most, most))


def _read(path: Path, formats: list[Format], values: int) -> tuple[str, Contents]:
    """By the first format that recognises the file; the last one has to."""
    *special, general = formats
    format = next((one for one in special if one.recognises(path)), general)
    contents = format.parse(path, values=values)
    total = sum(array.size for array in contents.arrays.values())
    if total > values or len(contents.arrays) > MOST_ARRAYS:
        raise MeasurementError(
            expected=f"at most {values:,} values in {MOST_ARRAYS:,} arrays",
            got=f"{total:,} in {len(contents.arrays):,}", remedy="pass Limits(values=...)",
        )  # fmt: skip
    return format.name, contents


def _described(format: str, contents: Contents) -> tuple[dict[str, Any], list[np.ndarray]]:
    arrays = [np.ascontiguousarray(array).reshape(array.shape) for array in contents.arrays.values()]
    if contents.skipped:
        contents.attributes["skipped"] = ", ".join(contents.skipped)[:2000]
    if contents.valid is not None:
        arrays.append(np.ascontiguousarray(contents.valid, dtype=bool))
    header = {
        "format": format,
        "names": list(contents.arrays),
        "arrays": [(array.dtype.str, array.shape) for array in arrays],
        "units": contents.units,
        "attributes": contents.attributes,
    }
    return header, arrays


def _send(replies: int, header: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
    text = json.dumps(header).encode()
    for content in (LENGTH.pack(len(text)) + text, *(array.reshape(-1).view(np.uint8).data for array in arrays)):
        rest = memoryview(content)  # type: ignore[arg-type]
        while rest:
            rest = rest[os.write(replies, rest) :]

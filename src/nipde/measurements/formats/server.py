"""The child process: imports the libraries once, then reads every file in a fork of its own.

Asked with one line of JSON, it answers with a dot when the libraries are there, and with a frame when the file is
read: eight bytes of length, JSON, and the arrays as plain bytes. A fork that dies costs its own file and no other.
"""

import gc
import json
import os
import resource
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from nipde.errors import MeasurementError, NipdeError
from nipde.measurements.formats.contents import Contents

LENGTH = struct.Struct("<Q")


def serve() -> None:
    """Answer until nobody asks any more."""
    replies = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not end up among the replies
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            readers = [import_module(f"nipde.measurements.formats.{name}") for name in request["candidates"]]
        except Exception as error:
            _write(replies, b".")
            _send(replies, {"missing" if isinstance(error, ImportError) else "broken": str(error)})
            continue
        gc.freeze()  # so that a fork does not copy what it never touches
        _write(replies, b".")
        child = os.fork()
        if child == 0:
            _answer(replies, request, readers)
        _, status = os.waitpid(child, 0)
        if status:
            _send(replies, {"died": os.waitstatus_to_exitcode(status)})


def _answer(replies: int, request: dict[str, Any], readers: list[ModuleType]) -> NoReturn:
    status = 1
    gc.disable()  # it is over before there is garbage worth collecting
    try:
        _limit(request["seconds"], request["memory"])
        try:
            format, contents = _read(Path(request["path"]), readers, request["values"])
            header, arrays = _described(format, contents)
        except NipdeError as error:
            header, arrays = {"error": str(error)[:2000]}, []
        except MemoryError:
            header, arrays = {"memory": True}, []
        except Exception as error:
            header, arrays = {"broken": f"{type(error).__name__}: {error}"[:500]}, []
        _send(replies, header, arrays)
        status = 0
    finally:
        os._exit(status)


def _limit(seconds: float, memory: int) -> None:
    """Time, memory, no files written, no core dumped."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    for kind, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, int(used + seconds) + 2),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ValueError, OSError):  # a system that has no such limit
            resource.setrlimit(kind, (most, most))


def _read(path: Path, readers: list[ModuleType], values: int) -> tuple[str, Contents]:
    """By the first reader that recognises the file; the last one need not be asked."""
    *special, general = readers
    reader = next((reader for reader in special if reader.recognises(path)), general)
    contents: Contents = reader.read(path, values=values)
    if not contents.arrays:
        raise MeasurementError(expected="arrays of numbers", got="none", remedy="see what the file holds")
    total = sum(array.size for array in contents.arrays.values())
    if total > values:
        raise MeasurementError(
            expected=f"at most {values:,} values", got=f"{total:,}", remedy="pass Limits(values=...)"
        )
    return reader.__name__.rpartition(".")[2], contents


def _described(format: str, contents: Contents) -> tuple[dict[str, Any], list[np.ndarray]]:
    arrays = [np.ascontiguousarray(array).reshape(array.shape) for array in contents.arrays.values()]
    if contents.skipped:
        contents.attributes["skipped"] = ", ".join(contents.skipped)
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
    _write(replies, LENGTH.pack(len(text)) + text)
    for array in arrays:
        _write(replies, array.reshape(-1).view(np.uint8).data)


def _write(replies: int, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(replies, rest) :]

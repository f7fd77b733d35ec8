"""The child process: imports the libraries once, then reads every file in a fork of its own.

A request is one line of JSON. The reply is a dot once the libraries are imported, and a frame once the file is
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
from typing import Any, NoReturn

import numpy as np

from nipde.errors import MeasurementError, NipdeError
from nipde.measurements.formats import Contents, Format

LENGTH = struct.Struct("<Q")


def serve() -> None:
    """Reply to requests until their pipe is closed."""
    replies = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not end up among the replies
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            formats = [Format(name, module, ()) for name, module in request["candidates"]]
            for format in formats:
                import_module(format.module)
        except Exception as error:
            _write(replies, b".")
            _send(replies, {"missing" if isinstance(error, ImportError) else "broken": str(error)})
            continue
        gc.freeze()  # so that a fork does not copy what it never touches
        _write(replies, b".")
        child = os.fork()
        if child == 0:
            _answer(replies, request, formats)
        _, status = os.waitpid(child, 0)
        if status:
            _send(replies, {"died": os.waitstatus_to_exitcode(status)})


def _answer(replies: int, request: dict[str, Any], formats: list[Format]) -> NoReturn:
    status = 1
    gc.disable()  # it is over before there is garbage worth collecting
    try:
        _limit(request["seconds"], request["memory"])
        try:
            format, contents = _read(Path(request["path"]), formats, request["values"])
            header, arrays = _described(format, contents)
        except NipdeError as error:
            fields = (error.message, error.expected, error.got, error.remedy)
            header, arrays = {"error": [None if one is None else str(one)[:2000] for one in fields]}, []
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


def _read(path: Path, formats: list[Format], values: int) -> tuple[str, Contents]:
    """By the first format that recognises the file; the last one has to."""
    *special, general = formats
    format = next((one for one in special if one.recognises(path)), general)
    contents = format.parse(path, values=values)
    if not contents.arrays:
        raise MeasurementError(expected="arrays of numbers", got="none", remedy="see what the file holds")
    total = sum(array.size for array in contents.arrays.values())
    if total > values:
        raise MeasurementError(
            expected=f"at most {values:,} values", got=f"{total:,}", remedy="pass Limits(values=...)"
        )
    return format.name, contents


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

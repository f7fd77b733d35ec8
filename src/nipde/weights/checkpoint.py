"""Tensors and a JSON record in one safetensors file, whole or absent.

The file carries the SHA-256 of everything in it, so damage is an error and never a wrong number. What it claims to hold
is looked at before anything is read.
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from nipde import atomic
from nipde.errors import CheckpointError
from nipde.records import reading

#: Bytes of a file, and of the record in it with the names of its tensors.
MOST_BYTES, MOST_HEADER = 2**30, 2**23
#: Shape and type, in the words of safetensors, of every tensor by name.
Layout = dict[str, tuple[list[int], str]]


def save(path: Path, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
    """Replace the file at `path`; whatever goes wrong on the way, the old one stays."""
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(record, sort_keys=True)
    data = safetensors.torch.save(kept, metadata={"record": text, "sha256": _digest(kept, text)})
    if len(text) > MOST_HEADER // 2 or len(data) > MOST_BYTES:
        got = f"{len(text)} and {len(data)}"
        raise CheckpointError(f"{path} is too large", expected=f"{MOST_HEADER // 2} and {MOST_BYTES} bytes", got=got)
    write(path, data)


def write(path: Path, data: bytes) -> None:
    """Bytes to a file, atomically and for good: file and folder are synced before this returns."""
    try:
        atomic.write_bytes(path, data)
    except OSError as error:
        raise CheckpointError(
            f"{path} could not be written ({error.strerror})",
            remedy="make room and go on with --resume: what was saved before is still there",
        ) from error


def load(
    path: Path, *, check: Callable[[dict[str, Any], Layout], None] = lambda record, layout: None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and record of a file; raises unless every byte is as written.

    `check` sees the record, and names, shapes and types of the tensors, before these are read.
    """
    foreign = f"{path} is damaged or not ours", CheckpointError, safetensors.SafetensorError, OSError
    with open_regular(path) as file, reading(*foreign, expected="a safetensors file written by nipde"):
        size, start = os.fstat(file.fileno()).st_size, file.read(8)
        length = int.from_bytes(start, "little")
        start += file.read(length if length <= min(size, MOST_HEADER) else 0)
        header = json.loads(start[8:])
        metadata = header.pop("__metadata__")
        text, digest, record = metadata["record"], metadata["sha256"], json.loads(metadata["record"])
        layout = {name: (one["shape"], one["dtype"]) for name, one in header.items()}
        if max((one["data_offsets"][1] for one in header.values()), default=0) + len(start) != size:
            raise ValueError("another length than its header says")
        if not isinstance(record, dict):
            raise TypeError("a record that is no object")
        check(record, layout)
        tensors = safetensors.torch.load(start + file.read())
        found = _digest(tensors, text)
    if digest != found:
        raise CheckpointError(f"{path} is damaged", expected=f"SHA-256 {str(digest)[:12]}…", got="other content")
    return tensors, record


def open_regular(path: Path, *, most: int = MOST_BYTES) -> BinaryIO:
    """A file for reading; raises, and never waits, for what is no file: a pipe, a device, a folder."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", error)
        raise CheckpointError(f"{path} cannot be read ({reason})", expected="a file of weights") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        os.close(descriptor)
        got = f"{status.st_size} bytes" if stat.S_ISREG(status.st_mode) else "none: a folder, pipe or device"
        raise CheckpointError(f"{path} is not read", expected=f"a file of at most {most} bytes", got=got)
    return os.fdopen(descriptor, "rb")


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()

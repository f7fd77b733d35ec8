"""Tensors and a JSON record in one safetensors file, whole or absent: written to a partial file, synced, renamed.

The file carries the SHA-256 of everything in it, so damage is an error and never a wrong number.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from nipde.errors import CheckpointError


def save(path: Path, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
    """Replace the file at `path`; whatever goes wrong on the way, the old one stays."""
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(record, sort_keys=True)
    data = safetensors.torch.save(kept, metadata={"record": text, "sha256": _digest(kept, text)})
    write(path, data)


def write(path: Path, data: bytes) -> None:
    """Bytes to a file, atomically and for good: file and folder are synced before this returns."""
    partial = path.with_name(f".{path.name}.part")
    try:
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CheckpointError(
            f"{path} could not be written ({error.strerror})",
            remedy="make room and go on with --resume: what was saved before is still there",
        ) from error


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and record of a file; raises unless every byte is as written."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror})", expected="a file of weights") from error
    try:
        tensors = safetensors.torch.load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        text, digest = header["record"], header["sha256"]
        record = json.loads(text)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} is damaged or not ours", expected="a safetensors file written by nipde", got=str(error)
        ) from error
    if digest != _digest(tensors, text):
        raise CheckpointError(f"{path} is damaged", expected=f"SHA-256 {digest[:12]}…", got="other content")
    return tensors, record


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()

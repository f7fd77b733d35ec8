"""Segmentation networks as safetensors files: weights in half precision, and a JSON record that rebuilds them."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from nipde.errors import CheckpointError, NipdeError
from nipde.estimators.segmentation.network import SegmentationConfig, SegmentationNetwork
from nipde.records import dataclass_from_json, reading
from nipde.weights import checkpoint

KIND, VERSION = "electrode-segmentation", 1
#: Most channels of a network: more would be a mistake, or harm.
MOST = 1024


def save(
    network: SegmentationNetwork, path: str | os.PathLike[str], *, about: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Write a network; `about` it, anything in JSON form is kept in the record."""
    record = {"kind": KIND, "version": VERSION, "network": network.config.to_dict(), "about": dict(about)}
    checkpoint.save(Path(path), {name: value.half() for name, value in network.state_dict().items()}, record)


def load(path: str | os.PathLike[str]) -> SegmentationNetwork:
    """Ready to use, in single precision."""
    tensors, record = checkpoint.load(Path(path), check=partial(_check, Path(path)))
    network = SegmentationNetwork(_config(record))
    network.load_state_dict({name: value.float() for name, value in tensors.items()})
    return network.eval().requires_grad_(False)


def card(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What was noted about weights."""
    return dict(checkpoint.load(Path(path), check=partial(_check, Path(path)))[1]["about"])


def _check(path: Path, record: dict[str, Any], layout: checkpoint.Layout) -> None:
    """Raise unless the tensors are those of the network; it is built without memory."""
    if (record.get("kind"), record.get("version")) != (KIND, VERSION):
        raise CheckpointError(
            f"{path} holds something else", expected=f"{KIND}, version {VERSION}",
            got=f"{str(record.get('kind'))[:50]}, version {str(record.get('version'))[:50]}", remedy="use nipde.load",
        )  # fmt: skip
    with reading(f"{path} does not hold the network of its record", CheckpointError, expected="all of its weights"):
        with torch.device("meta"):
            wanted = {
                name: list(value.shape) for name, value in SegmentationNetwork(_config(record)).state_dict().items()
            }
        for name in sorted(wanted.keys() | layout.keys()):
            given = layout.get(name, (None, ""))
            if (wanted.get(name), "F16") != given:
                raise NipdeError(name, expected=(wanted.get(name), "F16"), got=given)


def _config(record: dict[str, Any]) -> SegmentationConfig:
    config = dataclass_from_json(record["network"], SegmentationConfig)
    if not all(1 <= size <= MOST for size in (config.images, *config.widths)):
        raise NipdeError(expected=f"channels from 1 to {MOST}", got=(config.images, *config.widths))
    return config

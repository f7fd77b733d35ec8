"""A trained model as one safetensors file: weights, and a JSON record that rebuilds the network; nothing is unpickled.

The record holds the model's config and what its predictions depend on beyond config and weights: name, calibration,
piecewise-constant prior. Published weights also tell in it what they are for and how they were trained.
"""

import json
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

import nipde
from nipde.errors import CheckpointError, meant
from nipde.estimators.base import Model
from nipde.estimators.registry import build
from nipde.weights import checkpoint

#: Version of the record.
VERSION = 2
SHELF = Path(str(files("nipde"))) / "weights"
#: Files of weights in a run's folder, and those of a published folder.
BEST, LAST, WEIGHTS, CONFIG = "best.safetensors", "last.safetensors", "model.safetensors", "config.json"
PRECISIONS = {torch.float32: "float32", torch.float64: "float64"}


def names() -> list[str]:
    """Of the weights that come with the package."""
    return sorted(path.stem for path in SHELF.glob("*.safetensors"))


def load(place: str | os.PathLike[str] = "darcy") -> Any:
    """The model, of the class it was saved from: pretrained weights by name, a file, a run's folder, a published one.

    Ready to estimate and without gradients: the same kernels, bit by bit, and the same bands. `card` tells what the
    weights are; `nipde.weights.fetch` brings a folder from the Hugging Face hub.
    """
    path = _path(place)
    tensors, record = checkpoint.load(path)
    check_record(record, path)
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    try:
        model = build(record["model"]).to(dtype=getattr(torch, record["precision"]))
        model.load_state_dict(weights)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} does not hold the network that its record names",
            expected=f"all weights of {record['model'].get('kind')}",
            got=str(error).replace("\n\t", " ").replace("\n", " "),
            remedy="use the nipde that wrote it",
        ) from error
    model.name = record.get("name", "")
    try:
        model.restore(record)
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"the calibration of {path} cannot be read", expected="one of this version", got=str(error),
            remedy="use the nipde that wrote it",
        ) from error  # fmt: skip
    return model.eval().requires_grad_(False)


def card(place: str | os.PathLike[str]) -> dict[str, Any]:
    """What weights are: config, range of validity, training, calibration, limits."""
    return checkpoint.load(_path(place))[1]


def save(
    model: nn.Module, path: str | os.PathLike[str], *, about: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Write a model; `about` it, anything in JSON form is kept in the record. Returns the record."""
    record = record_of(model) | dict(about)
    checkpoint.save(Path(path), tensors_of(model), record)
    return record


def tensors_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """The weights as a file names them."""
    return {f"model.{name}": value for name, value in model.state_dict().items()}


def record_of(model: nn.Module) -> dict[str, Any]:
    """All that rebuilds the model around its weights."""
    if not isinstance(model, Model):
        raise CheckpointError(
            expected="a model with a config", got=type(model).__name__, remedy="save its state_dict with safetensors"
        )
    precisions = {parameter.dtype for parameter in model.parameters()}
    if len(precisions) != 1 or not precisions <= PRECISIONS.keys():
        raise CheckpointError(
            expected="all weights in float32, or all in float64", got=sorted(map(str, precisions)),
            remedy="model.float()",
        )  # fmt: skip
    return {
        "checkpoint_version": VERSION,
        "nipde": nipde.__version__,
        "name": model.name,
        "model": model.config.to_dict(),
        "precision": PRECISIONS[precisions.pop()],
        **model.settings(),
    }


def check_record(record: dict[str, Any], path: Path) -> None:
    """Raise unless this version can read the record."""
    version = record.get("checkpoint_version")
    if version != VERSION:
        raise CheckpointError(
            f"{path} has another version", expected=f"checkpoint_version {VERSION}", got=version,
            remedy="use the nipde that wrote it",
        )  # fmt: skip
    missing = [name for name in ("model", "precision") if name not in record]
    if missing:
        raise CheckpointError(
            f"the record of {path} is incomplete", expected="model and precision", got=f"no {', '.join(missing)}",
            remedy="write it with nipde.weights.save",
        )  # fmt: skip


def _path(place: str | os.PathLike[str]) -> Path:
    """Names come before paths."""
    name, path = os.fspath(place), Path(place)
    if name in names():
        return SHELF / f"{name}.safetensors"
    if not path.exists():
        raise CheckpointError(
            expected=f"weights among {', '.join(names())}, a file or a folder", got=repr(name),
            remedy=meant(name, names(), otherwise="nipde.weights.fetch brings weights from the Hugging Face hub"),
        )  # fmt: skip
    if not path.is_dir():
        return path
    inside = [path / file for file in (BEST, LAST, WEIGHTS) if (path / file).exists()]
    if not inside:
        raise CheckpointError(expected=f"{BEST} or {WEIGHTS} in {path}", got="neither", remedy="train or publish first")
    if (path / CONFIG).exists():
        _check_config(path / CONFIG, inside[0])
    return inside[0]


def _check_config(config: Path, weights: Path) -> None:
    """The record in the weights is what counts; a config that differs belongs to other weights, or was edited."""
    record = checkpoint.load(weights)[1]
    try:
        stated = json.loads(config.read_text(encoding="utf-8"))
        different = sorted(key for key in stated.keys() | record.keys() if stated.get(key) != record.get(key))
    except (ValueError, AttributeError) as error:
        raise CheckpointError(f"{config} is not a JSON object", expected="a copy of the record", got=error) from error
    if different:
        raise CheckpointError(
            f"{config} does not belong to {weights.name}",
            expected=f"{different[0]} = {_short(record.get(different[0]))}", got=_short(stated.get(different[0])),
            remedy="take both files from one place",
        )  # fmt: skip


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 200 else f"{text[:197]}…"

"""A trained model as one safetensors file: weights, and a JSON record that rebuilds the network; nothing is unpickled.

The record holds the model's config and what its predictions depend on beyond config and weights: name, calibration,
piecewise-constant prior. Published weights also tell in it what they are for and how they were trained.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import nipde
from nipde.errors import CheckpointError, NipdeError, meant
from nipde.estimators.base import Model
from nipde.estimators.conditioned.calibration import Calibration
from nipde.estimators.registry import build
from nipde.grid import Grid
from nipde.records import dataclass_from_json, reading, short
from nipde.weights import checkpoint

#: Version of the record.
VERSION = 2
SHELF = Path(str(files("nipde"))) / "weights"
#: Files of weights in a run's folder, and those of a published folder.
BEST, LAST, WEIGHTS, CONFIG = "best.safetensors", "last.safetensors", "model.safetensors", "config.json"
REMEDY = "use the nipde that wrote it"
PRECISIONS = {torch.float32: "float32", torch.float64: "float64"}


def names() -> list[str]:
    """Of the weights that come with the package."""
    return sorted(path.stem for path in SHELF.glob("*.safetensors"))


def load(place: str | os.PathLike[str] = "darcy") -> Any:
    """The model, of the class it was saved from: pretrained weights by name, a file, a run's folder, a published one.

    Ready to estimate and without gradients: the same kernels, bit by bit, and the same bands. `card` tells what the
    weights are; `nipde.weights.fetch` brings a folder from the Hugging Face hub.
    """
    tensors, record = read(_path(place))
    model = _build(record)
    model.load_state_dict(_weights(tensors))
    return model.eval().requires_grad_(False)


def card(place: str | os.PathLike[str]) -> dict[str, Any]:
    """What weights are: config, range of validity, training, calibration, limits."""
    return read(_path(place))[1]


def save(
    model: nn.Module, path: str | os.PathLike[str], *, about: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Write a model; `about` it, anything in JSON form is kept in the record. Returns the record."""
    record = record_of(model) | dict(about)
    check_entries(record, Path(path))
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


@dataclass(frozen=True)
class Entries:
    """Types of a record's entries; others are notes, and may be anything."""

    checkpoint_version: int
    model: dict[str, Any]
    precision: Literal["float32", "float64"]
    nipde: str = ""
    name: str = ""
    piecewise_constant: bool = False
    calibration: Calibration | None = None
    about: str = ""
    limits: str = ""
    license: str = ""
    training: dict[str, Any] | None = None
    curve: list[Any] | None = None
    recipe: dict[str, Any] | None = None
    grid: Grid | None = None
    data: str = ""
    step: int = 0
    seconds: float = 0.0
    best: float = math.inf
    best_step: int = 0
    validation: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None


def read(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and record of a file whose record describes the tensors; all of them are finite."""
    tensors, record = checkpoint.load(path, check=partial(_check, path))
    odd = [name for name, value in tensors.items() if value.is_floating_point() and not value.isfinite().all()]
    if odd:
        raise CheckpointError(f"{path} holds no model", expected="finite weights", got=f"others in {odd[0]}")
    return tensors, record


def check_entries(record: dict[str, Any], path: Path) -> None:
    """Raise unless this version can read the record."""
    version = record.get("checkpoint_version")
    if version != VERSION:
        raise CheckpointError(
            f"{path} has another version", expected=f"checkpoint_version {VERSION}", got=version, remedy=REMEDY
        )
    known = {one.name: record[one.name] for one in fields(Entries) if one.name in record}
    with reading(f"the record of {path}", CheckpointError, expected="entries of this version", remedy=REMEDY):
        dataclass_from_json(json.loads(json.dumps(known)), Entries)


def _check(path: Path, record: dict[str, Any], layout: checkpoint.Layout) -> None:
    """Raise unless the tensors are those of the model; it is built without memory, so that no size can do harm."""
    check_entries(record, path)
    wanted, given = {}, _weights(layout)
    named = f"all weights of {str(record['model'].get('kind'))[:50]}"
    with reading(f"{path} does not hold the network of its record", CheckpointError, expected=named, remedy=REMEDY):
        with torch.device("meta"), _WithoutDraws():
            state = _build(record).state_dict()
        for name, value in state.items():
            word = str(value.dtype).removeprefix("torch.").replace("float", "f").replace("uint", "u")
            wanted[name] = list(value.shape), word.replace("int", "i").upper()
        for name in sorted(wanted.keys() | given.keys()):
            if wanted.get(name) != given.get(name):
                raise NipdeError(name, expected=wanted.get(name), got=given.get(name))


class _WithoutDraws(TorchFunctionMode):
    """Weights stay as they are allocated; on the meta device a normal draw would import PyTorch's compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "normal_":
            return args[0] if args else kwargs["tensor"]
        return (torch.empty if func is torch.randn else func)(*args, **(kwargs or {}))


def _build(record: dict[str, Any]) -> Model:
    """The model of a record, with fresh weights."""
    model = build(record["model"]).to(dtype=getattr(torch, record["precision"]))
    model.name = record.get("name", "")
    model.restore(record)
    return model


def _weights(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Without what else a run keeps."""
    return {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}


def _path(place: str | os.PathLike[str]) -> Path:
    """Names come before paths."""
    name, path = os.fspath(place), Path(place)
    if name in names():
        return SHELF / f"{name}.safetensors"
    if not os.path.exists(path):  # False also for names that no file can have
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
    record = read(weights)[1]
    with (
        reading(f"{config} is not a JSON object", CheckpointError, expected="a copy of the record"),
        checkpoint.open_regular(config, most=4 * checkpoint.MOST_HEADER) as file,
    ):
        stated = json.loads(file.read())
        different = sorted(key for key in stated.keys() | record.keys() if stated.get(key) != record.get(key))
    if different:
        raise CheckpointError(
            f"{config} does not belong to {weights.name}",
            expected=f"{different[0]} = {short(record.get(different[0]))}", got=short(stated.get(different[0])),
            remedy="take both files from one place",
        )  # fmt: skip

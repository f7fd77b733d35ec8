"""Weights on disk back to an estimator: a run's, or those of a model that was saved with its calibration."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nipde.errors import CheckpointError
from nipde.estimators.conditioned import ConditionedNIPS
from nipde.estimators.conditioning.calibration import Calibration
from nipde.estimators.conditioning.elliptic_prior import EllipticPrior
from nipde.grid import Grid
from nipde.training import checkpoint
from nipde.training.models import build
from nipde.training.recipe import TrainingRecipe
from nipde.training.run import BEST, LAST

#: Version of the record; files that name none are of the first.
VERSION = 1


def load_model(path: str | os.PathLike[str]) -> nn.Module:
    """The network of a run's folder (its best weights) or of one file of weights, ready to estimate.

    Calibration, name and sharpness come back where the file has them: the same kernels, bit by bit, and the same bands.
    """
    place = Path(path)
    if place.is_dir():
        found = [place / name for name in (BEST, LAST) if (place / name).exists()]
        if not found:
            raise CheckpointError(expected=f"a run with {BEST} in {place}", got="none", remedy="train it first")
        place = found[0]
    tensors, record = checkpoint.load(place)
    record = checked(record, place)
    try:
        model = _built(record)
        model.load_state_dict(
            {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
        )
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"{place} does not hold the network that its record names",
            expected=f"all weights of {record['recipe']['model'].get('kind')}",
            got=str(error).replace("\n\t", " ").replace("\n", " "),
            remedy="use the nipde that wrote it",
        ) from error
    if isinstance(model, ConditionedNIPS):
        model.name = record.get("name", "")
        model.calibration = _calibration(record, place)
        if isinstance(model.prior, EllipticPrior):
            model.prior.sharp = bool(record.get("sharp", False))
    return model.eval().requires_grad_(False)


def checked(record: dict[str, Any], place: Path) -> dict[str, Any]:
    """The record, if it is one that this version can read."""
    version = record.get("checkpoint_version", VERSION)
    if version != VERSION:
        raise CheckpointError(
            f"{place} has another version", expected=f"checkpoint_version {VERSION}", got=version,
            remedy="use the nipde that wrote it",
        )  # fmt: skip
    missing = [name for name in ("recipe", "grid", "components") if name not in record]
    if missing or "model" not in record["recipe"]:
        raise CheckpointError(
            f"the record of {place} is incomplete", expected="recipe with its model, grid and components",
            got=f"no {', '.join(missing or ['model'])}", remedy="write it with save_checkpoint",
        )  # fmt: skip
    return record


def _built(record: dict[str, Any]) -> nn.Module:
    recipe, grid = TrainingRecipe.from_dict(record["recipe"]), Grid.from_dict(record["grid"])
    components = {"components": record["components"], "response_components": record.get("response_components")}
    model = build(recipe.model, grid, pairs=recipe.contexts[0], **components)
    return model.to(dtype=getattr(torch, recipe.precision))


def _calibration(record: dict[str, Any], place: Path) -> Calibration | None:
    kept = record.get("calibration")
    try:
        return None if kept is None else Calibration.from_dict(kept)
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"the calibration of {place} cannot be read", expected="one of this version", got=str(error),
            remedy="use the nipde that wrote it",
        ) from error  # fmt: skip

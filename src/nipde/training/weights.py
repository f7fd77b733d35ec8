"""Weights on disk back to an estimator."""

import os
from pathlib import Path

import torch
from torch import nn

from nipde.errors import CheckpointError
from nipde.grid import Grid
from nipde.training import checkpoint
from nipde.training.models import build
from nipde.training.recipe import TrainingRecipe
from nipde.training.run import BEST, LAST


def load_model(path: str | os.PathLike[str]) -> nn.Module:
    """The network of a run's folder (its best weights) or of one file of weights, ready to estimate."""
    place = Path(path)
    if place.is_dir():
        found = [place / name for name in (BEST, LAST) if (place / name).exists()]
        if not found:
            raise CheckpointError(expected=f"a run with {BEST} in {place}", got="none", remedy="train it first")
        place = found[0]
    tensors, card = checkpoint.load(place)
    recipe = TrainingRecipe.from_dict(card["recipe"])
    grid = Grid.from_dict(card["grid"])
    components = {"components": card["components"], "response_components": card.get("response_components")}
    model = build(recipe.model, grid, pairs=recipe.contexts[0], **components)
    model.to(dtype=getattr(torch, recipe.precision))
    model.load_state_dict(
        {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    )
    return model.eval().requires_grad_(False)

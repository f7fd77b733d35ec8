"""A model as one file and back: the file of `nipde train` (safetensors with a JSON record), nothing unpickled.

The record holds what rebuilds the network and what its answers depend on beyond weights: calibration, name, sharpness.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

import nipde
from nipde.errors import CheckpointError
from nipde.estimators.afno import AFNO
from nipde.estimators.attention import gram_attention
from nipde.estimators.conditioned import ConditionedNIPS
from nipde.estimators.conditioning.elliptic_prior import EllipticPrior
from nipde.estimators.conditioning.gated_prior import GatedPrior
from nipde.estimators.kernel_network import KernelNetwork
from nipde.estimators.nao import NAO
from nipde.estimators.nips import NIPS, NIPSMLP, NIPSLayer
from nipde.estimators.token_model import TokenModel
from nipde.grid import Grid
from nipde.training import checkpoint
from nipde.training.models import build
from nipde.training.recipe import Kind, ModelRecipe, TrainingRecipe
from nipde.training.weights import VERSION, load_model

PRECISIONS: dict[torch.dtype, Literal["float32", "float64"]] = {torch.float32: "float32", torch.float64: "float64"}


def save_checkpoint(
    model: nn.Module, path: str | os.PathLike[str], *, about: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Write NIPS, NIPS-mlp, NAO, AFNO or ConditionedNIPS; `about` is kept in the record. Returns the record."""
    record = record_of(model) | ({} if about is None else {"about": about})
    checkpoint.save(Path(path), {f"model.{name}": value for name, value in model.state_dict().items()}, record)
    return record


def from_checkpoint(path: str | os.PathLike[str]) -> nn.Module:
    """The model of a file, ready to estimate: `nipde.load_model` by the name that goes with `save_checkpoint`."""
    return load_model(path)


def record_of(model: nn.Module) -> dict[str, Any]:
    """All that rebuilds the model around its weights; raises where no recipe can say it."""
    recipe, grid, components = _recipe(model)
    record = {
        "checkpoint_version": VERSION,
        "nipde": nipde.__version__,
        "recipe": recipe.to_dict(),
        "grid": grid.to_dict(),
        "components": components[1],
        "response_components": components[0],
        # A recipe must state a length.
        "note": "written from a model in memory: of the recipe, model, context and precision count",
    }
    if isinstance(model, ConditionedNIPS):
        calibration = None if model.calibration is None else model.calibration.to_dict()
        record |= {"name": model.name, "sharp": model.sharp, "calibration": calibration}
    _check_rebuilds(model, recipe, grid, components)
    return record


def _recipe(model: nn.Module) -> tuple[TrainingRecipe, Grid, tuple[int, int]]:
    if isinstance(model, ConditionedNIPS):
        recipe, context = _conditioned(model), 1
        grid, components = Grid.uniform(3, dimension=model.dimension), model.components  # any grid of its dimension
    else:
        tokens = model.nips if isinstance(model, NIPSMLP) else model
        if not isinstance(tokens, TokenModel):
            raise CheckpointError(
                expected="NIPS, NIPS-mlp, NAO, AFNO or ConditionedNIPS", got=type(model).__name__,
                remedy="save its state_dict with safetensors",
            )  # fmt: skip
        recipe, context = _of_tokens(tokens, mixed=isinstance(model, NIPSMLP)), tokens.pairs
        grid, components = tokens.grid, (tokens.components,) * 2
    precisions = {parameter.dtype for parameter in model.parameters()}
    if len(precisions) != 1 or not precisions <= set(PRECISIONS):
        raise CheckpointError(
            expected="all weights in float32, or all in float64", got=sorted(map(str, precisions)),
            remedy="model.float()",
        )  # fmt: skip
    return TrainingRecipe(recipe, context=context, steps=1, precision=PRECISIONS[precisions.pop()]), grid, components


def _conditioned(model: ConditionedNIPS) -> ModelRecipe:
    prior = model.prior
    if not isinstance(prior, EllipticPrior | GatedPrior):
        raise CheckpointError(
            expected="a prior that is trained", got="a body, found anew for every specimen",
            remedy="build it: ConditionedNIPS(prior='elastic') has nothing to keep",
        )  # fmt: skip
    channels = len(prior.net.into[0].get_parameter("bias"))
    if isinstance(prior, GatedPrior):
        return ModelRecipe(
            "conditioned", prior="gated", drift=prior.odd > 0, channels=channels, terms=prior.terms,
            head=model.head is not None,
        )  # fmt: skip
    return ModelRecipe("conditioned", prior="elliptic", drift=prior.coefficients > 1, channels=channels)


def _of_tokens(model: TokenModel, *, mixed: bool) -> ModelRecipe:
    if isinstance(model, NIPS):
        last = model.layers[-1]
        assert isinstance(last, NIPSLayer)
        recipe = ModelRecipe("nips-mlp" if mixed else "nips", len(model.layers), model.channels)
        every = {nodes // 2 + 1 == kept for nodes, kept in zip(model.grid.shape, last.filter.modes, strict=True)}
        return recipe if every == {True} else replace(recipe, modes=last.filter.modes[0])
    if isinstance(model, NAO):
        normed = [norm.get_parameter("weight").ndim > 1 for norm in model.norms]
        kind: Kind = "nao-wp" if model.token_projections else "nao-f" if any(normed) else "nao"
        return ModelRecipe(kind, len(model.maps), model.channels)
    assert isinstance(model, AFNO)
    return ModelRecipe("afno", len(model.layers))


def _check_rebuilds(model: nn.Module, recipe: TrainingRecipe, grid: Grid, components: tuple[int, int]) -> None:
    """Options that a recipe does not know show as weights of another shape, or as another way of computing."""
    with torch.random.fork_rng(devices=[]):
        again = build(
            recipe.model, grid, pairs=recipe.contexts[0], components=components[1], response_components=components[0]
        )
    mine, other = (
        {name: tuple(value.shape) for name, value in one.state_dict().items()} | _ways(one) for one in (model, again)
    )
    if mine != other:
        names = sorted(name for name in mine.keys() | other.keys() if mine.get(name) != other.get(name))
        raise CheckpointError(
            f"no recipe makes this {type(model).__name__}",
            expected=", ".join(f"{name} {other.get(name)}" for name in names[:3]),
            got=", ".join(f"{name} {mine.get(name)}" for name in names[:3]),
            remedy="build it with options that ModelRecipe has",
        )


def _ways(model: nn.Module) -> dict[str, Any]:
    """How NAO computes; the ways agree up to rounding only."""
    if not isinstance(model, NAO):
        return {}
    forms = {network.form for network in model.kernel_networks if isinstance(network, KernelNetwork)}
    return {"attention": model.attention is gram_attention, "kernel_networks": sorted(forms)}

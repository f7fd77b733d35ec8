"""A model's recipe and a grid to the network itself."""

from typing import Any

from torch import nn

from nipde.errors import TrainingError
from nipde.estimators.afno import AFNO
from nipde.estimators.nao import NAO
from nipde.estimators.nips import NIPS, NIPSMLP
from nipde.grid import Grid
from nipde.training.recipe import ModelRecipe


def build(
    recipe: ModelRecipe, grid: Grid, *, pairs: int, components: int = 1, response_components: int | None = None
) -> nn.Module:
    """The network with fresh weights, from the global generator of torch.

    `components` are those of a load, and of a response unless it has `response_components`.
    """
    if recipe.kind == "conditioned":
        from nipde.estimators.conditioned import ConditionedNIPS

        answered = components if response_components is None else response_components
        return ConditionedNIPS(
            dimension=grid.dimension, components=(answered, components), prior=recipe.prior, drift=recipe.drift,
            head=recipe.head, channels=recipe.channels, terms=recipe.terms,
        )  # fmt: skip
    sizes: dict[str, Any] = {"pairs": pairs, "layers": recipe.layers, "components": components}
    if recipe.kind == "afno":
        return AFNO(grid, **sizes)
    sizes["channels"] = recipe.channels
    if recipe.kind in ("nips", "nips-mlp"):
        modes = None if recipe.modes is None else (recipe.modes,) * grid.dimension
        return (NIPS if recipe.kind == "nips" else NIPSMLP)(grid, modes=modes, **sizes)
    if recipe.kind in ("nao", "nao-f", "nao-wp"):
        return NAO(grid, full_norms=recipe.kind == "nao-f", token_projections=recipe.kind == "nao-wp", **sizes)
    raise TrainingError(expected="a model nips, nips-mlp, nao, nao-f, nao-wp, afno or conditioned", got=recipe.kind)

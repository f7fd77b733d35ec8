"""Weights of NIPS for a grid from those for a coarser one, and of a deep network from those of a shallow one.

A step on every second node costs a quarter and teaches about as much. Tables of the first norm are fields and are
interpolated; a filter is a function of the wave vector and is read at the new grid's waves, or at the nearest that
the old grid had. Layers that the old network lacks stand before the last and add nothing at first: their norm has
gain 0. The kernel is then near the old one, not the same, and training goes on from there.
"""

import re
from itertools import product
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from scipy.interpolate import griddata
from torch import Tensor

from nipde.errors import TrainingError
from nipde.estimators.paper.nips import NIPS, NIPSLayer

#: Fields of the config that both networks must share.
SHARED = ("pairs", "channels", "components", "gains")


def start_from(model: torch.nn.Module, other: torch.nn.Module) -> None:
    """Give `model` the weights of `other`: NIPS both, of as many pairs, channels and components."""
    if not (isinstance(model, NIPS) and isinstance(other, NIPS)):
        got = f"{type(other).__name__} for {type(model).__name__}"
        raise TrainingError(expected="weights of NIPS to start NIPS from", got=got, remedy="leave out --start")
    new, old = model.config, other.config
    for name in SHARED:
        if getattr(new, name) != getattr(old, name):
            raise TrainingError(expected=f"{getattr(new, name)} {name}", got=f"{getattr(old, name)} in the weights")
    if old.layers > new.layers or other.grid.dimension != model.grid.dimension:
        raise TrainingError(
            expected=f"at most {new.layers} layers on {model.grid.dimension} axes",
            got=f"{old.layers} on {other.grid.dimension}",
        )
    weights = model.state_dict()
    for name, values in other.state_dict().items():
        if name.startswith("input_norm") and values.ndim > 1:
            weights[name] = _table(values, other, model)
        elif name.endswith("filter.weight"):
            weights[_renamed(name, old.layers, new.layers)] = _filter(values, other, model)
        else:
            weights[_renamed(name, old.layers, new.layers)] = values
    for added in range(old.layers - 1, new.layers - 1):
        weights[f"layers.{added}.norm.weight"] = torch.zeros_like(weights[f"layers.{added}.norm.weight"])
    model.load_state_dict(weights)


def _renamed(name: str, old: int, new: int) -> str:
    """The last layer stays the last."""
    return re.sub(rf"^layers\.{old - 1}\.", f"layers.{new - 1}.", name)


def _table(values: Tensor, old: NIPS, new: NIPS) -> Tensor:
    fields = values.view(old.fields, *old.grid.shape, old.pairs).movedim(-1, 0)
    return old.grid.interpolate(fields, to=new.grid).movedim(0, -1).reshape(new.tokens, new.pairs)


def _filter(values: Tensor, old: NIPS, new: NIPS) -> Tensor:
    """Linear between the waves of the old grid; beyond them, the value at the nearest."""
    known, asked = _waves(old), _waves(new)
    _, places = np.unique(known[::-1], axis=0, return_index=True)  # where corners overlap, the later one acts
    places = len(known) - 1 - places
    entries = values.flatten(1, -2).movedim(1, 0).double().cpu().numpy()[places]
    inside = griddata(known[places], entries, asked, method="linear")
    nearest = griddata(known[places], entries, asked, method="nearest")
    read = torch.as_tensor(np.where(np.isnan(inside), nearest, inside)).to(values)
    layer = cast(NIPSLayer, new.layers[0])
    return read.movedim(0, 1).reshape(layer.filter.weight.shape)


def _waves(network: NIPS) -> Float[np.ndarray, "entry axis"]:
    """The wave vector of every entry of a filter, in waves per unit of length, in the order of its weights."""
    modes = cast(NIPSLayer, network.layers[0]).filter.modes
    axes = []
    for axis, kept, last in zip(network.grid.axes, modes, (*(False,) * (len(modes) - 1), True), strict=True):
        rows = np.arange(kept) if last else np.arange(kept) + np.array([[0], [axis.nodes - kept]])
        axes.append(np.where(rows > axis.nodes // 2, rows - axis.nodes, rows) / (axis.nodes * axis.spacing))
    vectors = []
    for corner in product((0, 1), repeat=len(modes) - 1):  # the first axis' bit runs fastest
        ends = [axis[bit] for axis, bit in zip(axes[:-1], reversed(corner), strict=True)]
        vectors.append(np.stack(np.meshgrid(*ends, axes[-1], indexing="ij"), axis=-1).reshape(-1, len(modes)))
    return np.concatenate(vectors)

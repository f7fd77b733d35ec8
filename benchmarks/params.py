"""The sizes of the paper's models, rebuilt: every printed parameter count beside ours."""

from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from nipde.estimators.paper.afno import AFNO
from nipde.estimators.paper.nao import NAO
from nipde.estimators.paper.nips import NIPS, NIPSMLP
from nipde.grid import Grid
from nipde.spectral.filter import SpectralFilter

SEED = 0


def measure(*, quick: bool) -> dict[str, Any]:
    """One row per printed count; quick is the same."""
    rows = [
        {"row": row, "paper": printed, "ours": _count(model), "dead": _dead(model)} for row, printed, model in _models()
    ]
    return {"rows": rows, "equal": all(row["ours"] == row["paper"] for row in rows), "afno_per_layer": _afno_layer()}


def _models() -> list[tuple[str, int, nn.Module]]:
    """The paper's tables. AFNO's printed totals are met on grids that lost one node per axis."""
    small: dict[str, Any] = {"pairs": 50, "channels": 40}
    table: dict[str, Any] = {"pairs": 150, "channels": 280, "layers": 3}
    mechanics: dict[str, Any] = {"pairs": 100, "channels": 100, "components": 2}
    grid = Grid.uniform
    return [
        ("Darcy 21², 2 layers, NIPS", 98_396, NIPS(grid(21), **small, layers=2)),
        ("Darcy 21², 2 layers, NAO", 101_134, NAO(grid(21), **small, layers=2)),
        ("Darcy 21², 2 layers, NAO-f", 189_234, NAO(grid(21), **small, layers=2, full_norms=True)),
        ("Darcy 21², 2 layers, NAO-W^P", 1_658_746, NAO(grid(21), **small, layers=2, token_projections=True)),
        ("Darcy 21², 2 layers, AFNO (as 20²)", 101_200, AFNO(grid(20), pairs=50, layers=2)),
        ("Darcy 21², 4 layers, NIPS", 108_692, NIPS(grid(21), **small, layers=4)),
        ("Darcy 21², 4 layers, NAO", 109_494, NAO(grid(21), **small, layers=4)),
        ("Darcy 21², 4 layers, AFNO (as 20²)", 121_600, AFNO(grid(20), pairs=50, layers=4)),
        ("Darcy 41², 4 layers, NIPS", 366_932, NIPS(grid(41), **small, layers=4)),
        ("Darcy 41², 4 layers, NAO", 357_494, NAO(grid(41), **small, layers=4)),
        ("Darcy 41², 4 layers, AFNO (as 40²)", 364_000, AFNO(grid(40), pairs=50, layers=4)),
        ("Darcy 11², 3 layers, NIPS", 327_744, NIPS(grid(11), **table)),
        ("Darcy 11², 3 layers, NAO", 331_554, NAO(grid(11), **table)),
        ("MMNIST 29², 2 layers, NIPS", 720_600, NIPS(grid(29), **mechanics, layers=2)),
        ("MMNIST 29², 2 layers, NAO", 722_748, NAO(grid(29), **mechanics, layers=2)),
        ("MMNIST 29², 4 layers, NIPS", 768_600, NIPS(grid(29), **mechanics, layers=4)),
        ("MMNIST 29², 4 layers, NAO", 763_548, NAO(grid(29), **mechanics, layers=4)),
        ("Tissue 29², 4 layers, NIPS", 768_600, NIPS(grid(29), **mechanics, layers=4)),
        ("Tissue 29², 4 layers, NIPS-mlp", 2_183_582, NIPSMLP(grid(29), **mechanics, layers=4)),
        ("Tissue 29², 4 layers, NAO", 763_548, NAO(grid(29), **mechanics, layers=4)),
    ]


def _count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def dead_weights(multiplier: SpectralFilter) -> Bool[Tensor, "corner *modes pair"]:
    """Numbers of a field's weights in a filter that never act.

    Entries that a later corner covers, and imaginary parts of waves that have no sine (the mean; at even n also
    the alternating wave): a real field cannot show them.
    """
    waves = np.stack(np.meshgrid(*(np.arange(kept) for kept in reversed(multiplier.waves)), indexing="ij"), -1)
    waves = waves.reshape(-1, len(multiplier.shape))[:, ::-1]  # mode -> wave along x, y, z
    has_sine = (waves > 0) & (2 * waves != np.array(multiplier.shape))
    parities = np.array(list(product((False, True), repeat=len(multiplier.shape))))
    exists = np.all(has_sine[:, None] | ~parities, axis=-1)  # mode, parity
    turned = (multiplier.turns != 0).cpu().numpy().astype(int)
    shown = np.einsum("mp,crpq,mq->mcr", exists.astype(int), turned, exists.astype(int)) > 0
    used = np.zeros((multiplier.weight[0, ..., 0].numel(), 2), dtype=bool)
    acts = multiplier.acts.cpu().numpy()
    np.logical_or.at(used, multiplier.selector.cpu().numpy()[acts], shown[acts])
    return torch.tensor(~used.reshape(multiplier.weight.shape[1:]))


def _dead(model: nn.Module) -> int:
    """Numbers that are stored and counted but never act."""
    filters = [part for part in model.modules() if isinstance(part, SpectralFilter)]
    return sum(int(dead_weights(part).sum()) * len(part.weight) for part in filters)


def _afno_layer() -> dict[str, int]:
    two, three = (_count(AFNO(Grid.uniform(21), pairs=50, layers=layers)) for layers in (2, 3))
    return {"paper": (121_600 - 101_200) // 2, "ours": three - two}

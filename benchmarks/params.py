"""The sizes of the paper's models, rebuilt: every printed parameter count beside ours."""

from typing import Any

from torch import nn

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


def _dead(model: nn.Module) -> int:
    """Numbers that are stored and counted but never act."""
    filters = [part for part in model.modules() if isinstance(part, SpectralFilter)]
    return sum(int(part.dead.sum()) * len(part.weight) for part in filters)


def _afno_layer() -> dict[str, int]:
    two, three = (_count(AFNO(Grid.uniform(21), pairs=50, layers=layers)) for layers in (2, 3))
    return {"paper": (121_600 - 101_200) // 2, "ours": three - two}

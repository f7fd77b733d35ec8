"""Candidate loads: any list at equal effort, or the longest waves that fit the boundary conditions."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.errors import PairsError, ShapeError
from nipde.grid import Grid
from nipde.spectral.transform import transform

Loads = Float[Tensor, "pair component *space"]


def wave_loads(grid: Grid, count: int, *, components: int = 1) -> Loads:
    """The `count` longest waves, products of sines (Dirichlet), cosines or Fourier waves; root mean square 1.

    The constant, which has no response without a Dirichlet side, is left out. With several components, every wave comes
    once per component.
    """
    waves = transform(grid)
    squares = waves.squared_wavenumbers(torch.empty((), dtype=torch.float64)).flatten()
    order = squares.argsort(stable=True)
    order = order[squares[order] > 0]
    if not 1 <= count <= len(order) * components:
        raise PairsError(
            expected=f"1 to {len(order) * components} waves", got=count, remedy="use fewer, or refine the grid"
        )
    selected = order[: -(-count // components)]
    amounts = torch.zeros(len(selected), components, components, len(squares), dtype=torch.float64)
    for component in range(components):
        amounts[torch.arange(len(selected)), component, component, selected] = 1.0
    fields = waves.synthesis(amounts.reshape(-1, components, *waves.shape))[:count]
    return at_effort(grid, fields)


def at_effort(grid: Grid, loads: Any, *, effort: float = 1.0) -> Loads:
    """The same loads, each with `effort` as its root mean square over the domain, its components together."""
    loads = as_loads(grid, loads)
    size = (grid.norm(loads).square().sum(-1) / grid.volume).sqrt()
    if not bool((size > 0).all()):
        raise PairsError(expected="loads that are not zero", got="a zero load", remedy="leave it out")
    return loads * (effort / size).reshape(-1, *(1,) * (grid.dimension + 1))


def as_loads(grid: Grid, loads: Any) -> Loads:
    """Arrays or tensors as double precision fields; scalar ones may come without a component axis."""
    fields = (loads if isinstance(loads, Tensor) else torch.from_numpy(np.array(loads, dtype=np.float64))).double()
    if fields.ndim == grid.dimension + 1:
        fields = fields.unsqueeze(1)
    grid.check(fields)
    if fields.ndim != grid.dimension + 2 or not len(fields):
        raise ShapeError(
            expected="loads of one system, (pair, component, *space)", got=f"shape {tuple(fields.shape)}",
            remedy="give a list of loads without batch axes",
        )  # fmt: skip
    return fields

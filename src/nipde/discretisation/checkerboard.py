"""The gauge of a coefficient: the one direction that no response depends on, and the rule that fixes it.

Links see b through φ(b_first) + φ(b_second) only, φ = b^p. Adding δ to φ in the black cells of a checkerboard and
taking it from the white ones changes no link, so no measurement determines δ. Taken is the field whose jumps of φ,
relative to φ, are least in L¹: δ is a weighted median. A ring of an odd number of cells has no checkerboard.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nipde.constants import constant
from nipde.discretisation.links import links_of
from nipde.grid import Grid

Cells = Float[Tensor, "system *space"]
#: Means of a power nearer to 0 are taken for the geometric mean, whose gauge multiplies b and is left alone.
LEAST_POWER = 0.1


def fix_checkerboard_gauge(grid: Grid, log_coefficient: Cells, power: float | Tensor) -> Cells:
    """The coefficients of least variation among all with the same conductances for face means of power p."""
    power = torch.as_tensor(power, dtype=log_coefficient.dtype, device=log_coefficient.device).detach()
    if not has_checkerboard(grid) or bool(power.abs() < LEAST_POWER):
        return log_coefficient
    values = (power * log_coefficient).exp()
    signs = constant(checkerboard, grid, like=values)
    shift = _balancing_shift(grid, values.detach().flatten(1), signs.flatten())
    room = values.detach().flatten(1).amin(1) / 2  # b stays positive
    return (values + torch.clamp(shift, -room, room)[(..., *(None,) * grid.dimension)] * signs).log() / power


def has_checkerboard(grid: Grid) -> bool:
    """Whether neighbours can all have different colours."""
    return not any(axis.boundary.periodic and axis.nodes % 2 for axis in grid.axes)


def checkerboard(grid: Grid) -> Float[np.ndarray, "*space"]:
    """1 in black cells, -1 in white ones."""
    return np.where(np.indices(grid.shape).sum(axis=0) % 2, -1.0, 1.0)


def _balancing_shift(
    grid: Grid, values: Float[Tensor, "system cell"], signs: Float[Tensor, " cell"]
) -> Float[Tensor, " system"]:
    """Median over links of the δ that makes both cells equal, weighted with area over the sum of both values."""
    first, second = constant(_cells, grid, like=values, dtype=torch.int64)
    area = constant(_areas, grid, like=values)
    shifts, order = torch.sort(signs[first] * (values[:, second] - values[:, first]) / 2, dim=1)
    weights = (area / (values[:, first] + values[:, second])).gather(1, order)
    reached = weights.cumsum(1)
    return shifts.gather(1, torch.searchsorted(reached, reached[:, -1:] / 2).clamp(max=len(first) - 1)).squeeze(1)


def _cells(grid: Grid) -> Int[np.ndarray, "2 link"]:
    """First and second cell of every link that no corner enters."""
    links = links_of(grid)
    return np.stack([links.first, links.second])[:, _entering(grid)]


def _areas(grid: Grid) -> Float[np.ndarray, " link"]:
    return links_of(grid).area[_entering(grid)]


def _entering(grid: Grid) -> Int[np.ndarray, " link"]:
    links, inner = links_of(grid), ~grid.corners.reshape(-1)
    return np.flatnonzero(inner[links.first] & inner[links.second])

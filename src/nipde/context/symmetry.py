"""Symmetries of a box: flips of its axes, and swaps of axes with equal nodes, length and boundary.

A law whose coefficients are transformed too maps transformed loads to transformed responses.
"""

from dataclasses import dataclass
from itertools import permutations, product

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.errors import ShapeError
from nipde.grid import Grid


@dataclass(frozen=True)
class Symmetry:
    """Axis k of the transformed field is axis `axes[k]` of the field, run through backwards where `flipped[k]`."""

    axes: tuple[int, ...]
    flipped: tuple[bool, ...]


def symmetries(grid: Grid) -> list[Symmetry]:
    """All symmetries of a grid's box, the one that changes nothing first: 8 of a square, 48 of a cube."""
    orders = [
        order
        for order in permutations(range(grid.dimension))
        if all(grid.axes[place] == grid.axes[other] for place, other in enumerate(order))
    ]
    flips = list(product((False, True), repeat=grid.dimension))
    return [Symmetry(order, flipped) for order in orders for flipped in flips]


def transformed(
    field: Float[Tensor, "*batch_component_space"], by: Symmetry, grid: Grid
) -> Float[Tensor, "*batch_component_space"]:
    """The field under a symmetry of the box; components of a vector, one per axis, are permuted and flipped with it.

    On one axis a single component is read as a scalar.
    """
    grid.check(field)
    components = field.shape[-grid.dimension - 1]
    check_components(components, grid)
    leading = field.ndim - grid.dimension
    moved = field.permute(*range(leading), *(leading + axis for axis in by.axes))
    moved = moved.flip([leading + place for place, flip in enumerate(by.flipped) if flip])
    if components > 1:
        signs = moved.new_tensor([-1.0 if flip else 1.0 for flip in by.flipped])
        order = torch.tensor(by.axes, device=field.device)
        moved = moved.index_select(leading - 1, order) * signs.view(-1, *(1,) * grid.dimension)
    return moved.contiguous()


def check_components(components: int, grid: Grid) -> None:
    """Raise unless a field of so many components is a scalar or a vector, which alone can be transformed."""
    if components not in (1, grid.dimension):
        raise ShapeError(
            "a field that cannot be transformed", expected=f"1 component, or {grid.dimension}: one per axis",
            got=components, remedy="train without symmetries",
        )  # fmt: skip

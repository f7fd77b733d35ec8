"""Planes of a box through a node, unfolded into one array: x-y, x-z above it, z-y beside it; nothing in the corner.

x-z │
────┼────
x-y │ z-y
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

#: Axes along and up each plane, in the order of the drawing.
PLANES = ((0, 1), (0, 2), (2, 1))

Ticks = list[tuple[float, str]]


@dataclass(frozen=True)
class Panel:
    """A plane in a drawing: its axes, its nodes in the array that is shown, its frame, and ticks along it."""

    axes: tuple[int, ...]
    first: tuple[int, ...]
    counts: tuple[int, ...]
    left: float
    top: float
    across: float
    up: float
    x_ticks: Ticks
    y_ticks: Ticks

    def holds(self, node: tuple[int, ...]) -> bool:
        """Whether a node of the array is one of its nodes."""
        return all(first <= i < first + n for i, first, n in zip(node, self.first, self.counts, strict=True))

    def to_json(self) -> dict[str, object]:
        """For the script."""
        return {"first": self.first, "counts": self.counts, "frame": [self.left, self.top, self.across, self.up]}


def unfolded(fields: Any, at: tuple[int, ...]) -> ndarray:
    """Planes of `(*lead, x, y, z)` through the node `at`; NaN in the corner, False if the fields are masks."""
    array = np.asarray(fields)
    nx, ny, nz = array.shape[-3:]
    mask = array.dtype == bool
    planes = np.full((*array.shape[:-3], nx + nz, ny + nz), False if mask else np.nan)
    planes[..., :nx, :ny] = array[..., at[2]]
    planes[..., :nx, ny:] = array[..., at[1], :]
    planes[..., nx:, :ny] = array[..., at[0], :, :].swapaxes(-1, -2)
    return planes


def node_of(place: tuple[int, ...], shape: tuple[int, ...], at: tuple[int, ...]) -> tuple[int, ...]:
    """The node of the box at a place of the unfolded array."""
    (i, j), (nx, ny, _) = place, shape
    if i >= nx:
        return at[0], j, i - nx
    return (i, j, at[2]) if j < ny else (i, at[1], j - ny)

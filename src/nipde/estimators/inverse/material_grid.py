"""The grid of a material's nodes: on the box around a specimen, about as many intervals along every axis as asked."""

import numpy as np

from nipde.boundary import Neumann
from nipde.grid import Axis, Grid
from nipde.shape import Shape


def material_grid(shape: Shape, intervals: int) -> Grid:
    """So many intervals, geometric mean over the axes."""
    low, high = np.array(shape.region.bounds).reshape(2, 2)
    lengths, mean = (high - low).tolist(), float(np.prod(high - low) ** 0.5)
    return Grid(tuple(Axis(max(4, round(intervals * one / mean)) + 1, one, Neumann()) for one in lengths))

"""Arrays that depend on a grid alone, as tensors: made once for every precision and device.

A copy from the processor to an accelerator waits for all work before it, so that what never changes is sent once.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.grid import Grid

#: Kept at most, over all grids.
KEPT = 128


def constant(make: Callable[..., np.ndarray], *of: Hashable, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """`make(*of)` in the precision and place of `like`, or in another precision; shared, so never to be written to."""
    build = _made if torch.compiler.is_compiling() else _kept  # a traced tensor must not be kept
    return build(make, of, dtype or like.dtype, like.device)


def quadrature(grid: Grid, *, like: Tensor) -> Float[Tensor, "*space"]:
    """The grid's weights."""
    return constant(_weights, grid, like=like)


def _weights(grid: Grid) -> np.ndarray:
    return grid.weights


def _made(make: Callable[..., Any], of: tuple[Any, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # it may be kept, and used in training later
        return torch.tensor(make(*of), dtype=dtype, device=device)


_kept = lru_cache(maxsize=KEPT)(_made)

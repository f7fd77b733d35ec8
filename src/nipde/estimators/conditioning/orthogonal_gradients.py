"""Conjugate gradients that may stop early without magnifying rounding."""

from typing import Any

import torch
from torch import Tensor


def conjugate_gradients(normal: Any, diagonal: Tensor, right: Tensor, iterations: int) -> Tensor:
    """A fixed number of steps, preconditioned with the diagonal; all coefficients of a system together.

    Every residual is made orthogonal to all before it: steps that stop early otherwise magnify rounding, and mixing
    the pairs would show.
    """
    axes = tuple(range(1, right.ndim))
    tiny = torch.finfo(right.dtype).tiny
    found, residual = torch.zeros_like(right), right
    better = residual / diagonal
    direction, energy = better, (residual * better).sum(axes, keepdim=True)
    before_all: list[tuple[Tensor, Tensor]] = []
    for _ in range(iterations):
        before_all.append((residual, better / energy.clamp(min=tiny)))
        image = normal(direction)
        amount = energy / (direction * image).sum(axes, keepdim=True).clamp(min=tiny)
        found, residual = found + amount * direction, residual - amount * image
        for earlier, dual in before_all:
            residual = residual - (residual * dual).sum(axes, keepdim=True) * earlier
        better = residual / diagonal
        before, energy = energy, (residual * better).sum(axes, keepdim=True)
        direction = better + energy / before.clamp(min=tiny) * direction
    return found

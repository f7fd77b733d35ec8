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
    earlier, duals = right.new_empty(2, len(right), iterations, right[0].numel())
    for number in range(iterations):
        earlier[:, number] = residual.flatten(1)
        duals[:, number] = (better / energy.clamp(min=tiny)).flatten(1)
        image = normal(direction)
        amount = energy / (direction * image).sum(axes, keepdim=True).clamp(min=tiny)
        found, residual = found + amount * direction, residual - amount * image
        shares = duals[:, : number + 1] @ residual.flatten(1).unsqueeze(-1)
        residual = residual - (earlier[:, : number + 1].mT @ shares).view_as(residual)
        better = residual / diagonal
        before, energy = energy, (residual * better).sum(axes, keepdim=True)
        direction = better + energy / before.clamp(min=tiny) * direction
    return found

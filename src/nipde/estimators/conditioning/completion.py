"""Responses with gaps: filled smoothly at first, then by the kernel itself, again and again.

What a round still changes in the gaps is what the filling does not know; the next round treats it as noise. In the end
the filling is trusted, so that what was measured is reproduced.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.estimators.conditioning.orthogonal_gradients import conjugate_gradients
from nipde.estimators.conditioning.whitening import level_or_zero
from nipde.kernels.conditioned import ConditionedKernel
from nipde.kernels.fluxes import fluxes_of

ROUNDS, SMOOTHING = 5, 60
#: What a smooth filling is thought to miss, as a share of the responses.
FIRST = 0.05


def completed(pairs: Pairs, estimate: Callable[[Pairs], ConditionedKernel]) -> Pairs:
    """The same pairs without gaps; `estimate` is an estimator that knows none."""
    assert pairs.mask is not None
    gaps = (~pairs.mask).double().flatten(1)
    share = gaps.mean(1).sqrt()
    noise = level_or_zero(pairs.noise, pairs.loads)
    known = torch.where(pairs.mask, pairs.responses, 0)
    size = (known.square().flatten(1).sum(1) / (1 - gaps).sum(1)).sqrt()
    filled = smoothly_filled(pairs)
    missing = FIRST * size
    for _ in range(ROUNDS):
        level = (noise.square() + (share.to(size) * missing).square()).sqrt()
        kernel = estimate(replace(pairs, responses=filled, mask=None, noise=level))
        answer = torch.where(pairs.mask, pairs.responses, kernel.predict(pairs.loads))
        missing = ((answer - filled).square().flatten(1).sum(1) / gaps.sum(1).clamp(min=1)).sqrt().to(size)
        filled = answer
    return replace(pairs, responses=filled, mask=None)


def smoothly_filled(pairs: Pairs) -> Float[Tensor, "system pair component *space"]:
    """Gaps closed by the field of least slope through what was measured; 0 on clamped nodes."""
    assert pairs.mask is not None
    fluxes = fluxes_of(pairs.grid, pairs.responses)
    gap = (~pairs.mask).to(pairs.loads) * fluxes.free
    known = torch.where(pairs.mask, pairs.responses, 0) * fluxes.free

    def stiffness(field: Tensor) -> Tensor:
        drops = zip(fluxes.drops(field), fluxes.shapes, strict=True)
        return fluxes.outflow(tuple(drop * shape for drop, shape in drops)) * gap

    diagonal = torch.ones_like(known) * sum(float(shape.mean()) * 2 for shape in fluxes.shapes)
    return known + conjugate_gradients(stiffness, diagonal, -stiffness(known), SMOOTHING)

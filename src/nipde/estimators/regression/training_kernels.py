"""Kernels of training systems without units: each is divided by the response per load of its own pairs.

A prior learned from them meets a new system in the same way, through `Scaling.of` its context: what unit loads and
responses are given in changes the estimate by exactly that unit.
"""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.context.noise import level_like
from nipde.context.pairs import Pairs
from nipde.context.scaling import Scaling
from nipde.errors import KernelError
from nipde.estimators.regression.matrices import columns, row_weights, systems_of
from nipde.grid import Grid
from nipde.kernels.dense import DenseKernel

#: Prior standard deviation of a normalised kernel's amplitude: a context of few pairs fixes its unit no better.
AMPLITUDE = 0.1


def normalised_kernels(pairs: Pairs, kernels: DenseKernel) -> Float[Tensor, "system row column"]:
    """All training kernels in float64; batch axes are joined."""
    if kernels.grid != pairs.grid or kernels.components != pairs.components or kernels.batch != pairs.batch:
        raise KernelError(
            "training kernels do not belong to the training pairs",
            expected=f"kernels {pairs.batch} with components {pairs.components} on {pairs.grid}",
            got=f"{kernels.batch} with {kernels.components} on {kernels.grid}",
            remedy="give one kernel per system, in the same order",
        )
    values = systems_of(kernels.values.double())
    if len(values) < 2:
        raise KernelError(expected="at least 2 training systems", got=len(values), remedy="give more of them")
    scale = Scaling.of(pairs.to(dtype=torch.float64)).kernel.flatten().to(values)
    return values / scale[:, None, None]


@dataclass(frozen=True, eq=False)
class Context:
    """The pairs of one system, normalised: K @ loads = responses + white noise of standard deviation `noise`."""

    #: Loads times quadrature weights.
    loads: Float[Tensor, "column pair"]
    responses: Float[Tensor, "row pair"]
    measured: Tensor | None
    #: None is unknown.
    noise: float | None
    #: Physical kernel over normalised kernel.
    unit: Float[Tensor, ""]

    @classmethod
    def each(cls, pairs: Pairs, *, grid: Grid, components: tuple[int, int]) -> list[Self]:
        """The systems of a batch, for a prior that lives on `grid`."""
        if pairs.grid != grid or pairs.components != components:
            raise KernelError(
                "the pairs do not fit the training kernels",
                expected=f"components {components} on {grid}",
                got=f"{pairs.components} on {pairs.grid}",
                remedy="fit on kernels of this grid, or move the pairs with grid.restrict / grid.interpolate",
            )
        pairs = pairs.to(dtype=torch.float64)
        scaling = Scaling.of(pairs)
        unit = scaling.kernel.flatten()
        pairs = scaling.normalised(pairs)
        loads, responses = columns(pairs.loads, grid=grid), columns(pairs.responses, grid=grid)
        loads = row_weights(loads, grid=grid)[:, None] * loads
        masks, noise = [None] * len(unit), [None] * len(unit)
        if pairs.mask is not None:
            masks = list(systems_of(pairs.mask.expand_as(pairs.responses).flatten(-grid.dimension - 1).mT))
        if pairs.noise is not None:
            noise = level_like(pairs.noise, pairs.loads).broadcast_to(pairs.batch).flatten().tolist()
        parts = (systems_of(loads), systems_of(responses), masks, noise, unit)
        return [cls(*system) for system in zip(*parts, strict=True)]


def stacked(kernels: list[Float[Tensor, "row column"]], *, pairs: Pairs) -> DenseKernel:
    """One kernel per system of the batch, in the pairs' precision."""
    values = torch.stack(kernels).unflatten(0, pairs.batch) if pairs.batch else kernels[0]
    return DenseKernel(pairs.grid, values.to(pairs.loads.dtype))

"""W^P(x, z), NAO's kernel network: an MLP 2·dimension → 32 → 64 → 1 of two positions, at all N² pairs of nodes.

The plain form keeps every hidden value for the backward pass, N² times 192 of them. The tiled form works through a
few rows x at a time while they are in cache, keeps nothing, and computes hidden values again for the
gradient: about half the time, and none of the memory.
"""

from itertools import pairwise
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn.functional import leaky_relu

from nipde.grid import Grid

#: Slope of LeakyReLU below zero.
SLOPE = 0.01
#: Pairs of nodes worked on together: their 64 hidden values fill about half a megabyte.
TILE_PAIRS = 2048

Form = Literal["tiled", "plain"]


class KernelNetwork(nn.Module):
    """Positions are measured in lengths of the box; `form` chooses the order of the work, not the result."""

    places: Tensor

    def __init__(self, grid: Grid, *, form: Form = "tiled") -> None:
        super().__init__()
        sizes = (2 * grid.dimension, 32, 64, 1)
        self.first, self.second, self.third = (nn.Linear(into, out) for into, out in pairwise(sizes))
        self.form = form
        places = [torch.tensor(x / axis.length).flatten() for x, axis in zip(grid.coordinates, grid.axes, strict=True)]
        self.register_buffer("places", torch.stack(places, dim=-1), persistent=False)

    def forward(self) -> Float[Tensor, "node node"]:
        """All N² values."""
        places = self.places.to(self.first.weight)
        if self.form == "tiled" and not torch.compiler.is_compiling():
            # The first layer is linear in both positions: half of it per node instead of all of it per pair.
            of_x, of_z = self.first.weight.chunk(2, dim=1)
            layers = (self.second.weight, self.second.bias, self.third.weight, self.third.bias)
            values: Tensor = _Tiled.apply(  # type: ignore[no-untyped-call]
                places @ of_x.mT + self.first.bias, places @ of_z.mT, *layers
            )
            return values
        x = places[:, None].expand(len(places), *places.shape)
        both = torch.cat([x, x.transpose(0, 1)], dim=-1)
        hidden = leaky_relu(self.first(both), SLOPE)
        return self.third(leaky_relu(self.second(hidden), SLOPE)).squeeze(-1)


class _Tiled(torch.autograd.Function):
    """Second and third layer of h(x) + h(z) for all x and z."""

    @staticmethod
    def forward(ctx: FunctionCtx, of_x: Tensor, of_z: Tensor, *layers: Tensor) -> Tensor:
        ctx.save_for_backward(of_x, of_z, *layers)
        weight, bias = layers[2:]
        tiles = [torch.addmv(bias, _hidden(rows, of_z, *layers[:2])[1], weight[0]) for rows in _tiles(of_x, of_z)]
        return torch.cat(tiles).view(len(of_x), len(of_z))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        of_x, of_z, weight, bias, last_weight, last_bias = ctx.saved_tensors
        sums = [torch.zeros_like(tensor) for tensor in (of_z, weight, bias, last_weight)]
        rows_sums, place = [], 0
        for rows in _tiles(of_x, of_z):
            first, second = _hidden(rows, of_z, weight, bias)
            out = gradient[place : place + len(rows)].reshape(-1, 1)
            place += len(rows)
            sums[3].addmm_(out.mT, second)
            inner = _through(torch.mm(out, last_weight), second)
            sums[1].addmm_(inner.mT, first)
            sums[2].add_(inner.sum(0))
            outer = _through(torch.mm(inner, weight), first).view(len(rows), *of_z.shape)
            rows_sums.append(outer.sum(1))
            sums[0].add_(outer.sum(0))
        return torch.cat(rows_sums), *sums, gradient.sum().expand_as(last_bias)


def _tiles(of_x: Tensor, of_z: Tensor) -> tuple[Tensor, ...]:
    return of_x.split(max(1, TILE_PAIRS // len(of_z)))


def _hidden(rows: Tensor, of_z: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Both hidden layers of some rows, after their activation."""
    first = leaky_relu((rows[:, None] + of_z).flatten(0, 1), SLOPE, inplace=True)
    return first, leaky_relu(torch.addmm(bias, first, weight.mT), SLOPE, inplace=True)


def _through(gradient: Tensor, active: Tensor) -> Tensor:
    """The gradient before a LeakyReLU, from the one behind it; the activation keeps the sign."""
    return torch.ops.aten.leaky_relu_backward(gradient, active, SLOPE, True)

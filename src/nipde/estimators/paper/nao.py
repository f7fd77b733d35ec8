"""NAO, the nonlocal attention operator: attention over tokens, and kernel networks W^P(x, z) in the last layer.

    V⁰ = N₀(tokens),   V^l = V^{l-1} + N_l( s (V^{l-1} W_Q)(V^{l-1} W_K)ᵀ V^{l-1} ),   l = 1 … L-1
    K(x, y) = (1/√d_k) ∫ [ W^{P,u}(x, z) (g(z) W_Q + b_Q) + W^{P,f}(x, z) (v(z) W_Q + b_Q) ] dz · [ g(y) W_K + b_K ]

Variants of the paper: NAO-f normalises over tokens and pairs in every layer (`full_norms`), NAO-W^P adds a learned
token × token projection of the queries to every layer (`token_projections`). The kernel networks alone cost O(N²).
"""

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any, Literal, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.nn.functional import leaky_relu

from nipde.constants import constant
from nipde.estimators.paper.attention import ATTENTIONS, Order, QueryKey
from nipde.estimators.paper.token_model import Factors, TokenConfig, TokenModel
from nipde.grid import Grid

#: Slope of LeakyReLU below zero.
SLOPE = 0.01
#: Pairs of nodes worked on together: their 64 hidden values fill about half a megabyte.
TILE_PAIRS = 2048

Form = Literal["tiled", "plain"]


@dataclass(frozen=True, kw_only=True)
class NAOConfig(TokenConfig):
    """d_k = `channels`; `attention` and `kernel_networks` change times only."""

    kind = "nao"
    channels: int
    full_norms: bool = False
    token_projections: bool = False
    attention: Order = "gram"
    kernel_networks: Form = "tiled"


class NAO(TokenModel):
    """The fields of its config as arguments."""

    Config = NAOConfig
    config: NAOConfig

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        config, layers = self.config, self.config.layers
        self.channels, self.attention = config.channels, ATTENTIONS[config.attention]
        self.maps = nn.ModuleList(QueryKey(self.pairs, self.channels) for _ in range(layers))
        shape = (self.tokens, self.pairs) if config.full_norms else (self.pairs,)
        self.norms = nn.ModuleList(nn.LayerNorm(shape) for _ in range(layers - 1))
        networks = (KernelNetwork(self.grid, form=config.kernel_networks) for _ in range(self.fields))
        self.kernel_networks = nn.ModuleList(networks)
        count = layers if config.token_projections else 0
        self.token_projections = nn.ModuleList(nn.Linear(self.tokens, self.tokens) for _ in range(count))

    def factors(self, tokens: Float[Tensor, "sample token pair"]) -> Factors:
        """Queries integrated against the kernel networks, scaled by 1/√d_k, and keys of the last layer."""
        refined = self.input_norm(tokens)
        scale = self.attention_scale(self.channels)
        *before, last = (cast(QueryKey, maps) for maps in self.maps)
        for layer, (maps, norm) in enumerate(zip(before, self.norms, strict=True)):
            query_tokens = self.projected(layer, refined)
            refined = refined + norm(self.attention(query_tokens, refined, maps.projections(), scale))
        queries = last.query(self.projected(len(before), refined)).unflatten(1, (2, self.components, self.grid.size))
        volume = constant(_shares, self.grid, like=queries).flatten()
        networks = torch.stack([network() for network in self.kernel_networks])
        networks = networks.unflatten(0, (2, self.components)) * (volume / sqrt(self.channels))
        left = torch.einsum("hcxz,bhczk->bcxk", networks, queries).flatten(1, 2)
        return left, last.key(refined[:, : self.tokens // 2])

    def projected(self, layer: int, tokens: Float[Tensor, "sample token pair"]) -> Float[Tensor, "sample token pair"]:
        """NAO-W^P's extra projection of the queries; nothing in the other variants."""
        return self.token_projections[layer](tokens.mT).mT if self.token_projections else tokens


class KernelNetwork(nn.Module):
    """W^P(x, z), an MLP 2·dimension → 32 → 64 → 1 of two positions in lengths of the box, at all N² pairs of nodes.

    `form` chooses the order of the work, not the result. The plain one keeps every hidden value for the backward pass,
    192 N² of them. The tiled one works through a few rows x while they are in cache, keeps nothing, and computes hidden
    values again for the gradient: about half the time, and none of the memory.
    """

    places: Tensor

    def __init__(self, grid: Grid, *, form: Form = "tiled") -> None:
        super().__init__()
        sizes = (2 * grid.dimension, 32, 64, 1)
        self.first, self.second, self.third = (nn.Linear(into, out) for into, out in pairwise(sizes))
        self.form = form
        places = [(x / axis.length).ravel() for x, axis in zip(grid.coordinates, grid.axes, strict=True)]
        self.register_buffer("places", torch.tensor(np.stack(places, axis=-1)), persistent=False)

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


def _shares(grid: Grid) -> Float[np.ndarray, "*space"]:
    """Of every node in the volume."""
    return grid.weights / grid.volume

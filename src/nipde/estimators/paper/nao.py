"""NAO, the nonlocal attention operator: attention over tokens, and kernel networks W^P(x, z) in the last layer.

    V⁰ = N₀(tokens),   V^l = V^{l-1} + N_l( s (V^{l-1} W_Q)(V^{l-1} W_K)ᵀ V^{l-1} ),   l = 1 … L-1
    K(x, y) = (1/√d_k) ∫ [ W^{P,u}(x, z) (g(z) W_Q + b_Q) + W^{P,f}(x, z) (v(z) W_Q + b_Q) ] dz · [ g(y) W_K + b_K ]

Variants of the paper: NAO-f normalises over tokens and pairs in every layer (`full_norms`), NAO-W^P adds a learned
token × token projection of the queries to every layer (`token_projections`). The kernel networks alone cost O(N²).
"""

from dataclasses import dataclass
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nipde.estimators.base import ModelConfig
from nipde.estimators.paper.attention import ATTENTIONS, Order, QueryKey
from nipde.estimators.paper.kernel_network import Form, KernelNetwork
from nipde.estimators.paper.token_model import TokenModel
from nipde.grid import Grid


@dataclass(frozen=True)
class NAOConfig(ModelConfig):
    """d = `pairs`, d_k = `channels`, L = `layers`; `attention` and `kernel_networks` change times only."""

    kind = "nao"
    grid: Grid
    pairs: int
    channels: int
    layers: int
    components: int = 1
    full_norms: bool = False
    token_projections: bool = False
    attention: Order = "gram"
    kernel_networks: Form = "tiled"


class NAO(TokenModel):
    """The fields of its config as arguments."""

    Config = NAOConfig

    def __init__(
        self,
        grid: Grid,
        *,
        pairs: int,
        channels: int,
        layers: int,
        components: int = 1,
        full_norms: bool = False,
        token_projections: bool = False,
        attention: Order = "gram",
        kernel_networks: Form = "tiled",
    ) -> None:
        super().__init__(grid, pairs=pairs, components=components)
        self.config = NAOConfig(
            grid, pairs, channels, layers, components, full_norms, token_projections, attention, kernel_networks
        )
        self.channels, self.attention = channels, ATTENTIONS[attention]
        self.maps = nn.ModuleList(QueryKey(pairs, channels) for _ in range(layers))
        shape = (self.tokens, pairs) if full_norms else (pairs,)
        self.norms = nn.ModuleList(nn.LayerNorm(shape) for _ in range(layers - 1))
        self.kernel_networks = nn.ModuleList(KernelNetwork(grid, form=kernel_networks) for _ in range(self.fields))
        count = layers if token_projections else 0
        self.token_projections = nn.ModuleList(nn.Linear(self.tokens, self.tokens) for _ in range(count))

    def factors(
        self, tokens: Float[Tensor, "sample token pair"]
    ) -> tuple[Float[Tensor, "sample token rank"], Float[Tensor, "sample token rank"]]:
        """Queries integrated against the kernel networks, scaled by 1/√d_k, and keys of the last layer."""
        refined = self.input_norm(tokens)
        scale = self.attention_scale(self.channels)
        *before, last = self.query_keys()
        for layer, (maps, norm) in enumerate(zip(before, self.norms, strict=True)):
            asking = self.projected(layer, refined)
            refined = refined + norm(self.attention(asking, refined, maps.projections(), scale))
        queries = last.query(self.projected(len(before), refined)).unflatten(1, (2, self.components, self.grid.size))
        volume = queries.new_tensor(self.grid.weights / self.grid.volume).flatten()
        networks = torch.stack([network() for network in self.kernel_networks])
        networks = networks.unflatten(0, (2, self.components)) * (volume / sqrt(self.channels))
        left = torch.einsum("hcxz,bhczk->bcxk", networks, queries).flatten(1, 2)
        return left, last.key(refined[:, : self.tokens // 2])

    def query_keys(self) -> list[QueryKey]:
        """The maps of every layer."""
        return [maps for maps in self.maps if isinstance(maps, QueryKey)]

    def projected(self, layer: int, tokens: Float[Tensor, "sample token pair"]) -> Float[Tensor, "sample token pair"]:
        """NAO-W^P's extra projection of what asks; nothing in the other variants."""
        return self.token_projections[layer](tokens.mT).mT if self.token_projections else tokens

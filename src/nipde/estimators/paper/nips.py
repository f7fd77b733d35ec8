"""NIPS (ICML 2025): linear attention whose queries are convolved by a learned Fourier multiplier.

    V⁰ = N₀(tokens),   V^l = V^{l-1} + N_l( s (R_l∘V^{l-1} W_Q)(V^{l-1} W_K)ᵀ V^{l-1} ),   l = 1 … L-1
    K(x, y) = (1/√d_k) [ (R_f∘g + R_u∘v)(x) W_Q + b_Q ] · [ g(y) W_K + b_K ],   V^{L-1} = (g, v)

R∘V = F⁻¹(R · F V). The batch is worked through in tiles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nipde.context.pairs import Pairs
from nipde.context.scaling import Scaling
from nipde.estimators.base import Model
from nipde.estimators.paper.attention import QueryKey, coupling
from nipde.estimators.paper.fourier_attention import fourier_attention, fourier_factors
from nipde.estimators.paper.token_model import Factors, TokenConfig, TokenModel
from nipde.kernels.nonlinear import PreprocessedPredictor
from nipde.spectral.filter import SpectralFilter

#: Samples are worked through together while their tokens take about this much memory; see docs/explanation/design.md.
TILE_BYTES = 4_000_000


@dataclass(frozen=True, kw_only=True)
class NIPSConfig(TokenConfig):
    """d_k = `channels`; `modes` per axis are retained, all by default."""

    kind = "nips"
    channels: int
    modes: Sequence[int] | None = None


class NIPSLayer(nn.Module):
    """The parameters of one layer; the last layer has no norm."""

    def __init__(self, config: NIPSConfig, *, normed: bool) -> None:
        super().__init__()
        self.maps = QueryKey(config.pairs, config.channels)
        self.filter = SpectralFilter(config.grid.shape, fields=2 * config.components, modes=config.modes)
        self.norm = nn.LayerNorm(config.pairs) if normed else None


class NIPS(TokenModel):
    """The fields of its config as arguments."""

    Config = NIPSConfig
    config: NIPSConfig

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.channels, last = self.config.channels, self.config.layers - 1
        self.layers = nn.ModuleList(NIPSLayer(self.config, normed=place < last) for place in range(last + 1))

    def factors(self, tokens: Float[Tensor, "sample token pair"]) -> Factors:
        """Queries (scaled by 1/√d_k) and keys of the last layer."""
        layers = [cast(NIPSLayer, layer) for layer in self.layers]
        blocks = [layer.filter.blocks() for layer in layers]
        scale = self.attention_scale(self.channels)
        couplings = [coupling(layer.maps.projections(), scale) for layer in layers[:-1]]
        if torch.compiler.is_compiling():
            return self._tile(tokens, layers, blocks, couplings)  # a traced batch has no size to cut
        together = max(1, TILE_BYTES // (tokens[0].numel() * tokens.element_size()))
        tiles = [self._tile(tile, layers, blocks, couplings) for tile in tokens.split(together)]
        left, right = zip(*tiles, strict=True)
        return torch.cat(left), torch.cat(right)

    def _tile(self, tokens: Tensor, layers: list[NIPSLayer], blocks: list[Tensor], couplings: list[Tensor]) -> Factors:
        """The whole network on a few samples; inside, tokens are (field, *space, sample, pair)."""
        samples, last = tokens.shape[0], layers[-1]
        matrices = last.filter.matrices(tokens)
        refined = self.input_norm(tokens).transpose(0, 1).reshape(self.fields, *self.grid.shape, samples, self.pairs)
        for layer, block, couple in zip(layers, blocks, couplings, strict=False):
            attended = fourier_attention(refined, block, couple, matrices=matrices)
            if layer.norm is not None:
                refined = layer.norm(attended).add_(refined)
        maps, shrink = last.maps.projections(), 1 / sqrt(self.channels)
        maps = maps._replace(query=maps.query * shrink, query_bias=maps.query_bias * shrink)
        factors = fourier_factors(refined, blocks[-1], maps, matrices=matrices)
        left, right = (factor.flatten(0, -3).transpose(0, 1) for factor in factors)
        return left, right


@dataclass(frozen=True, kw_only=True)
class NIPSMLPConfig(NIPSConfig):
    """NIPS, and the width of the network in front; a quarter of a load's values by default."""

    kind = "nips-mlp"
    hidden: int | None = None


class NIPSMLP(Model):
    """NIPS-mlp: loads pass a two-layer network with skip before the kernel; the predictor is not linear in the load."""

    Config = NIPSMLPConfig
    config: NIPSMLPConfig
    exportable = True

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.nips = NIPS.from_config(self.config)
        tokens = self.config.components * self.config.grid.size
        hidden = tokens // 4 if self.config.hidden is None else self.config.hidden
        self.mixer = nn.Sequential(nn.Linear(tokens, hidden), nn.LeakyReLU(), nn.Linear(hidden, tokens))

    def forward(self, pairs: Pairs) -> PreprocessedPredictor:
        """The kernel, acting on f + MLP(f); the network sees loads in units of the context's root mean square."""
        scaling = Scaling.of(pairs)
        return PreprocessedPredictor(pairs.grid, self.nips.kernel_of(pairs, scaling), self.mixed, scaling.load)

    def mixed(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> Tensor:
        """f + MLP(f), over all tokens of a load at once."""
        flat = loads.flatten(-self.nips.grid.dimension - 1).to(next(self.parameters()))
        return (flat + self.mixer(flat)).view_as(loads)

"""NIPS (ICML 2025): linear attention whose queries are convolved by a learned Fourier multiplier.

    V⁰ = N₀(tokens),   V^l = V^{l-1} + N_l( s (R_l∘V^{l-1} W_Q)(V^{l-1} W_K)ᵀ V^{l-1} ),   l = 1 … L-1
    K(x, y) = (1/√d_k) [ (R_f∘g + R_u∘v)(x) W_Q + b_Q ] · [ g(y) W_K + b_K ],   V^{L-1} = (g, v)

R∘V = F⁻¹(R · F V). The batch is worked through in tiles; the rows of a grid may be spread over processes (`Partition`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from nipde.context.pairs import Pairs
from nipde.context.scaling import Scaling
from nipde.estimators.base import Model
from nipde.estimators.paper.attention import Projections, QueryKey, coupling
from nipde.estimators.paper.fourier_attention import fourier_attention, fourier_factors
from nipde.estimators.paper.row_tiles import Layers, tiled_factors
from nipde.estimators.paper.token_model import Factors, TokenConfig, TokenModel
from nipde.kernels.nonlinear import PreprocessedPredictor
from nipde.spectral.filter import SpectralFilter
from nipde.spectral.partition import Partition

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
    #: Rows of the grid that are worked through together to save memory, see `row_tiles`; all of them if None.
    tile_rows: int | None = None

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.channels, last = self.config.channels, self.config.layers - 1
        self.layers = nn.ModuleList(NIPSLayer(self.config, normed=place < last) for place in range(last + 1))

    def factors(self, tokens: Float[Tensor, "sample token pair"], *, partition: Partition | None = None) -> Factors:
        """Queries (scaled by 1/√d_k) and keys of the last layer; tokens and factors of a partition's rows."""
        partition = Partition(self.grid) if partition is None else partition
        layers = self._layers(tokens, partition)
        if torch.compiler.is_compiling():
            return self._tile(tokens, layers, partition)  # a traced batch has no size to cut
        # Alike on all processes, also where their parts are not.
        together = max(1, TILE_BYTES * partition.parts // (self.tokens * self.pairs * tokens.element_size()))
        tiles = [self._tile(tile, layers, partition) for tile in tokens.split(together)]
        if self.tile_rows is not None and len(tiles) == 1:
            return tiles[0]  # contiguous as it is, and too large to copy
        left, right = zip(*tiles, strict=True)
        return torch.cat(left), torch.cat(right)

    def _layers(self, like: Tensor, partition: Partition) -> Layers:
        """What acts on modes is the same on all processes; what acts on tokens, each applies to its own rows."""
        *before, last = (cast(NIPSLayer, layer) for layer in self.layers)
        scale, shrink = self.attention_scale(self.channels), 1 / sqrt(self.channels)
        norms = [gain for layer in before if layer.norm is not None for gain in (layer.norm.weight, layer.norm.bias)]
        *local, gain, shift = partition.copied(
            *norms, *last.maps.projections(), self.input_norm.weight, self.input_norm.bias
        )
        maps = Projections(*local[-4:])
        return Layers(
            gains=(gain, shift),
            blocks=[layer.filter.blocks() for layer in (*before, last)],
            couplings=[coupling(layer.maps.projections(), scale) for layer in before],
            norms=list(zip(local[:-4:2], local[1:-4:2], strict=True)),
            maps=maps._replace(query=maps.query * shrink, query_bias=maps.query_bias * shrink),
            matrices=partition.cut_matrices(last.filter.matrices(like)),
        )

    def _tile(self, tokens: Tensor, layers: Layers, partition: Partition) -> Factors:
        """The whole network on a few samples; inside, tokens are (field, *space, sample, pair)."""
        if self.tile_rows is not None:
            norm = self.input_norm.on(tokens, layers.gains, partition=partition)
            return tiled_factors(tokens, layers, norm=norm, partition=partition, rows=self.tile_rows)
        shape = (self.fields, *partition.shape, tokens.shape[0], self.pairs)
        if partition.group is None and partition.whole:
            refined = self.input_norm(tokens).transpose(0, 1).reshape(shape)
        else:
            norm = self.input_norm.on(tokens, layers.gains, partition=partition)
            refined = norm(tokens.transpose(0, 1).reshape(shape))
        for block, couple, gains in zip(layers.blocks, layers.couplings, layers.norms, strict=False):
            attended = fourier_attention(refined, block, couple, matrices=layers.matrices, partition=partition)
            refined = layer_norm(attended, attended.shape[-1:], *gains).add_(refined)
        factors = fourier_factors(
            refined, layers.blocks[-1], layers.maps, matrices=layers.matrices, partition=partition
        )
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

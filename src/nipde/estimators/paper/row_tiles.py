"""NIPS a few rows at a time, for large grids: no field of the network is kept for backward.

    V^l = N₀(tokens) + Σ_{j < l} N_j(F⁻¹ Z_j)

A layer adds a synthesis of its retained modes, so tokens of any rows and layer follow from the input and the modes Z_j
of the layers before. Every layer sweeps over tiles of rows and adds up its Y = F V and G = VᵀV; tiles are checkpointed
and made again in backward. Memory beyond input and kernel is that of one tile and of the modes. A sweep makes all
layers before it again, so that L layers cost about L/2 times the syntheses of a pass that keeps everything: worth it
where memory, not time, is the limit, and where few modes are retained.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor, cat
from torch.nn.functional import layer_norm, linear
from torch.utils.checkpoint import checkpoint

from nipde.estimators.paper.attention import Projections
from nipde.estimators.paper.fourier_attention import Tokens, mixed_modes
from nipde.estimators.paper.input_norm import PartNorm
from nipde.spectral.partition import Partition
from nipde.spectral.waves import Coefficients, Matrices, analysis, synthesis


class Layers(NamedTuple):
    """What a pass through NIPS needs of its layers."""

    #: Gain and shift of the first norm, of the whole grid.
    gains: tuple[Tensor, Tensor]
    #: Of all filters.
    blocks: list[Tensor]
    #: Of all layers but the last.
    couplings: list[Tensor]
    #: Gain and shift of the same layers.
    norms: list[tuple[Tensor, Tensor]]
    #: Of the last layer, queries scaled by 1/√d_k.
    maps: Projections
    #: On the rows of the partition.
    matrices: Matrices


def tiled_factors(
    tokens: Float[Tensor, "sample token pair"],
    layers: Layers,
    *,
    norm: PartNorm,
    partition: Partition,
    rows: int,
) -> tuple[Float[Tensor, "sample token rank"], Float[Tensor, "sample token rank"]]:
    """Queries and keys of the last layer, `rows` of the grid at a time."""
    sweep = _Sweep(tokens.unflatten(1, (-1, *partition.shape)), layers, norm, rows)
    waves: list[Coefficients] = []
    for block, couple in zip(layers.blocks, layers.couplings, strict=False):
        modes, gram = partition.summed(*sweep.added(_sums, waves))
        mixed = mixed_modes(modes, gram, block, couple, nodes=partition.grid.size)
        waves += partition.copied(mixed)
    modes, _ = partition.summed(*sweep.added(_sums, waves))
    loads, responses = (layers.blocks[-1] @ modes).chunk(2)
    (queried,) = partition.copied(loads + responses)
    tiles = [sweep.of(part, _factors, waves, queried) for part in sweep.parts()]
    left, right = (cat(each, dim=2).flatten(1, -2) for each in zip(*tiles, strict=True))
    return left, right


@dataclass(frozen=True, eq=False)
class _Sweep:
    tokens: Float[Tensor, "sample field *rows pair"]
    layers: Layers
    norm: PartNorm
    rows: int

    def parts(self) -> Iterator[slice]:
        """Tiles of rows."""
        total = self.tokens.shape[2]
        return (slice(start, min(start + self.rows, total)) for start in range(0, total, self.rows))

    def of(self, part: slice, work: Callable[..., Any], waves: list[Coefficients], *more: Tensor) -> Any:
        """Some work on the refined tokens of a tile; all of it is done again in backward."""

        def made(*waves: Tensor) -> Any:
            matrices = (self.layers.matrices[0][:, part], *self.layers.matrices[1:])
            return work(self._refined(part, matrices, waves), matrices, self.layers.maps, *more)

        return checkpoint(made, *waves, use_reentrant=False, preserve_rng_state=False)

    def added(self, work: Callable[..., Any], waves: list[Coefficients]) -> tuple[Tensor, ...]:
        """The sum of some work over all tiles."""
        return tuple(sum(each) for each in zip(*(self.of(part, work, waves) for part in self.parts()), strict=True))

    def _refined(self, part: slice, matrices: Matrices, waves: tuple[Tensor, ...]) -> Tokens:
        refined = self.norm(self.tokens[:, :, part].movedim(0, -2), part)
        for wave, gains in zip(waves, self.layers.norms, strict=False):
            refined = refined + layer_norm(synthesis(wave, matrices).view_as(refined), refined.shape[-1:], *gains)
        return refined


def _sums(refined: Tokens, matrices: Matrices, maps: Projections) -> tuple[Tensor, Tensor]:
    """Y and G."""
    flat = refined.flatten(0, -3).transpose(0, 1)
    return analysis(refined.flatten(-2), matrices), flat.mT @ flat


def _factors(refined: Tokens, matrices: Matrices, maps: Projections, queried: Coefficients) -> tuple[Tensor, Tensor]:
    """Queries and keys at the rows of a tile, (sample, component, *rows, rank)."""
    loads = refined.chunk(2)[0]
    convolved = synthesis(queried, matrices).view_as(loads)
    return linear(convolved, *maps[:2]).movedim(-2, 0), linear(loads, *maps[2:]).movedim(-2, 0)

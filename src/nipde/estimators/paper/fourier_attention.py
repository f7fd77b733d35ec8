"""One NIPS layer's attention, out = (R∘V W_Q) · s (V W_K)ᵀ V, in real arithmetic and without any token × token matrix.

R∘V is the convolution F⁻¹(R · F V). With the Gram matrix G = VᵀV and the sum σ = Vᵀ1 of the tokens,

    analysis:   Y = F V,  G,  σ                    (σ is the mean wave of Y)
    d × d:      M = s W_Q (W_Kᵀ G + b_K σᵀ),  m = s b_Q (W_Kᵀ G + b_K σᵀ)
    mode mix:   Z = (R Y) M,  mean wave += m
    synthesis:  out = F⁻¹ Z

so the multiplier acts on modes, M mixes the channels of modes, and the tokens are touched by products only. Rows of a
grid spread over processes (`Partition`) meet in (Y, G) forward and in the gradient of Z backward, and nowhere else.

Tokens are `(field, *space, sample, pair)`. `fourier_attention` is one autograd function with its backward written
out; its oracle, in five lines, is among the tests. The last layer ends in the two factors of the kernel,
`fourier_factors`.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from nipde.estimators.paper.attention import Projections
from nipde.spectral.partition import Partition
from nipde.spectral.waves import Coefficients, Matrices, analysis, synthesis

Tokens = Float[Tensor, "field *space sample pair"]
#: Of `SpectralFilter`.
Blocks = Float[Tensor, "field mode parity parity"]


def fourier_attention(
    tokens: Tokens,
    blocks: Blocks,
    coupling: Float[Tensor, "pair+1 pair+1"],
    *,
    matrices: Matrices,
    partition: Partition,
) -> Tokens:
    """The attention of one layer, from `attention.coupling` of its maps; tokens and matrices of a partition's rows."""
    # Tracers get whole operations, without any written in place; the gradient written out is that of whole grids.
    if torch.compiler.is_compiling() or not partition.whole:
        rows = _rows(tokens).transpose(0, 1)
        sums = analysis(tokens.flatten(-2), matrices), torch.cat([rows.mT @ rows, rows.sum(1, keepdim=True)], dim=1)
        modes, moments = partition.summed(*sums)
        filtered, mixer = partition.copied(blocks @ modes, coupling @ moments)
        convolved = synthesis(filtered, matrices).view_as(tokens)
        return (_rows(convolved).transpose(0, 1) @ mixer[:, :-1] + mixer[:, -1:]).transpose(0, 1).reshape(tokens.shape)
    out: Tensor = _FourierAttention.apply(  # type: ignore[no-untyped-call]
        tokens, blocks, coupling, matrices, partition
    )
    return out


def mixed_modes(
    modes: Coefficients,
    gram: Float[Tensor, "sample pair pair"],
    blocks: Blocks,
    coupling: Float[Tensor, "pair+1 pair+1"],
    *,
    nodes: int,
) -> Coefficients:
    """Z of one layer from Y and G, by autograd alone."""
    samples, pairs = gram.shape[:2]
    total = modes[:, 0, 0].view(-1, samples, pairs).sum(0) * nodes**0.5
    mixer = coupling @ torch.cat([gram, total[:, None]], dim=1)
    rows = (blocks @ modes).reshape(-1, samples, pairs).transpose(0, 1) @ mixer[:, :-1]
    mixed = rows.transpose(0, 1).reshape(modes.shape)
    mixed[:, 0, 0] += mixer[:, -1].flatten() * nodes**0.5
    return mixed


def fourier_factors(
    tokens: Tokens, blocks: Blocks, weights: Projections, *, matrices: Matrices, partition: Partition
) -> tuple[Float[Tensor, "component *space sample channel"], Float[Tensor, "component *space sample channel"]]:
    """The last layer: queries (R_f∘g + R_u∘v) W_Q + b_Q, summed as modes before synthesis, and keys g W_K + b_K."""
    half = tokens.chunk(2)[0]
    (modes,) = partition.summed(analysis(tokens.flatten(-2), matrices))
    loads, responses = (blocks @ modes).chunk(2)
    (queried,) = partition.copied(loads + responses)
    convolved = synthesis(queried, matrices).view_as(half)
    return linear(convolved, *weights[:2]), linear(half, *weights[2:])


class _FourierAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, blocks: Tensor, coupling: Tensor, matrices: Matrices, partition: Partition
    ) -> Tensor:
        rows, root = _rows(tokens), partition.grid.size**0.5
        modes, gram = partition.sum(analysis(tokens.flatten(-2), matrices), _cross(rows, rows))
        total = _mean_wave(modes, tokens).sum(0) * root
        moments = torch.cat([gram, total[:, None]], dim=1)  # G and σ of every sample
        mixer = coupling @ moments  # M and m
        mixed = _mix(blocks @ modes, mixer[:, :-1], tokens)
        _mean_wave(mixed, tokens).add_(mixer[:, -1], alpha=root)
        ctx.save_for_backward(tokens, modes, blocks, coupling, moments, mixer)
        ctx.matrices, ctx.partition = matrices, partition
        return synthesis(mixed, matrices).view_as(tokens)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> Any:
        tokens, modes, blocks, coupling, moments, mixer = ctx.saved_tensors
        root = ctx.partition.grid.size**0.5
        (d_mixed,) = ctx.partition.sum(analysis(above.flatten(-2), ctx.matrices))
        d_shift = _mean_wave(d_mixed, tokens).sum(0) * root
        d_gram = _cross(_rows(blocks @ modes, tokens), _rows(d_mixed, tokens))
        d_mixer = torch.cat([d_gram, d_shift[:, None]], dim=1)
        d_filtered = _mix(d_mixed, mixer[:, :-1].mT, tokens)
        d_modes = blocks.mT @ d_filtered
        d_moments = coupling.T @ d_mixer
        _mean_wave(d_modes, tokens).add_(d_moments[:, -1], alpha=root)
        d_tokens = synthesis(d_modes, ctx.matrices).view_as(tokens)
        d_gram = d_moments[:, :-1]
        _rows(d_tokens).transpose(0, 1).baddbmm_(_rows(tokens).transpose(0, 1), d_gram + d_gram.mT)
        return d_tokens, d_filtered @ modes.mT, torch.einsum("bie,bje->ij", d_mixer, moments), None, None


def _rows(values: Tensor, like: Tensor | None = None) -> Float[Tensor, "row sample pair"]:
    """All tokens, or all modes, of every sample."""
    return values.reshape(-1, *(values if like is None else like).shape[-2:])


def _mean_wave(modes: Tensor, tokens: Tensor) -> Float[Tensor, "field sample pair"]:
    """A view of the constant wave's coefficients; the wave is 1/√nodes everywhere, so times √nodes they are sums."""
    return modes[:, 0, 0].view(-1, *tokens.shape[-2:])


# Products sample by sample: samples stand side by side in memory, and BLAS reads and writes them in place.


def _cross(left: Tensor, right: Tensor) -> Float[Tensor, "sample pair pair"]:
    return torch.bmm(left.permute(1, 2, 0), right.transpose(0, 1))


def _mix(values: Tensor, mixer: Float[Tensor, "sample pair pair"], tokens: Tensor) -> Tensor:
    mixed = torch.empty_like(values)
    rows, into = (_rows(part, tokens).transpose(0, 1) for part in (values, mixed))
    torch.bmm(rows, mixer, out=into)
    return mixed

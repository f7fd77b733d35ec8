"""One NIPS layer's attention, out = (R∘V W_Q) · s (V W_K)ᵀ V, in real arithmetic and without any token × token matrix.

R∘V is the convolution F⁻¹(R · F V). With the Gram matrix G = VᵀV and the sum σ = Vᵀ1 of the tokens,

    analysis:   Y = F V,  G,  σ                    (σ is the mean wave of Y)
    d × d:      M = s W_Q (W_Kᵀ G + b_K σᵀ),  m = s b_Q (W_Kᵀ G + b_K σᵀ)
    mode mix:   Z = (R Y) M,  mean wave += m
    synthesis:  out = F⁻¹ Z

so the multiplier acts on modes, M mixes the channels of modes, and the tokens are touched by products only. Rows of a
grid spread over devices meet in (Y, G) forward and in their gradients backward, and nowhere else.

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
from nipde.spectral.waves import Matrices, analysis, synthesis

Tokens = Float[Tensor, "field *space sample pair"]
#: Of `SpectralFilter`.
Blocks = Float[Tensor, "field mode parity parity"]


def fourier_attention(
    tokens: Tokens, blocks: Blocks, coupling: Float[Tensor, "pair+1 pair+1"], *, matrices: Matrices
) -> Tokens:
    """The attention of one layer, from `attention.coupling` of its maps."""
    if torch.compiler.is_compiling():  # tracers get whole operations, without any written in place
        rows = _rows(tokens).transpose(0, 1)
        convolved = synthesis(blocks @ analysis(tokens.flatten(-2), matrices), matrices).view_as(tokens)
        mixer = coupling @ torch.cat([rows.mT @ rows, rows.sum(1, keepdim=True)], dim=1)
        return (_rows(convolved).transpose(0, 1) @ mixer[:, :-1] + mixer[:, -1:]).transpose(0, 1).reshape(tokens.shape)
    out: Tensor = _FourierAttention.apply(tokens, blocks, coupling, matrices)  # type: ignore[no-untyped-call]
    return out


def fourier_factors(
    tokens: Tokens, blocks: Blocks, weights: Projections, *, matrices: Matrices
) -> tuple[Float[Tensor, "component *space sample channel"], Float[Tensor, "component *space sample channel"]]:
    """The last layer: queries (R_f∘g + R_u∘v) W_Q + b_Q, summed as modes before synthesis, and keys g W_K + b_K."""
    half = tokens.chunk(2)[0]
    loads, responses = (blocks @ analysis(tokens.flatten(-2), matrices)).chunk(2)
    convolved = synthesis(loads + responses, matrices).view_as(half)
    return linear(convolved, *weights[:2]), linear(half, *weights[2:])


class _FourierAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, blocks: Tensor, coupling: Tensor, matrices: Matrices) -> Tensor:
        modes, rows = analysis(tokens.flatten(-2), matrices), _rows(tokens)
        total = _mean_wave(modes, tokens).sum(0) * _root_nodes(tokens)
        moments = torch.cat([_cross(rows, rows), total[:, None]], dim=1)  # G and σ of every sample
        mixer = coupling @ moments  # M and m
        mixed = _mix(blocks @ modes, mixer[:, :-1], tokens)
        _mean_wave(mixed, tokens).add_(mixer[:, -1], alpha=_root_nodes(tokens))
        ctx.save_for_backward(tokens, modes, blocks, coupling, moments, mixer)
        ctx.matrices = matrices
        return synthesis(mixed, matrices).view_as(tokens)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> Any:
        tokens, modes, blocks, coupling, moments, mixer = ctx.saved_tensors
        d_mixed = analysis(above.flatten(-2), ctx.matrices)
        d_shift = _mean_wave(d_mixed, tokens).sum(0) * _root_nodes(tokens)
        d_gram = _cross(_rows(blocks @ modes, tokens), _rows(d_mixed, tokens))
        d_mixer = torch.cat([d_gram, d_shift[:, None]], dim=1)
        d_filtered = _mix(d_mixed, mixer[:, :-1].mT, tokens)
        d_modes = blocks.mT @ d_filtered
        d_moments = coupling.T @ d_mixer
        _mean_wave(d_modes, tokens).add_(d_moments[:, -1], alpha=_root_nodes(tokens))
        d_tokens = synthesis(d_modes, ctx.matrices).view_as(tokens)
        d_gram = d_moments[:, :-1]
        _rows(d_tokens).transpose(0, 1).baddbmm_(_rows(tokens).transpose(0, 1), d_gram + d_gram.mT)
        return d_tokens, d_filtered @ modes.mT, torch.einsum("bie,bje->ij", d_mixer, moments), None


def _rows(values: Tensor, like: Tensor | None = None) -> Float[Tensor, "row sample pair"]:
    """All tokens, or all modes, of every sample."""
    return values.reshape(-1, *(values if like is None else like).shape[-2:])


def _root_nodes(tokens: Tensor) -> float:
    """√(number of nodes): the mean wave is its inverse everywhere."""
    return float(tokens[0, ..., 0, 0].numel()) ** 0.5


def _mean_wave(modes: Tensor, tokens: Tensor) -> Float[Tensor, "field sample pair"]:
    """A view of the constant wave's coefficients; times √nodes they are sums over a field."""
    return modes[:, 0, 0].view(-1, *tokens.shape[-2:])


# Products sample by sample: samples stand side by side in memory, and BLAS reads and writes them in place.


def _cross(left: Tensor, right: Tensor) -> Float[Tensor, "sample pair pair"]:
    return torch.bmm(left.permute(1, 2, 0), right.transpose(0, 1))


def _mix(values: Tensor, mixer: Float[Tensor, "sample pair pair"], tokens: Tensor) -> Tensor:
    mixed = torch.empty_like(values)
    rows, into = (_rows(part, tokens).transpose(0, 1) for part in (values, mixed))
    torch.bmm(rows, mixer, out=into)
    return mixed

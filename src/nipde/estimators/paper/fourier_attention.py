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
from nipde.spectral.waves import Matrices, Scratch, analysis, synthesis


def fourier_attention(
    tokens: Float[Tensor, "field *space sample pair"],
    blocks: Float[Tensor, "field mode parity parity"],
    coupling: Float[Tensor, "pair+1 pair+1"],
    *,
    matrices: Matrices,
    scratch: Scratch | None = None,
) -> Float[Tensor, "field *space sample pair"]:
    """The same, fast, from `attention.coupling` of the layer's maps; layers and tiles may share one `scratch`."""
    if torch.compiler.is_compiling():  # tracers get whole operations, without any written in place
        rows = _rows(tokens).transpose(0, 1)
        convolved = synthesis(blocks @ analysis(tokens.flatten(-2), matrices), matrices).view_as(tokens)
        mixer = coupling @ torch.cat([rows.mT @ rows, rows.sum(1, keepdim=True)], dim=1)
        return (_rows(convolved).transpose(0, 1) @ mixer[:, :-1] + mixer[:, -1:]).transpose(0, 1).reshape(tokens.shape)
    scratch = Scratch() if scratch is None else scratch
    out: Tensor = _FourierAttention.apply(tokens, blocks, coupling, matrices, scratch)  # type: ignore[no-untyped-call]
    return out


def fourier_factors(
    tokens: Float[Tensor, "field *space sample pair"],
    blocks: Float[Tensor, "field mode parity parity"],
    weights: Projections,
    *,
    matrices: Matrices,
    scratch: Scratch | None = None,
) -> tuple[Float[Tensor, "component *space sample channel"], Float[Tensor, "component *space sample channel"]]:
    """The last layer: queries (R_f∘g + R_u∘v) W_Q + b_Q, summed as modes before synthesis, and keys g W_K + b_K."""
    if torch.compiler.is_compiling():
        loads, responses = synthesis(blocks @ analysis(tokens.flatten(-2), matrices), matrices).chunk(2)
        convolved = (loads + responses).view_as(tokens.chunk(2)[0])
        return linear(convolved, weights.query, weights.query_bias), linear(tokens.chunk(2)[0], *weights[2:])
    scratch = Scratch() if scratch is None else scratch
    out: tuple[Tensor, Tensor] = _FourierFactors.apply(tokens, blocks, *weights, matrices, scratch)  # type: ignore[no-untyped-call]
    return out


class _FourierAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, blocks: Tensor, coupling: Tensor, matrices: Matrices, scratch: Scratch
    ) -> Tensor:
        modes, rows = analysis(tokens.flatten(-2), matrices, scratch), _rows(tokens)
        total = _mean_wave(modes, tokens).sum(0) * _root_nodes(tokens)
        moments = torch.cat([_cross(rows, rows), total[:, None]], dim=1)  # G and σ of every sample
        mixer = coupling @ moments  # M and m
        filtered = _filter(blocks, modes, scratch("filtered", modes, *modes.shape))
        mixed = _mix(filtered, mixer[:, :-1], tokens, scratch("mixed", modes, *modes.shape))
        _mean_wave(mixed, tokens).add_(mixer[:, -1], alpha=_root_nodes(tokens))
        ctx.save_for_backward(tokens, modes, blocks, coupling, moments, mixer)
        ctx.matrices, ctx.scratch = matrices, scratch
        return synthesis(mixed, matrices, scratch).view_as(tokens)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> Any:
        tokens, modes, blocks, coupling, moments, mixer = ctx.saved_tensors
        matrices, scratch = ctx.matrices, ctx.scratch
        first, second = (scratch(name, modes, *modes.shape) for name in ("filtered", "mixed"))
        d_mixed = analysis(above.flatten(-2), matrices, scratch)
        d_shift = _mean_wave(d_mixed, tokens).sum(0) * _root_nodes(tokens)
        filtered = _filter(blocks, modes, first)
        d_mixer = torch.cat([_cross(_rows(filtered, tokens), _rows(d_mixed, tokens)), d_shift[:, None]], dim=1)
        d_filtered = _mix(d_mixed, mixer[:, :-1].mT, tokens, second)
        d_blocks = d_filtered @ modes.mT
        d_modes = _filter(blocks.mT, d_filtered, first)
        d_moments = coupling.T @ d_mixer
        _mean_wave(d_modes, tokens).add_(d_moments[:, -1], alpha=_root_nodes(tokens))
        d_tokens = synthesis(d_modes, matrices, scratch).view_as(tokens)
        d_gram = d_moments[:, :-1]
        _rows(d_tokens).transpose(0, 1).baddbmm_(_rows(tokens).transpose(0, 1), d_gram + d_gram.mT)
        return d_tokens, d_blocks, torch.einsum("bie,bje->ij", d_mixer, moments), None, None


class _FourierFactors(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tokens: Tensor,
        blocks: Tensor,
        query: Tensor,
        query_bias: Tensor,
        key: Tensor,
        key_bias: Tensor,
        matrices: Matrices,
        scratch: Scratch,
    ) -> tuple[Tensor, Tensor]:
        modes = analysis(tokens.flatten(-2), matrices, scratch)
        loads, responses = _filter(blocks, modes, scratch("filtered", modes, *modes.shape)).chunk(2)
        half = tokens.chunk(2)[0]
        convolved = synthesis(loads.add_(responses), matrices, scratch).view_as(half)
        ctx.save_for_backward(tokens, modes, convolved, blocks, query, key)
        ctx.matrices, ctx.scratch = matrices, scratch
        return linear(convolved, query, query_bias), linear(half, key, key_bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_queries: Tensor, d_keys: Tensor) -> Any:
        tokens, modes, convolved, blocks, query, key = ctx.saved_tensors
        matrices, scratch = ctx.matrices, ctx.scratch
        d_query, d_key = d_queries.flatten(0, -2), d_keys.flatten(0, -2)
        above = (d_query @ query).view(*convolved.shape[:-2], -1)
        d_filtered = analysis(above, matrices, scratch).repeat(2, 1, 1, 1)
        d_modes = _filter(blocks.mT, d_filtered, scratch("filtered", modes, *modes.shape))
        d_tokens = synthesis(d_modes, matrices, scratch).view_as(tokens)
        half, d_half = (values.chunk(2)[0].flatten(0, -2) for values in (tokens, d_tokens))
        d_half.addmm_(d_key, key)
        return (
            d_tokens,
            d_filtered @ modes.mT,
            d_query.T @ convolved.flatten(0, -2),
            d_query.sum(0),
            d_key.T @ half,
            d_key.sum(0),
            None,
            None,
        )


def _rows(values: Tensor, like: Tensor | None = None) -> Float[Tensor, "row sample pair"]:
    """All tokens, or all modes, of every sample."""
    return values.reshape(-1, *(values if like is None else like).shape[-2:])


def _root_nodes(tokens: Tensor) -> float:
    """√(number of nodes): the mean wave is its inverse everywhere."""
    return float(tokens[0, ..., 0, 0].numel()) ** 0.5


def _mean_wave(modes: Tensor, tokens: Tensor) -> Float[Tensor, "field sample pair"]:
    """A view of the constant wave's coefficients; times √nodes they are sums over a field."""
    return modes[:, 0, 0].view(-1, *tokens.shape[-2:])


def _filter(blocks: Tensor, modes: Tensor, into: Tensor) -> Tensor:
    torch.bmm(blocks.flatten(0, 1), modes.flatten(0, 1), out=into.flatten(0, 1))
    return into


# Products sample by sample: samples stand side by side in memory, and BLAS reads and writes them in place.


def _cross(left: Tensor, right: Tensor) -> Float[Tensor, "sample pair pair"]:
    return torch.bmm(left.permute(1, 2, 0), right.transpose(0, 1))


def _mix(values: Tensor, mixer: Float[Tensor, "sample pair pair"], tokens: Tensor, into: Tensor) -> Tensor:
    rows, target = (_rows(part, tokens).transpose(0, 1) for part in (values, into))
    torch.bmm(rows, mixer, out=target)
    return into

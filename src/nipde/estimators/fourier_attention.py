"""One NIPS layer's attention, out = (R∘V W_Q) · s (V W_K)ᵀ V, in real arithmetic and without any token × token matrix.

R∘V is the convolution F⁻¹(R · F V). With the Gram matrix G = VᵀV and the sum σ = Vᵀ1 of the tokens,

    analysis:   Y = F V,  G,  σ                    (σ is the mean wave of Y)
    d × d:      H = s (W_Kᵀ G + b_K σᵀ),  M = W_Q H,  m = b_Q H
    mode mix:   Z = (R Y) M,  mean wave += m
    synthesis:  out = F⁻¹ Z

so the multiplier acts on modes, M mixes the channels of modes, and the tokens are touched by products only. Rows of a
grid spread over devices meet in (Y, G) forward and in their gradients backward, and nowhere else.

Tokens are `(field, *space, sample, pair)`. `fourier_attention` is one autograd function with its backward written
out; `plain_fourier_attention` says the same in five lines and is its oracle. The last layer needs only the queries'
convolution, `fourier_convolution`.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.estimators.attention import Projections
from nipde.spectral.waves import Matrices, analysis, synthesis


def plain_fourier_attention(
    tokens: Float[Tensor, "field *space sample pair"],
    blocks: Float[Tensor, "field mode parity parity"],
    weights: Projections,
    *,
    scale: float,
    matrices: Matrices,
) -> Float[Tensor, "field *space sample pair"]:
    """The definition."""
    flat = tokens.flatten(-2)
    convolved = synthesis(blocks @ analysis(flat, matrices), matrices).view_as(tokens)
    queries = convolved @ weights.query.T + weights.query_bias
    keys = tokens @ weights.key.T + weights.key_bias
    return torch.einsum("...bk,bke->...be", queries, scale * torch.einsum("tbk,tbe->bke", _rows(keys), _rows(tokens)))


def fourier_attention(
    tokens: Float[Tensor, "field *space sample pair"],
    blocks: Float[Tensor, "field mode parity parity"],
    weights: Projections,
    *,
    scale: float,
    matrices: Matrices,
) -> Float[Tensor, "field *space sample pair"]:
    """The same, fast; tracers get the definition, which has no loop over samples."""
    if torch.compiler.is_compiling():
        return plain_fourier_attention(tokens, blocks, weights, scale=scale, matrices=matrices)
    found: Tensor = _FourierAttention.apply(tokens, blocks, *weights, scale, matrices)  # type: ignore[no-untyped-call]
    return found


def fourier_convolution(
    tokens: Float[Tensor, "field *space column"],
    blocks: Float[Tensor, "field mode parity parity"],
    *,
    matrices: Matrices,
) -> Float[Tensor, "component *space column"]:
    """R_f∘g + R_u∘v, component by component: the two halves of the fields are summed as modes, then synthesised."""
    if torch.compiler.is_compiling():
        loads, responses = synthesis(blocks @ analysis(tokens, matrices), matrices).chunk(2)
        return loads + responses
    found: Tensor = _FourierConvolution.apply(tokens, blocks, matrices)  # type: ignore[no-untyped-call]
    return found


class _FourierConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, blocks: Tensor, matrices: Matrices) -> Tensor:
        modes = analysis(tokens, matrices)
        ctx.save_for_backward(modes, blocks)
        ctx.matrices = matrices
        loads, responses = _filter(blocks, modes).chunk(2)
        return synthesis(loads + responses, matrices)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> Any:
        modes, blocks = ctx.saved_tensors
        d_filtered = analysis(above, ctx.matrices).repeat(2, 1, 1, 1)
        return synthesis(_filter(blocks.mT, d_filtered), ctx.matrices), d_filtered @ modes.mT, None


class _FourierAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tokens: Tensor,
        blocks: Tensor,
        query: Tensor,
        query_bias: Tensor,
        key: Tensor,
        key_bias: Tensor,
        scale: float,
        matrices: Matrices,
    ) -> Tensor:
        modes = analysis(tokens.flatten(-2), matrices)
        rows = _rows(tokens)
        gram, total = _gram(rows), _mean_wave(modes, tokens).sum(0) * _nodes(tokens)
        mixed_keys = scale * (key @ gram + key_bias[:, None] * total[:, None, :])  # sample, channel, pair
        mixer, shift = query.T @ mixed_keys, query_bias @ mixed_keys
        filtered = _filter(blocks, modes)
        mixed = _mix(_rows(filtered, tokens), mixer).view_as(modes)
        _mean_wave(mixed, tokens).add_(shift * _nodes(tokens))
        ctx.save_for_backward(tokens, modes, blocks, query, query_bias, key, key_bias, gram, total, mixed_keys, mixer)
        ctx.scale, ctx.matrices = scale, matrices
        return synthesis(mixed, matrices).view_as(tokens)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> Any:
        tokens, modes, blocks, query, query_bias, key, key_bias, gram, total, mixed_keys, mixer = ctx.saved_tensors
        nodes = _nodes(tokens)
        d_mixed = analysis(above.flatten(-2), ctx.matrices)
        d_shift = _mean_wave(d_mixed, tokens).sum(0) * nodes
        d_rows = _rows(d_mixed, tokens)
        d_mixer = _cross(_rows(_filter(blocks, modes), tokens), d_rows)
        d_filtered = _mix(d_rows, mixer.mT).view_as(modes)
        d_blocks = d_filtered @ modes.mT
        d_modes = _filter(blocks.mT, d_filtered)
        d_keys = ctx.scale * (query @ d_mixer + query_bias[:, None] * d_shift[:, None, :])
        _mean_wave(d_modes, tokens).add_((key_bias @ d_keys) * nodes)
        d_gram = key.T @ d_keys
        d_tokens = synthesis(d_modes, ctx.matrices).view_as(tokens)
        _add_mixed(_rows(d_tokens), _rows(tokens), d_gram + d_gram.mT)
        return (
            d_tokens,
            d_blocks,
            torch.einsum("ske,sde->kd", mixed_keys, d_mixer),
            torch.einsum("ske,se->k", mixed_keys, d_shift),
            torch.einsum("ske,sde->kd", d_keys, gram),
            torch.einsum("ske,se->k", d_keys, total),
            None,
            None,
        )


def _rows(values: Tensor, like: Tensor | None = None) -> Float[Tensor, "row sample pair"]:
    """All tokens, or all modes, of every sample."""
    return values.reshape(-1, *(values if like is None else like).shape[-2:])


def _nodes(tokens: Tensor) -> float:
    """√(number of nodes): the mean wave is 1/√nodes everywhere."""
    return float(tokens[0, ..., 0, 0].numel()) ** 0.5


def _mean_wave(modes: Tensor, tokens: Tensor) -> Float[Tensor, "field sample pair"]:
    """A view of the constant wave's coefficients; times √nodes they are sums over a field."""
    return modes[:, 0, 0].view(-1, *tokens.shape[-2:])


def _filter(blocks: Tensor, modes: Tensor) -> Tensor:
    return torch.bmm(blocks.flatten(0, 1), modes.flatten(0, 1)).view_as(modes)


# Products sample by sample: the samples of a tile stand side by side in memory, and BLAS reads them in place.


def _gram(rows: Float[Tensor, "row sample pair"]) -> Float[Tensor, "sample pair pair"]:
    return _cross(rows, rows)


def _cross(left: Tensor, right: Tensor) -> Float[Tensor, "sample pair pair"]:
    return torch.stack([one.T @ other for one, other in zip(left.unbind(1), right.unbind(1), strict=True)])


def _mix(rows: Tensor, mixer: Float[Tensor, "sample pair pair"]) -> Float[Tensor, "row sample pair"]:
    found = torch.empty_like(rows)
    for one, matrix, into in zip(rows.unbind(1), mixer, found.unbind(1), strict=True):
        torch.mm(one, matrix, out=into)
    return found


def _add_mixed(into: Tensor, rows: Tensor, mixer: Float[Tensor, "sample pair pair"]) -> None:
    for target, one, matrix in zip(into.unbind(1), rows.unbind(1), mixer, strict=True):
        target.addmm_(one, matrix)

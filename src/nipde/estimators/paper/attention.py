"""Attention without softmax, out = s (P W_Q)(V W_K)ᵀ V, in three orders of the same product.

| form      | order                      | cost           | token × token matrix |
|-----------|----------------------------|----------------|----------------------|
| quadratic | ((P W_Q)(V W_K)ᵀ) V        | T² (d + d_k)   | yes                  |
| linear    | (P W_Q) ((V W_K)ᵀ V)       | 4 T d d_k      | no                   |
| gram      | P (W_Q W_Kᵀ (VᵀV))         | 2 T d²         | no                   |

T tokens of d pairs, d_k channels; biases included. The quadratic form is the definition and the oracle of the others.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear


class Projections(NamedTuple):
    """W_Q, b_Q, W_K, b_K of one layer, stored as torch's Linear stores them."""

    query: Float[Tensor, "channel pair"]
    query_bias: Float[Tensor, " channel"]
    key: Float[Tensor, "channel pair"]
    key_bias: Float[Tensor, " channel"]


class QueryKey(nn.Module):
    """The two linear maps from d pairs to d_k channels of one layer."""

    def __init__(self, pairs: int, channels: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(pairs, channels), nn.Linear(pairs, channels)

    def projections(self) -> Projections:
        """Their tensors."""
        return Projections(self.query.weight, self.query.bias, self.key.weight, self.key.bias)


#: P, or V.
Tokens = Float[Tensor, "*batch token pair"]
Attention = Callable[[Tokens, Tokens, Projections, float], Tokens]
Order = Literal["quadratic", "linear", "gram"]


def quadratic_attention(query_tokens: Tokens, tokens: Tokens, weights: Projections, scale: float) -> Tokens:
    """All scores first."""
    queries, keys = linear(query_tokens, *weights[:2]), linear(tokens, *weights[2:])
    return (scale * queries @ keys.mT) @ tokens


def linear_attention(query_tokens: Tokens, tokens: Tokens, weights: Projections, scale: float) -> Tokens:
    """Keys meet values first: d_k × d numbers."""
    queries, keys = linear(query_tokens, *weights[:2]), linear(tokens, *weights[2:])
    return queries @ (scale * keys.mT @ tokens)


def gram_attention(query_tokens: Tokens, tokens: Tokens, weights: Projections, scale: float) -> Tokens:
    """Everything that is not a token is gathered into one d × d matrix, and a shift, first."""
    moments = torch.cat([tokens.mT @ tokens, tokens.sum(-2, keepdim=True)], dim=-2)
    mixer = coupling(weights, scale) @ moments
    return query_tokens @ mixer[..., :-1, :] + mixer[..., -1:, :]


ATTENTIONS: dict[Order, Attention] = {
    "quadratic": quadratic_attention, "linear": linear_attention, "gram": gram_attention
}  # fmt: skip


def coupling(weights: Projections, scale: float) -> Float[Tensor, "pair+1 pair+1"]:
    """s [W_Q, b_Q]ᵀ [W_K, b_K]: all that a layer's maps contribute; the last row and column stand for a constant 1."""
    query = torch.cat([weights.query, weights.query_bias[:, None]], dim=1)
    key = torch.cat([weights.key, weights.key_bias[:, None]], dim=1)
    return scale * query.T @ key

"""The first norm: mean 0 and deviation 1 over all tokens and pairs of a sample, then a gain and a shift.

The paper learns a gain and a shift for every token and pair. They are twice as large as the tokens themselves, and four
times that with Adam; one for every pair is the choice for large grids.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from nipde.spectral.partition import Partition

Gains = Literal["token", "pair"]
#: (sample, token, pair), or (sample, component, *space, pair).
Tokens = Float[Tensor, "sample *token pair"]
#: Added to the variance, as in torch's LayerNorm.
EPSILON = 1e-5


class InputNorm(nn.Module):
    """`gains`: one for every `token` and pair, or for every `pair`."""

    def __init__(self, tokens: int, pairs: int, *, gains: Gains) -> None:
        super().__init__()
        self.shape = (tokens, pairs)
        learned = self.shape if gains == "token" else self.shape[1:]
        self.weight, self.bias = nn.Parameter(torch.ones(learned)), nn.Parameter(torch.zeros(learned))

    def forward(self, tokens: Float[Tensor, "sample token pair"]) -> Float[Tensor, "sample token pair"]:
        """Of the whole grid."""
        if self.weight.ndim == 2:
            return layer_norm(tokens, self.shape, self.weight, self.bias, EPSILON)
        return layer_norm(tokens, self.shape, eps=EPSILON) * self.weight + self.bias

    def on(
        self, tokens: Float[Tensor, "sample token pair"], gains: tuple[Tensor, Tensor], *, partition: Partition
    ) -> "PartNorm":
        """Of one part of the grid: statistics of all parts, and what the part needs of weight and bias, `gains`."""
        gain, shift = (self._cut(value, partition) for value in gains)
        return PartNorm(gain, shift, *statistics(tokens, partition=partition))

    def _cut(self, gain: Tensor, partition: Partition) -> Tensor:
        if gain.ndim == 1:
            return gain
        fields = gain.T.unflatten(1, (-1, *partition.grid.shape))
        return partition.cut(fields).movedim(0, -1)


class PartNorm:
    """(v - mean) / deviation · gain + shift; gain and shift are (pair) or (field, *rows, pair)."""

    def __init__(self, gain: Tensor, shift: Tensor, mean: Tensor, variance: Tensor) -> None:
        self.gain, self.shift = gain, shift
        self.mean, self.scale = mean, (variance + EPSILON).rsqrt()

    def __call__(
        self, tokens: Float[Tensor, "field *rows sample pair"], rows: slice = slice(None)
    ) -> Float[Tensor, "field *rows sample pair"]:
        """Tokens at some `rows` of the part."""
        gain, shift = (value if value.ndim == 1 else value[:, rows].unsqueeze(-2) for value in (self.gain, self.shift))
        return (tokens - self.mean) * self.scale * gain + shift


def statistics(
    tokens: Float[Tensor, "sample token pair"], *, partition: Partition
) -> tuple[Float[Tensor, "sample 1"], Float[Tensor, "sample 1"]]:
    """Mean and variance over the tokens of all parts: two numbers of every sample are exchanged."""
    variance, mean = torch.var_mean(tokens, (1, 2), correction=0)
    together = partition.total(partition.share * mean)
    spread = partition.total(partition.share * (variance + (mean - together).square()))
    return together[:, None], spread[:, None]

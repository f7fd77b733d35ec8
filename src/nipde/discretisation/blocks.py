"""Pairs in blocks: what is computed on the way from fields to a sum over pairs need not exist for all pairs at once."""

from jaxtyping import Float
from torch import Tensor

#: Values of a field that are treated at once. Time hardly depends on it (measured from 2^19 on), memory does.
BLOCK = 2**22


def pair_blocks(fields: Float[Tensor, "system pair *space"]) -> list[slice]:
    """Slices of the pairs, all of the same size but the last."""
    step = max(1, BLOCK // max(1, fields[:, :1].numel()))
    return [slice(first, first + step) for first in range(0, fields.shape[1], step)]

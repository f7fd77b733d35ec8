"""Train, validation, test: by system, and by load where systems share their loads.

A split is a list of half-open index ranges per part. Systems are independent draws, so ranges lose nothing, keep
each part in shards of its own, and stay short however many systems there are.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from nipde.errors import ArchiveError

PARTS = ("train", "validation", "test")

Split = dict[str, list[list[int]]]


def split_ranges(count: int, fractions: Sequence[float]) -> Split:
    """Cut `count` things into consecutive parts of the given shares.

    A share above 0 gets at least one thing, unless there are too few for every part: then all are for training.
    """
    if len(fractions) != len(PARTS) or min(fractions) < 0 or not np.isclose(sum(fractions), 1.0):
        raise ArchiveError(
            expected=f"shares for {', '.join(PARTS)} that sum to 1",
            got=tuple(fractions),
            remedy="e.g. [0.8,0.1,0.1]",
        )
    parts = sum(share > 0 for share in fractions)
    held_out = [max(1, round(count * share)) if share and count >= parts else 0 for share in fractions[1:]]
    sizes = [count - sum(held_out), *held_out]
    ends = np.cumsum(sizes).tolist()
    return {part: [[end - size, end]] if size else [] for part, size, end in zip(PARTS, sizes, ends, strict=True)}


def indices_of(split: Split, part: str) -> Int[np.ndarray, " index"]:
    """All indices of a part."""
    if part not in split:
        raise ArchiveError(expected=f"a part among {sorted(split)}", got=repr(part), remedy="name one of them")
    return np.concatenate([np.arange(0), *(np.arange(first, last) for first, last in split[part])])

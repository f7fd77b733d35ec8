"""Measurement noise on responses, where instruments have it; the pairs carry its level along."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import torch
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.errors import PairsError


def with_white_noise(pairs: Pairs, *, share: float, seed: int) -> Pairs:
    """Independent normal errors at every node, their standard deviation `share` of the responses' root mean square."""
    _check(share)
    level = share * float(pairs.responses.square().mean().sqrt())
    return replace(pairs, responses=pairs.responses + level * _normal(pairs.responses, seed), noise=level)


def with_white_noise_each(pairs: Pairs, *, share: float, seeds: Sequence[int], load_share: float = 0.0) -> Pairs:
    """The same for a batch: every system has a level and a seed of its own, whatever stands beside it.

    `load_share` puts noise on the loads too, where the paper has it.
    """
    responses, levels = _noisy(pairs.responses, share, seeds)
    loads, load_levels = _noisy(pairs.loads, load_share, [seed + 1 for seed in seeds])
    return replace(
        pairs, loads=loads, responses=responses, noise=levels, load_noise=load_levels if load_share else None
    )


def _noisy(field: Tensor, share: float, seeds: Sequence[int]) -> tuple[Tensor, Tensor]:
    _check(share)
    levels = share * field.square().flatten(1).mean(1).sqrt()
    if not share:
        return field, levels
    errors = torch.stack([_normal(one, seed) for one, seed in zip(field, seeds, strict=True)])
    return field + levels.view(-1, *(1,) * (field.ndim - 1)) * errors, levels


def level_like(level: Tensor | float, like: Tensor) -> Tensor:
    """A level in the precision and place of a field; a number keeps all its digits that this precision has."""
    return level.to(like) if isinstance(level, Tensor) else like.new_full((), level)


def _check(share: float) -> None:
    if not 0 <= share < inf:
        raise PairsError(expected="a share of noise >= 0", got=share, remedy="0.01 is one per cent")


def _normal(like: Tensor, seed: int) -> Tensor:
    """Drawn on the processor: the same numbers on every device."""
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed), dtype=like.dtype).to(like.device)

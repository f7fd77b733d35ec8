"""Measurement noise on responses, where instruments have it; the pairs carry its level along."""

from dataclasses import replace

import torch

from nipde.context.pairs import Pairs


def with_white_noise(pairs: Pairs, *, share: float, seed: int) -> Pairs:
    """Independent normal errors at every node, their standard deviation `share` of the responses' root mean square."""
    level = share * float(pairs.responses.square().mean().sqrt())
    generator = torch.Generator().manual_seed(seed)  # drawn on the processor: the same numbers on every device
    errors = torch.randn(pairs.responses.shape, generator=generator, dtype=pairs.responses.dtype)
    return replace(pairs, responses=pairs.responses + level * errors.to(pairs.responses.device), noise=level)

"""Where autocast is off: long sums, transforms and factors do not survive half precision."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def full_precision(like: Tensor) -> AbstractContextManager[object]:
    """No autocast on the tensor's device until the end of the block, also on devices that have none."""
    kind = like.device.type
    lowered = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if lowered else nullcontext()

"""The processes that train together: one, or as many as torchrun started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class Group:
    """This process's place among all; `device` is where it computes."""

    rank: int = 0
    ranks: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009  (immutable)

    def sum(self, *values: float) -> list[float]:
        """Sums over all processes, the same on each of them."""
        if self.ranks == 1:
            return [float(value) for value in values]
        together = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(together)
        return together.tolist()


@contextmanager
def joined() -> Iterator[Group]:
    """Join the processes torchrun started (gloo on processors, NCCL on CUDA), or stand alone."""
    cuda = torch.cuda.is_available()
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield Group(device=torch.device("cuda" if cuda else "cpu"))
        return
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    try:
        yield Group(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()

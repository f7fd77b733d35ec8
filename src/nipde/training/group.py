"""The processes that train together: one, or as many as torchrun started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous


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
    store, rank, ranks = next(rendezvous("env://"))
    # torchrun's store may outlive a restart: without a name of its own, an attempt finds addresses of the dead.
    store = PrefixStore(f"attempt-{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    dist.init_process_group(
        "nccl" if cuda else "gloo", store=store, rank=rank, world_size=ranks, device_id=device if cuda else None
    )
    try:
        yield Group(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()

"""The processes that train together: one, or several that torchrun starts and if need be restarts.

They form a mesh (data × space): processes of one row of it share the rows of a grid, those of one column a batch.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from nipde.errors import TrainingError
from nipde.training.recipe import ModelRecipe

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

#: What a cluster sends before it takes a machine away, among others; torchrun passes it on to every process.
PASSED_ON = [name for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1") if hasattr(signal, name)]
#: What asks a run to save and end; not every system has all of them.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGUSR1") if hasattr(signal, name))


@dataclass(frozen=True)
class Group:
    """This process's place among all; `device` is where it computes, `space` processes share every sample's grid."""

    rank: int = 0
    ranks: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009  (immutable)
    space: int = 1
    mesh: "DeviceMesh | None" = None

    @property
    def share(self) -> int:
        """Which part of a batch this process works on, of `shares`."""
        return self.rank // self.space

    @property
    def shares(self) -> int:
        """Parts of a batch."""
        return self.ranks // self.space

    def sum(self, *values: float) -> list[float]:
        """Sums over all processes, the same on each of them."""
        if self.ranks == 1:
            return [float(value) for value in values]
        together = torch.tensor(values, dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(together)
        return together.tolist()


@contextmanager
def joined(device: str | torch.device | None = None, *, space: int = 1) -> Iterator[Group]:
    """Join the processes torchrun started (NCCL on CUDA, gloo elsewhere), or stand alone; CUDA if no device is named.

    Of several processes on CUDA every one has a device of its own.
    """
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    check_mesh(int(os.environ["WORLD_SIZE"]) if launched() else 1, space=space)
    if not launched():
        yield Group(device=chosen)
        return
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    cuda = chosen.type == "cuda"
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else chosen
    store, rank, ranks = next(rendezvous("env://"))
    # torchrun's store may outlive a restart: without a name of its own, an attempt finds addresses of the dead.
    store = PrefixStore(f"attempt-{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    distributed.init_process_group(
        "nccl" if cuda else "gloo", store=store, rank=rank, world_size=ranks, device_id=own if cuda else None
    )
    try:
        shape, names = (ranks // space, space), ("data", "space")
        mesh = init_device_mesh(own.type, shape, mesh_dim_names=names) if space > 1 else None
        yield Group(rank, ranks, own, space, mesh)
    finally:
        distributed.destroy_process_group()


def check_mesh(processes: int, *, space: int, model: ModelRecipe | None = None) -> None:
    """Raise unless so many processes can share grids by `space`, for this model."""
    if space > 1 and model is not None and not model.spreads:
        raise TrainingError(
            expected="nips, nips-mlp or a gated prior without a head with --space", got=model.kind,
            remedy="let processes share the batch",
        )  # fmt: skip
    if processes % space:
        raise TrainingError(
            expected=f"a multiple of {space} processes, which share every grid", got=processes,
            remedy="choose --devices as a multiple of --space",
        )  # fmt: skip


def launched() -> bool:
    """Whether this process was started by torchrun."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(module: str, words: list[str], *, processes: int, restarts: int) -> int:
    """`python -m MODULE WORDS` in every process; if one dies all start again, `restarts` times. Gives an exit code."""
    try:
        from torch.distributed.elastic.multiprocessing.api import SignalException
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.run import main
    except ImportError as error:
        raise TrainingError(
            expected="a PyTorch with torch.distributed", got="one without", remedy="train in one process"
        ) from error

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, torch.get_num_threads() // processes)))
    options = ["--standalone", "--nproc-per-node", str(processes), "--max-restarts", str(restarts)]
    try:
        main([*options, "--signals-to-handle", ",".join(PASSED_ON), "-m", module, *words])
    except SignalException as received:
        return exit_code(received.sigval)
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        raise TrainingError(
            f"training processes failed {restarts + 1} time(s), at last with exit code {code}",
            remedy="its own words stand above; what was saved is kept, --resume goes on from there",
        ) from error
    return 0


def exit_code(stopped_by: int) -> int:
    """128 + signal as is usual; 0 after SIGUSR1, by which a scheduler asks for a save before it requeues the job."""
    return 0 if stopped_by in (0, getattr(signal, "SIGUSR1", 0)) else 128 + int(stopped_by)

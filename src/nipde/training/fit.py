"""One call: a recipe, archives and a folder in; the best weights by validation out, and a log of how they came."""

import os
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from nipde.atomic import PARTIAL
from nipde.context.sampling import places_of
from nipde.data.freed_memory import keep_freed_memory, return_freed_memory
from nipde.errors import StoppedEarly, TrainingError
from nipde.training.callbacks import Log, Saver, Selector, listening
from nipde.training.loop import Callback, train
from nipde.training.processes import joined
from nipde.training.recipe import TrainingRecipe
from nipde.training.run import One, Run, gathered, opened, restarted

#: Memory that stays with the process between steps; what a step frees, the next one needs again.
KEEP_BYTES = 2**31 - 1
LOCK = ".lock"


def fit(
    recipe: TrainingRecipe,
    data: One | Sequence[One],
    out: str | os.PathLike[str],
    *,
    resume: bool = False,
    save_seconds: float = 60.0,
    log_every: int = 20,
    tensorboard: bool = False,
    space: int = 1,
    callbacks: Sequence[Callback] = (),
    device: str | torch.device | None = None,
) -> Run:
    """Train, or go on training with `resume`; `run.stopped_by` says whether a signal ended it before its time.

    Of several archives every step draws one. Under torchrun `space` processes share the rows of every sample's grid.
    `device` is where to compute; CUDA by default if there is one.
    """
    keep_freed_memory(KEEP_BYTES) if recipe.tile_rows is None else return_freed_memory()
    archives = gathered(data)
    folder = Path(out)
    with joined(device, space=space) as group, _locked(folder) if group.rank == 0 else nullcontext():
        # After torchrun has started all processes again, they go on from what was saved.
        run = opened(folder, recipe, archives, group, resume=resume or restarted(folder))
        selector = Selector(folder, run)
        places_of(recipe.batch, rank=0, ranks=group.shares * recipe.parts)
        every: list[Callback] = [selector]
        if group.rank == 0:
            every += [Log(folder, selector, every=log_every, tensorboard=tensorboard), *callbacks]
        with listening(run):
            train(run, [*every, Saver(folder, seconds=save_seconds)])
    if run.stopped_by and group.rank == 0:
        name = signal.Signals(run.stopped_by).name
        message = f"{name} stopped training after step {run.step}, all is saved in {folder}: resume=True goes on"
        warnings.warn(message, StoppedEarly, stacklevel=2)
    return run


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process works in a folder at a time; the system releases the lock when it dies.

    Only who holds the lock removes anything: what a kill left half written and, if no run was begun, the folder.
    """
    lock = FileLock(folder / LOCK, blocking=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (Timeout, FileNotFoundError) as error:  # the folder goes with its holder
        raise TrainingError(
            expected="a folder in which nobody trains", got=f"{folder}, in which a process does",
            remedy="wait for its end, stop it, or choose another folder",
        ) from error  # fmt: skip
    except OSError as error:
        raise TrainingError(expected="a folder to write to", got=f"{folder} ({error.strerror})") from error
    try:
        for left in folder.glob(f".*{PARTIAL}"):
            left.unlink()
        yield
    finally:
        unused = {path.name for path in folder.iterdir()} == {LOCK}
        if unused:
            with suppress(OSError):  # Windows removes it by the release
                (folder / LOCK).unlink()
        lock.release()
        if unused:
            with suppress(OSError):  # the next one has come
                folder.rmdir()

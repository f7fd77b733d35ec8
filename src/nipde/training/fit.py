"""One call: a recipe, archives and a folder in; the best weights by validation out, and a log of how they came."""

import os
import signal
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from nipde.context.sampling import places_of
from nipde.data.allocator import keep_freed_memory
from nipde.errors import StoppedEarly
from nipde.training.archives import One, gathered
from nipde.training.group import joined
from nipde.training.lock import locked
from nipde.training.loop import Observer, train
from nipde.training.observers import Log, Saver, Selector, listening
from nipde.training.recipe import TrainingRecipe
from nipde.training.run import Run, opened, restarted

#: Memory that stays with the process between steps; what a step frees, the next one needs again.
KEEP_BYTES = 2**31 - 1


def fit(
    recipe: TrainingRecipe,
    data: One | Sequence[One],
    out: str | os.PathLike[str],
    *,
    resume: bool = False,
    save_seconds: float = 60.0,
    log_every: int = 20,
    tensorboard: bool = False,
    watchers: Sequence[Observer] = (),
) -> Run:
    """Train, or go on training with `resume`; `run.stopped_by` says whether a signal ended it before its time.

    Of several archives every step draws one.
    """
    keep_freed_memory(KEEP_BYTES)
    archives = gathered(data)
    folder = Path(out)
    with joined() as group:
        # After torchrun has started all processes again, they go on from what was saved.
        resume = resume or restarted(folder)
        run = opened(folder, recipe, archives, group, resume=resume)
        selector = Selector(folder, run)
        places_of(recipe.batch, rank=0, ranks=group.ranks * recipe.parts)
        observers: list[Observer] = [selector]
        if group.rank == 0:
            observers += [Log(folder, selector, every=log_every, tensorboard=tensorboard), *watchers]
        with locked(folder) if group.rank == 0 else nullcontext(), listening(run):
            train(run, [*observers, Saver(folder, seconds=save_seconds)])
    if run.stopped_by and group.rank == 0:
        name = signal.Signals(run.stopped_by).name
        message = f"{name} stopped training after step {run.step}, all is saved in {folder}: resume=True goes on"
        warnings.warn(message, StoppedEarly, stacklevel=2)
    return run

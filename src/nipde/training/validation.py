"""Held-out error on validation systems: loads outside the context, and never in training where systems share them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from nipde.context.sampling import Draw, Sampler
from nipde.data.archive import Archive
from nipde.errors import NonFiniteError, TrainingError
from nipde.training.feed import Source
from nipde.training.processes import Group
from nipde.training.recipe import TrainingRecipe
from nipde.training.run import Task, Validated

#: Queries per system at most, and systems at a time.
QUERIES, TOGETHER = 20, 10


def mean_of(each: Sequence[Validated]) -> Validated:
    """Over several archives, each of equal weight."""
    held_out, in_context = ([getattr(one, name) for one in each] for name in ("held_out", "in_context"))
    return Validated(sum(held_out) / len(each), sum(in_context) / len(each))


class Validator:
    """The same contexts and queries every time; processes share the systems."""

    def __init__(self, recipe: TrainingRecipe, archive: Archive, group: Group) -> None:
        known = archive.load_indices("train")
        # Where loads are shared, queries have a part of their own; else they are other pairs of the same system.
        unseen = archive.load_indices("validation") if "loads" in archive.split else known[:0]
        precision = getattr(torch, recipe.precision)
        self.source = Source(
            archive, "validation", pairs=np.concatenate([known, unseen]), dtype=precision, device=group.device,
            limit=recipe.validation_systems,
        )  # fmt: skip
        self.group, self.noise = group, {"noise": recipe.noises[0], "load_noise": recipe.load_noise}
        context = recipe.contexts[0]
        self.systems = len(self.source.systems)
        spare = 0 if len(unseen) else min(QUERIES, len(known) - context)
        if not len(unseen) and spare < 1:
            raise TrainingError(
                "nothing is left to validate on", expected=f"more than {context} pairs per system",
                got=len(known), remedy="generate more pairs, or take a smaller context",
            )  # fmt: skip
        sampler = Sampler(systems=self.systems, pairs=len(known), context=context, queries=spare, seed=recipe.seed)
        self.draw = sampler.one_each(range(self.systems))
        if len(unseen):
            places = len(known) + np.arange(min(QUERIES, len(unseen)))
            self.draw = replace(self.draw, queries=np.tile(places, (self.systems, 1)))

    @torch.no_grad()
    def __call__(self, task: Task) -> Validated:
        """The same result on every process."""
        errors = np.zeros((2, self.systems))
        mine = range(self.systems)[self.group.rank :: self.group.ranks]
        for start in range(0, len(mine), TOGETHER):
            some = np.asarray(mine[start : start + TOGETHER])
            for kind, draw in enumerate((_some(self.draw, some), _some(self.draw, some, queries=False))):
                errors[kind, some] = task(self.source.batch(draw, **self.noise)).mean(1).double().cpu()
        held_out, in_context = self.group.sum(*(errors.sum(1) / self.systems))
        if not np.isfinite([held_out, in_context]).all():
            bad = self.source.systems[~np.isfinite(errors).all(0)].tolist()
            raise NonFiniteError(
                f"validation on {self.source.archive.storage.address}",
                expected="finite errors",
                got=f"others from system(s) {bad}",
                remedy="look at these systems, or lower the learning rate",
            )
        return Validated(held_out, in_context)


def _some(draw: Draw, which: np.ndarray, *, queries: bool = True) -> Draw:
    queried = draw.queries[which] if queries else draw.queries[which, :0]
    return Draw(draw.systems[which], draw.contexts[which], queried, draw.seeds[which])

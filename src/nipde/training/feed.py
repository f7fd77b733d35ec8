"""A recipe and archives to the batches of every step.

All samples of a step come from one archive, with as many pairs, the same share of noise and the same turn of the box;
each of these is drawn from (seed, step), so processes agree without a word.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from nipde.context.sampling import Sampler, Shared, places_of, shared_choice
from nipde.context.symmetry import check_components, symmetries
from nipde.data.archive import Archive
from nipde.errors import TrainingError
from nipde.training.group import Group
from nipde.training.recipe import TrainingRecipe
from nipde.training.source import Batch, Source, stream
from nipde.training.task import training_source


@dataclass(frozen=True)
class Feed:
    """The training batches of one process."""

    recipe: TrainingRecipe
    group: Group
    sources: tuple[tuple[Source, Sampler], ...]

    @classmethod
    def of(cls, recipe: TrainingRecipe, archives: Sequence[Archive], group: Group) -> "Feed":
        """From the training systems of all archives."""
        _check(recipe, archives)
        each = (training_source(recipe, archive, group, sharing=len(archives)) for archive in archives)
        return cls(recipe, group, tuple(each))

    def batches(self, first: int) -> Iterator[Batch]:
        """This process's share of every batch from a step on, part by part."""
        return stream(self._orders(first), ahead=any(source.held is None for source, _ in self.sources))

    def archive(self, step: int) -> Archive:
        """The one that a step draws from."""
        return self.sources[self._choice("archive", len(self.sources), step)][0].archive

    def batch(self, step: int, places: range) -> Batch:
        """The samples at some places of a step's batch."""
        recipe = self.recipe
        source, sampler = self.sources[self._choice("archive", len(self.sources), step)]
        noise = recipe.noises[self._choice("noise", len(recipe.noises), step)]
        batch = source.batch(sampler.draw(step, places), noise=noise, load_noise=recipe.load_noise)
        if not recipe.symmetries:
            return batch
        turns = symmetries(source.archive.grid)
        return batch.turned(turns[self._choice("symmetry", len(turns), step)])

    def _orders(self, first: int) -> Iterator[Callable[[], Batch]]:
        recipe, group = self.recipe, self.group
        for step in count(first):
            for part in range(recipe.parts):
                place = group.rank * recipe.parts + part
                yield partial(self.batch, step, places_of(recipe.batch, rank=place, ranks=group.ranks * recipe.parts))

    def _choice(self, what: Shared, among: int, step: int) -> int:
        return shared_choice(what, among=among, seed=self.recipe.seed, step=step)


def _check(recipe: TrainingRecipe, archives: Sequence[Archive]) -> None:
    """Raise before anything is begun."""
    grids = list(dict.fromkeys(archive.grid for archive in archives))
    if len(grids) > 1 and not recipe.model.adapts:
        raise TrainingError(
            expected=f"one grid for {recipe.model.kind}", got=" and ".join(map(str, grids)),
            remedy="train on archives of one grid, or train a conditioned model",
        )  # fmt: skip
    if recipe.symmetries:
        for quantity in (archives[0].quantities.load, archives[0].quantities.response):
            check_components(len(quantity.components), archives[0].grid)

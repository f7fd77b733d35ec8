"""A recipe and archives to the batches of every step.

All samples of a step come from one archive, with as many pairs, the same share of noise and the same symmetry of the
box; each of these is drawn from (seed, step), so processes agree without exchanging a word. Systems stay in memory
where they fit; else the next batch is read while one is used.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nipde.context.noise import with_white_noise_each
from nipde.context.pairs import Pairs
from nipde.context.sampling import Draw, Sampler, Shared, places_of, shared_choice
from nipde.context.symmetry import Symmetry, check_components, symmetries, transformed
from nipde.data.archive import Archive
from nipde.errors import TrainingError
from nipde.spectral.sampled_nodes import SampledNodes
from nipde.training.processes import Group
from nipde.training.recipe import TrainingRecipe

#: Parts of archives up to this size, those of a run together, are read once and kept.
HELD_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Batch:
    """Contexts, queries with their true responses, and which systems these are."""

    context: Pairs
    loads: Float[Tensor, "sample query component *space"]
    responses: Float[Tensor, "sample query component *space"]
    #: Index in the archive of every sample's system.
    systems: Int[np.ndarray, " sample"]
    #: Nodes to learn from; None: all.
    nodes: SampledNodes | None = None

    def transformed(self, by: Symmetry) -> "Batch":
        """The same samples after a symmetry of the box, contexts and queries alike."""
        context, grid = self.context, self.context.grid
        moved = replace(
            context, loads=transformed(context.loads, by, grid), responses=transformed(context.responses, by, grid)
        )
        return Batch(moved, transformed(self.loads, by, grid), transformed(self.responses, by, grid), self.systems)


class Source:
    """One part of an archive as batches; draws count systems from 0 within the part, pairs from 0 within `pairs`."""

    def __init__(
        self,
        archive: Archive,
        part: str,
        *,
        pairs: Int[np.ndarray, " pair"] | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        held_bytes: int = HELD_BYTES,
        sharing: int = 1,
        limit: int | None = None,
    ) -> None:
        archive.check_fills_box()
        self.archive, self.dtype, self.device = archive, dtype, device
        self.systems = archive.indices(part)[:limit]
        if not len(self.systems):
            raise TrainingError(
                f"the archive has no {part} systems", expected="at least one",
                remedy="generate it with more systems, or another --split",
            )  # fmt: skip
        self.pairs = archive.load_indices("train") if pairs is None else pairs
        quantities = archive.quantities
        values = archive.grid.size * (len(quantities.load.components) + len(quantities.response.components))
        size = len(self.systems) * len(self.pairs) * values * torch.finfo(dtype).bits // 8
        self.held = self._read(np.arange(len(self.systems))) if size * sharing <= held_bytes else None

    def batch(self, draw: Draw, *, noise: float = 0.0, load_noise: float = 0.0) -> Batch:
        """The samples of a draw; without queries, the context itself is queried."""
        if self.held is None:
            distinct, places = np.unique(draw.systems, return_inverse=True)
            fields = self._read(distinct)
        else:
            places, fields = draw.systems, self.held

        def take(field: Tensor, pairs: Int[np.ndarray, "sample pair"]) -> Tensor:
            rows = torch.as_tensor(places[:, None] * field.shape[1] + pairs)
            return field.flatten(0, 1).index_select(0, rows.flatten()).unflatten(0, rows.shape).to(self.device)

        loads, responses = (take(field, draw.contexts) for field in fields)
        context = Pairs(self.archive.grid, loads, responses, noise=0.0)
        if noise or load_noise:
            context = with_white_noise_each(context, share=noise, load_share=load_noise, seeds=draw.seeds.tolist())
        if draw.queries.shape[1]:
            loads, responses = (take(field, draw.queries) for field in fields)
        return Batch(context, loads, responses, self.systems[draw.systems])

    def _read(self, systems: Int[np.ndarray, " system"]) -> tuple[Tensor, Tensor]:
        read = self.archive.read(self.systems[systems], pairs=self.pairs.tolist())
        return torch.as_tensor(read.loads).to(self.dtype), torch.as_tensor(read.responses).to(self.dtype)


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
        if recipe.symmetries:
            group = symmetries(source.archive.grid)
            batch = batch.transformed(group[self._choice("symmetry", len(group), step)])
        if recipe.sampled_lines is None:
            return batch
        rng = np.random.default_rng(self._choice("nodes", 2**31, step))
        return replace(batch, nodes=SampledNodes.drawn(source.archive.grid, recipe.sampled_lines, rng=rng))

    def _orders(self, first: int) -> Iterator[Callable[[], Batch]]:
        recipe, group = self.recipe, self.group
        for step in count(first):
            for part in range(recipe.parts):
                place, parts = group.share * recipe.parts + part, group.shares * recipe.parts
                yield partial(self.batch, step, places_of(recipe.batch, rank=place, ranks=parts))

    def _choice(self, what: Shared, among: int, step: int) -> int:
        return shared_choice(what, among=among, seed=self.recipe.seed, step=step)


def training_source(
    recipe: TrainingRecipe, archive: Archive, group: Group, *, sharing: int = 1
) -> tuple[Source, Sampler]:
    """Training systems and training loads, and how they are drawn; `sharing` archives share the memory."""
    source = Source(archive, "train", dtype=getattr(torch, recipe.precision), device=group.device, sharing=sharing)
    sampler = Sampler(
        systems=len(source.systems), pairs=len(source.pairs), context=recipe.context,
        queries=recipe.queries, orders=recipe.orders, seed=recipe.seed,
    )  # fmt: skip
    return source, sampler


def stream(orders: Iterable[Callable[[], Batch]], *, ahead: bool) -> Iterator[Batch]:
    """The batch of every order; `ahead` makes the next one while one is used."""
    if not ahead:
        yield from (order() for order in orders)
        return
    with ThreadPoolExecutor(1) as reader:
        coming = None
        for order in orders:
            ready, coming = coming, reader.submit(order)
            if ready is not None:
                yield ready.result()
        if coming is not None:
            yield coming.result()


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

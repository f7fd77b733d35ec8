"""From an archive to batches: systems stay in memory where they fit, else the next batch is read while one is used."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nipde.context.noise import with_white_noise_each
from nipde.context.pairs import Pairs
from nipde.context.sampling import Draw
from nipde.context.symmetry import Symmetry, turned
from nipde.data.archive import Archive
from nipde.errors import TrainingError

#: Parts of archives up to this size, those of a run together, are read once and kept.
HELD_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Batch:
    """Contexts, loads to answer, the true responses, and which samples these are."""

    context: Pairs
    loads: Float[Tensor, "sample query component *space"]
    responses: Float[Tensor, "sample query component *space"]
    #: Index in the archive of every sample's system.
    systems: Int[np.ndarray, " sample"]

    def turned(self, by: Symmetry) -> "Batch":
        """The same samples in the turned box, contexts and queries alike."""
        context, grid = self.context, self.context.grid
        seen = replace(context, loads=turned(context.loads, by, grid), responses=turned(context.responses, by, grid))
        return Batch(seen, turned(self.loads, by, grid), turned(self.responses, by, grid), self.systems)


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
        """The samples of a draw; a draw without queries answers its own context."""
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
        found = self.archive.read(self.systems[systems], pairs=self.pairs.tolist())
        return torch.as_tensor(found.loads).to(self.dtype), torch.as_tensor(found.responses).to(self.dtype)


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

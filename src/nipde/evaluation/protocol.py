"""Which systems, which pairs as context, which as queries: a pure function of the seed; no pair is both."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int

from nipde.context.pairs import Pairs
from nipde.context.sampling import Draw, Sampler
from nipde.data.archive import Archive
from nipde.data.plan import PARTS
from nipde.data.system import System
from nipde.errors import ArchiveError, PairsError

#: Pairs of a context unless a person asks for another number.
USUAL = 50


def usual_context(archive: Archive, *, loads: str = "test") -> int:
    """Pairs to take where nobody says how many: half of those there are, at most 50."""
    return min(USUAL, max(1, len(archive.load_indices(loads)) // 2))


def choose(
    archive: Archive, *, part: str, context: int, loads: str = "test", systems: int | None = None, seed: int = 0
) -> Draw:
    """The first `systems` of a part, as indices into the archive: `context` pairs each, and all others as queries.

    Where systems share their loads, `test` (or `validation`) takes context and queries from the loads of that part,
    which no training has seen; `train` is the paper's protocol: context of training loads, queries of test loads.
    """
    if loads not in PARTS:
        raise PairsError(expected=f"loads among {', '.join(PARTS)}", got=repr(loads), remedy="name one of them")
    every = archive.indices(part)
    count = len(every) if systems is None else min(systems, len(every))
    if count < 1:
        raise ArchiveError(
            expected=f"at least one {part} system", got=f"{count} of {len(every)}",
            remedy="ask for more of them, or for another part",
        )  # fmt: skip
    pool = archive.load_indices(loads)
    shared = shares_loads(archive)
    two_pools = shared and loads == "train"
    asked = len(archive.load_indices("test")) if two_pools else len(pool) - context
    if not 1 <= context <= len(pool) or asked < 1:
        raise PairsError(
            expected=f"a context of at least 1 of {len(pool)} {f'{loads} loads' if shared else 'pairs'}, and queries",
            got=f"{context} in the context, {max(asked, 0)} left as queries",
            remedy=f"take fewer pairs{', or loads=train, as the paper does' if shared and not two_pools else ''}",
        )
    sampler = Sampler(count, len(pool), context, queries=0 if two_pools else asked, seed=seed)
    draw = sampler.one_each(range(count))
    queries = np.tile(archive.load_indices("test"), (count, 1)) if two_pools else pool[draw.queries]
    return replace(draw, systems=every[:count], contexts=pool[draw.contexts], queries=queries)


def pairs_of(read: System, chosen: Int[np.ndarray, "system pair"]) -> Pairs:
    """The chosen pairs of every system that was read, in double precision."""
    places = np.arange(len(chosen))[:, None], chosen
    return Pairs.from_arrays(read.loads[places], read.responses[places], grid=read.grid).to(dtype=torch.float64)


def shares_loads(archive: Archive) -> bool:
    """Whether all systems were given the same loads, which are then split like the systems."""
    return "loads" in archive.split

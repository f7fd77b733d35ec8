"""Which system, which pairs as context, which as queries: a pure function of (seed, step, place in the batch).

Nothing is stored and no generator moves on, so a run can stop and go on anywhere, and any number of processes draws
the same batch: each takes its own places of it. What all samples of a step share is a function of (seed, step).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int

from nipde.errors import PairsError


@dataclass(frozen=True)
class Draw:
    """Indices of some samples: a system each, its context pairs in order, its query pairs; and seeds for more."""

    systems: Int[np.ndarray, " sample"]
    contexts: Int[np.ndarray, "sample pair"]
    queries: Int[np.ndarray, "sample query"]
    seeds: Int[np.ndarray, " sample"]


#: What all samples of a step may have in common.
Shared = Literal["context", "noise", "symmetry", "archive", "nodes"]
#: First key of its stream; 0 to 2 belong to the sampler.
_STREAMS: dict[Shared, int] = {"context": 3, "noise": 4, "symmetry": 5, "archive": 6, "nodes": 7}


def shared_choice(what: Shared, *, among: int, seed: int, step: int) -> int:
    """Which one of so many a whole step takes, on every process."""
    return int(_stream(seed, _STREAMS[what], step).integers(among)) if among > 1 else 0


@dataclass(frozen=True)
class Sampler:
    """Draws from `systems` systems with `pairs` pairs each.

    Of several numbers of pairs in a `context` every step draws one; where there are no steps, the first counts.
    `orders` is the paper's n_rand: every system then has only so many ordered contexts; without it they never end.
    """

    systems: int
    pairs: int
    context: int | tuple[int, ...]
    queries: int = 0
    orders: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.queries < 0:
            raise PairsError(expected="0 or more queries", got=self.queries)
        wrong = [count for count in self.contexts if not 1 <= count <= self.pairs - self.queries]
        if wrong or not self.contexts:
            raise PairsError(
                expected=f"a context of 1 to {self.pairs - self.queries} of {self.pairs} pairs, "
                f"beside {self.queries} queries",
                got=wrong[0] if wrong else "none",
                remedy="take fewer pairs into the context, or give the systems more",
            )
        if self.systems < 1 or (self.orders is not None and self.orders < 1):
            raise PairsError(expected="at least one system and one order", got=(self.systems, self.orders))

    @property
    def contexts(self) -> tuple[int, ...]:
        """Every number of pairs a context may have."""
        return self.context if isinstance(self.context, tuple) else (self.context,)

    def draw(self, step: int, places: range) -> Draw:
        """The samples of a step that stand at `places` of its batch; systems come at random."""
        stream = _stream(self.seed, 0, step)
        context = self.contexts[shared_choice("context", among=len(self.contexts), seed=self.seed, step=step)]
        # A place is reached through those before it.
        samples = [self._sample(stream, context) for _ in range(places.stop)]
        return _joined([samples[place] for place in places])

    def one_each(self, systems: range, *, round: int = 0) -> Draw:
        """One sample of each of the `systems`, in order; another `round` draws other contexts."""
        streams = ((system, _stream(self.seed, 2, round, system)) for system in systems)
        return _joined([self._ordered(system, stream, self.contexts[0]) for system, stream in streams])

    def _sample(self, stream: np.random.Generator, context: int) -> "_Sample":
        system = int(stream.integers(self.systems))
        if self.orders is not None:
            stream = _stream(self.seed, 1, system, int(stream.integers(self.orders)))
        return self._ordered(system, stream, context)

    def _ordered(self, system: int, stream: np.random.Generator, context: int) -> "_Sample":
        order = stream.permutation(self.pairs)
        return system, order[:context], order[context : context + self.queries], int(stream.integers(2**62))


def _stream(seed: int, *key: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key)))


_Sample = tuple[int, Int[np.ndarray, " pair"], Int[np.ndarray, " query"], int]


def _joined(samples: list[_Sample]) -> Draw:
    systems, contexts, queries, seeds = zip(*samples, strict=True)
    return Draw(np.asarray(systems), np.stack(contexts), np.stack(queries), np.asarray(seeds))


def places_of(batch: int, *, rank: int, ranks: int) -> range:
    """The places of a batch that one of several processes works on."""
    if batch % ranks:
        raise PairsError(
            expected=f"a batch that {ranks} processes or parts share evenly", got=batch, remedy="use a multiple of it"
        )
    share = batch // ranks
    return range(rank * share, (rank + 1) * share)

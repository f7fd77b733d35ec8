"""Which system, which pairs as context, which as queries: a pure function of (seed, step, place in the batch).

Nothing is stored and no generator moves on, so a run can stop and go on anywhere, and any number of processes draws
the same batch: each takes its own places of it.
"""

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Sampler:
    """Draws from `systems` systems with `pairs` pairs each.

    `orders` is the paper's n_rand: every system then has only so many ordered contexts; without it they never end.
    """

    systems: int
    pairs: int
    context: int
    queries: int = 0
    orders: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.queries < 0:
            raise PairsError(expected="0 or more queries", got=self.queries)
        if not 1 <= self.context <= self.pairs - self.queries:
            raise PairsError(
                expected=f"a context of 1 to {self.pairs - self.queries} of {self.pairs} pairs, "
                f"beside {self.queries} queries",
                got=self.context, remedy="take fewer pairs into the context, or give the systems more",
            )  # fmt: skip
        if self.systems < 1 or (self.orders is not None and self.orders < 1):
            raise PairsError(expected="at least one system and one order", got=(self.systems, self.orders))

    def draw(self, step: int, places: range) -> Draw:
        """The samples of a step that stand at `places` of its batch; systems come at random."""
        stream = self._stream(0, step)
        samples = [self._sample(stream) for _ in range(places.stop)]  # a place is reached through those before it
        return _joined([samples[place] for place in places])

    def one_each(self, systems: range, *, round: int = 0) -> Draw:
        """One sample of every system asked for, in order; another `round` draws other contexts."""
        return _joined([self._ordered(system, self._stream(2, round, system)) for system in systems])

    def _sample(self, stream: np.random.Generator) -> "_Sample":
        system = int(stream.integers(self.systems))
        if self.orders is None:
            return self._ordered(system, stream)
        return self._ordered(system, self._stream(1, system, int(stream.integers(self.orders))))

    def _ordered(self, system: int, stream: np.random.Generator) -> "_Sample":
        order = stream.permutation(self.pairs)
        last = self.context + self.queries
        return system, order[: self.context], order[self.context : last], int(stream.integers(2**62))

    def _stream(self, *key: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence(self.seed, spawn_key=key)))


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

"""Everything that determines an archive, byte for byte: recipe, number of systems, seed, split, shard size."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from jaxtyping import Int

from nipde.data.checked_json import conforms
from nipde.data.problems import recipe_from_dict
from nipde.data.recipe import Recipe, streams
from nipde.errors import ArchiveError

#: A shard is written by one task and holds whole systems: at most this many bytes of them …
SHARD_BYTES = 32 * 2**20
#: … but small archives are cut into about this many shards, to keep several workers busy.
SHARDS = 32
#: A manifest lists the files of at most this many: those of large archives are chosen larger, up to this many bytes.
MOST_SHARDS = 40_000
MOST_SHARD_BYTES = 2**30
PARTS = ("train", "validation", "test")

#: Half-open index ranges per part. Systems are independent draws: consecutive ranges lose nothing, and keep each part
#: in shards of its own.
Split = dict[str, list[list[int]]]


@dataclass(frozen=True)
class Plan:
    """An archive before it is made; the same plan gives the same digest on any number of workers."""

    recipe: Recipe
    systems: int = 100
    seed: int = 0
    split: tuple[float, float, float] = (0.8, 0.1, 0.1)
    #: Systems per shard; 0 chooses by size.
    shard_systems: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (("systems", 1, 2**40), ("seed", 0, 2**128 - 1), ("shard_systems", 0, 2**40)):
            value = getattr(self, name)
            if not (isinstance(value, int | np.integer) and least <= value <= most):
                raise ArchiveError(f"{name} cannot be used", expected=f"a whole number >= {least}", got=value,
                                   remedy="choose another")  # fmt: skip
        entries = self.recipe.catalogue
        if entries is not None and self.systems > entries:
            expected = f"at most {entries} systems of {self.recipe.problem}, none twice"
            raise ArchiveError(expected=expected, got=self.systems, remedy="ask for fewer")
        if self.shards > MOST_SHARDS:
            raise ArchiveError(expected=f"at most {MOST_SHARDS} shards", got=self.shards,
                               remedy="make several archives, or larger shards (shard_systems)")  # fmt: skip
        self.splits  # noqa: B018  (a split that cannot be made is refused before anything is computed)

    @cached_property
    def systems_per_shard(self) -> int:
        """Chosen from sizes alone, never from the number of workers."""
        recipe, quantities = self.recipe, self.recipe.quantities
        fields = recipe.pairs * (len(quantities.load.components) + len(quantities.response.components))
        values = recipe.grid.size * fields
        if recipe.fine_shape is not None:
            values += math.prod(recipe.fine_shape) * len(quantities.hidden.components)
        system_bytes = np.dtype(recipe.precision).itemsize * values
        by_size = min(SHARD_BYTES // system_bytes, -(-self.systems // SHARDS))
        by_number = min(MOST_SHARD_BYTES // system_bytes, -(-self.systems // MOST_SHARDS))
        systems = self.shard_systems or max(by_size, by_number)
        return int(np.clip(systems, 1, self.systems))

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-self.systems // self.systems_per_shard)

    def systems_of(self, shard: int) -> range:
        """The systems of one shard."""
        first = shard * self.systems_per_shard
        return range(first, min(first + self.systems_per_shard, self.systems))

    def system_seed(self, system: int) -> np.uint64:
        """The seed of one system."""
        return self._seed(1, system) if self.recipe.catalogue is None else self._seeds_of_entries[system]

    @property
    def shared_seed(self) -> np.uint64 | None:
        """The seed of the loads that all systems share, if they do."""
        if not self.recipe.shared_loads:
            return None
        return self._seed(0)

    @cached_property
    def splits(self) -> dict[str, Split]:
        """Ranges of systems per part and, where loads are shared, of loads per part."""
        splits = {"systems": split_ranges(self.systems, self.split)}
        if self.recipe.shared_loads:
            splits["loads"] = split_ranges(self.recipe.pairs, self.split)
        return splits

    @cached_property
    def _seeds_of_entries(self) -> list[np.uint64]:
        """Seeds that choose from a catalogue, drawn again until new: no test system is a training system again."""
        seeds: list[np.uint64] = []
        taken: set[int] = set()
        for system in range(self.systems):
            keys = itertools.chain([(1, system)], ((1, system, again) for again in itertools.count(1)))
            for seed in (self._seed(*key) for key in keys):
                entry = self.recipe.draw_entry(streams(seed)[0])
                if entry not in taken:
                    break
            seeds.append(seed)
            taken.add(entry)
        return seeds

    def _seed(self, *key: int) -> np.uint64:
        return np.uint64(np.random.SeedSequence(self.seed, spawn_key=key).generate_state(1, np.uint64)[0])

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "recipe": self.recipe.to_dict(),
            "systems": self.systems,
            "seed": self.seed,
            "split": list(self.split),
            "shard_systems": self.systems_per_shard,
        }

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        """Rebuild from JSON form, whoever wrote it; an ArchiveError where no plan comes of it."""
        kinds = {"recipe": dict[str, Any], "systems": int, "seed": int, "split": list[float], "shard_systems": int}
        if not (isinstance(record, dict) and record.keys() == kinds.keys()):
            raise ArchiveError(
                expected=f"a plan: {', '.join(kinds)}", got=f"{record}"[:300], remedy="use a newer nipde"
            )
        for name, kind in kinds.items():
            if not conforms(record[name], kind):
                raise ArchiveError(f"{name} of a plan", expected=kind, got=f"{record[name]}"[:300], remedy="mend it")
        recipe = recipe_from_dict(record["recipe"])
        return cls(recipe, record["systems"], record["seed"], tuple(record["split"]), record["shard_systems"])


def split_ranges(count: int, fractions: Sequence[float]) -> Split:
    """Cut `count` things into consecutive parts of the given shares.

    A share above 0 gets at least one thing, unless there are too few for every part: then all are for training.
    """
    if len(fractions) != len(PARTS) or min(fractions) < 0 or not np.isclose(sum(fractions), 1.0):
        raise ArchiveError(
            expected=f"shares for {', '.join(PARTS)} that sum to 1", got=tuple(fractions), remedy="e.g. [0.8,0.1,0.1]"
        )
    parts = sum(share > 0 for share in fractions)
    held_out = [max(1, round(count * share)) if share and count >= parts else 0 for share in fractions[1:]]
    sizes = [count - sum(held_out), *held_out]
    ends = np.cumsum(sizes).tolist()
    return {part: [[end - size, end]] if size else [] for part, size, end in zip(PARTS, sizes, ends, strict=True)}


def indices_of(split: Split, part: str) -> Int[np.ndarray, " index"]:
    """All indices of a part."""
    if part not in split:
        raise ArchiveError(expected=f"a part among {sorted(split)}", got=repr(part), remedy="name one of them")
    return np.concatenate([np.arange(0), *(np.arange(first, last) for first, last in split[part])])

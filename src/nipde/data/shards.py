"""Shards of a Zarr v3 array, system by system: the specification's sharding codec, crc32c throughout, index last.

zarr-python can write the same bytes, but wants a whole shard in memory and passes every chunk through its event
loop; at 176 kB a chunk that costs several times the checksum and the copy (docs/design.md has the figures).
Reading is left to zarr.
"""

import itertools
from collections.abc import Iterable, Iterator

import google_crc32c
import numpy as np

from nipde.data.layout import ArrayLayout, chunk_key, layout_of, stored
from nipde.data.plan import Plan
from nipde.data.storage import Piece, Storage
from nipde.data.system import System

#: Index entry of a chunk that is not there because it would lie outside the array.
ABSENT = np.iinfo(np.uint64).max


class ShardEncoder:
    """Turns the entries of one shard, in order, into the bytes of its file."""

    def __init__(self, layout: ArrayLayout) -> None:
        self._layout = layout
        self._rows: list[np.ndarray] = []
        if layout.shards is not None:
            counts = [shard // chunk for shard, chunk in zip(layout.shards, layout.chunks, strict=True)]
            self._index = np.full((*counts, 2), ABSENT, dtype="<u8")
            self._entry = self._offset = 0
            cuts = [
                [slice(at * chunk, (at + 1) * chunk) for at in range(count)]
                for count, chunk in zip(counts[1:], layout.chunks[1:], strict=True)
            ]
            self._chunks = list(zip(np.ndindex(*counts[1:]), itertools.product(*cuts), strict=True))

    def add(self, entry: np.ndarray) -> Iterator[Piece]:
        """Bytes to append for the next entry along the first axis; small arrays wait for the end."""
        if self._layout.shards is None:
            self._rows.append(entry)
            return
        for place, inside in self._chunks:
            values, checksum = _checked(_filled(entry[inside], self._layout.chunks[1:]))
            yield values
            yield checksum
            length = len(values) + len(checksum)
            self._index[(self._entry, *place)] = self._offset, length
            self._offset += length
        self._entry += 1

    def finish(self) -> Iterator[Piece]:
        """Bytes that end the file: the index of a sharded array, all of a small one."""
        if self._layout.shards is None:
            yield from _checked(_filled(np.stack(self._rows), self._layout.chunks))
        else:
            yield from _checked(self._index)


def write_shard(plan: Plan, shard: int, systems: Iterable[System], storage: Storage) -> dict[str, str]:
    """Write every array's file of a shard, holding one system at a time; returns the files' digests."""
    growing = {name: layout for name, layout in layout_of(plan).items() if layout.by_system}
    encoders = {name: ShardEncoder(layout) for name, layout in growing.items()}
    keys = [chunk_key(name, layout, shard) for name, layout in growing.items()]
    with storage.create(keys) as sinks:
        for system in systems:
            for sink, (name, encoder) in zip(sinks, encoders.items(), strict=True):
                sink.extend(encoder.add(stored(name, system)))
            del system  # its memory, still in the cache, serves the next one
        for sink, encoder in zip(sinks, encoders.values(), strict=True):
            sink.extend(encoder.finish())
    return {key: sink.digest for key, sink in zip(keys, sinks, strict=True)}


def encode(layout: ArrayLayout, entries: np.ndarray) -> bytes:
    """A whole file at once, for arrays that do not grow with the systems."""
    encoder = ShardEncoder(layout)
    pieces = [piece for entry in entries for piece in encoder.add(entry)]
    return b"".join([*pieces, *encoder.finish()])


def _checked(values: np.ndarray) -> tuple[Piece, Piece]:
    """Little-endian values, not copied if they lie in order, and their checksum."""
    data = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
    return data, google_crc32c.value(data).to_bytes(4, "little")


def _filled(block: np.ndarray, chunks: tuple[int, ...]) -> np.ndarray:
    """A chunk that reaches beyond the array's edge, filled up to its full size."""
    if block.shape == chunks:
        return block
    full = np.full(chunks, np.nan if block.dtype.kind == "f" else 0, dtype=block.dtype)
    full[tuple(slice(size) for size in block.shape)] = block
    return full

"""One shard of a Zarr v3 array as bytes: the sharding codec of the specification, index at the end, crc32c throughout.

zarr-python writes the same bytes, but passes every chunk through its event loop; at 176 kB a chunk that costs
several times the copy and the checksum themselves (docs/design.md has the figures). Reading is left to zarr.
"""

import itertools

import google_crc32c
import numpy as np

#: Index entry of a chunk that is not there (it would lie outside the array).
ABSENT = np.iinfo(np.uint64).max


def encode_chunk(block: np.ndarray, chunks: tuple[int, ...]) -> bytes:
    """A single chunk: little-endian values and their checksum; beyond the array's edge it is filled up."""
    if block.shape != chunks:
        full = np.full(chunks, _fill(block.dtype), dtype=block.dtype)
        full[tuple(slice(size) for size in block.shape)] = block
        block = full
    return _checked(np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<")))


def encode_shard(block: np.ndarray, chunks: tuple[int, ...], shards: tuple[int, ...]) -> bytes:
    """All chunks of one shard, then offset and length of each."""
    counts = tuple(shard // chunk for shard, chunk in zip(shards, chunks, strict=True))
    index = np.full((*counts, 2), ABSENT, dtype="<u8")
    pieces, offset = [], 0
    for place in itertools.product(*map(range, counts)):
        corner = [at * chunk for at, chunk in zip(place, chunks, strict=True)]
        if all(first < size for first, size in zip(corner, block.shape, strict=True)):
            inside = tuple(slice(first, first + chunk) for first, chunk in zip(corner, chunks, strict=True))
            pieces.append(encode_chunk(block[inside], chunks))
            index[place] = offset, len(pieces[-1])
            offset += len(pieces[-1])
    return b"".join([*pieces, _checked(index)])


def _checked(values: np.ndarray) -> bytes:
    data = values.tobytes()
    return data + google_crc32c.value(data).to_bytes(4, "little")


def _fill(dtype: np.dtype) -> float | int:
    return float("nan") if dtype.kind == "f" else 0

"""The Zarr arrays of an archive, and the bytes of their shards; reading is left to zarr.

One schema for every problem (docs/reference/data-format.md). A reader fetches chunks, a task writes shards.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import google_crc32c
import numpy as np
import zarr
from zarr.codecs import Crc32cCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.metadata.v3 import ArrayV3Metadata
from zarr.core.sync import sync
from zarr.storage import MemoryStore

from nipde.data.checked_json import parsed
from nipde.data.plan import Plan
from nipde.data.storage import Piece, Storage
from nipde.data.system import System
from nipde.errors import ArchiveError

FORMAT = "nipde-archive"
FORMAT_VERSION = 1
#: A chunk holds at most this many bytes of one system's pairs.
CHUNK_BYTES = 8 * 2**20
CHECKSUM_BYTES = 4
#: Index entry of a chunk that is not there because it would lie outside the array.
ABSENT = np.iinfo(np.uint64).max


@dataclass(frozen=True)
class ArrayLayout:
    """One array: its shape, its axes, how it is cut."""

    shape: tuple[int, ...]
    dimensions: tuple[str, ...]
    dtype: str
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None = None
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def by_system(self) -> bool:
        """Whether the array grows with the systems, shard by shard."""
        return self.dimensions[0] == "system"


def layout_of(plan: Plan) -> dict[str, ArrayLayout]:
    """All arrays of the planned archive."""
    recipe, grid, width = plan.recipe, plan.recipe.grid, plan.systems_per_shard
    space, quantities = grid.axis_names, plan.recipe.quantities

    def fields(role: str, pairs: int | None) -> ArrayLayout:
        quantity = getattr(quantities, role)
        one = (len(quantity.components), *grid.shape)
        names = ("component", *space)
        if pairs is not None:
            most = max(1, CHUNK_BYTES // (prod(one) * np.dtype(recipe.precision).itemsize))
            together = -(-pairs // -(-pairs // most))
            chunk, whole = (together, *one), (-(-pairs // together) * together, *one)
            one, names = (pairs, *one), ("pair", *names)
        else:
            chunk = whole = one
        shared = role == "load" and recipe.shared_loads
        systems, width = (1, 1) if shared else (plan.systems, plan.systems_per_shard)
        return ArrayLayout(
            shape=(systems, *one),
            dimensions=("load_set" if shared else "system", *names),
            dtype=recipe.precision,
            chunks=(1, *chunk),
            shards=(width, *whole),
            attributes={"quantity": quantity.name, "unit": quantity.unit, "components": list(quantity.components)},
        )

    parameters, diagnostics = recipe.parameter_names, recipe.diagnostic_names
    arrays = {
        "loads": fields("load", recipe.pairs),
        "responses": fields("response", recipe.pairs),
        "hidden": fields("hidden", None),
        "seed": ArrayLayout((plan.systems,), ("system",), "uint64", (width,)),
        "parameters": ArrayLayout(
            (plan.systems, len(parameters)), ("system", "parameter"), "float64", (width, len(parameters)),
            attributes={"names": list(parameters)},
        ),
        "diagnostics": ArrayLayout(
            (plan.systems, recipe.pairs, len(diagnostics)), ("system", "pair", "diagnostic"), "float64",
            (width, recipe.pairs, len(diagnostics)), attributes={"names": list(diagnostics)},
        ),
    }  # fmt: skip
    if recipe.fine_shape is not None:
        one = (len(quantities.hidden.components), *recipe.fine_shape)
        names = ("system", "component", *(f"fine_{name}" for name in space))
        attributes = arrays["hidden"].attributes
        arrays["fine"] = ArrayLayout(
            (plan.systems, *one), names, recipe.precision, (1, *one), (width, *one), attributes
        )
    for name, axis in zip(space, grid.axes, strict=True):
        arrays[name] = ArrayLayout((axis.nodes,), (name,), "float64", (axis.nodes,))
    return arrays


def stored(name: str, system: System) -> np.ndarray:
    """One array of a system, as it is stored."""
    if name in ("parameters", "diagnostics"):
        return np.stack(list(getattr(system, name).values()), axis=-1)
    return np.asarray(getattr(system, name))


def chunk_key(name: str, layout: ArrayLayout, shard: int) -> str:
    """File of one shard of an array; flat names keep folders, and the syncs a rename needs, few."""
    return f"{name}/c.{shard}" + ".0" * (len(layout.shape) - 1)


def file_sizes(plan: Plan, layouts: dict[str, ArrayLayout], shard: int | None = None) -> dict[str, int]:
    """Bytes of every file of a shard or, without one, of the arrays that do not grow with the systems."""
    chosen = {name: layout for name, layout in layouts.items() if layout.by_system == (shard is not None)}
    sizes = {}
    for name, layout in chosen.items():
        entries = layout.shape[0] if shard is None else len(plan.systems_of(shard))
        chunk = prod(layout.chunks) * np.dtype(layout.dtype).itemsize + CHECKSUM_BYTES
        if layout.shards is not None:  # one system is one entry: chunks, and two numbers for each in the index
            count = prod(layout.shards[1:]) // prod(layout.chunks[1:])
            chunk = entries * count * chunk + layout.shards[0] * count * 16 + CHECKSUM_BYTES
        sizes[chunk_key(name, layout, shard or 0)] = chunk
    return sizes


def check_metadata(plan: Plan, contents: dict[str, bytes]) -> dict[str, bytes]:
    """The plan's own metadata; an ArchiveError where that of an archive says other things."""
    expected = metadata_files(plan)
    for key, data in contents.items():
        record, meant = parsed(data, key), ArrayV3Metadata.from_dict(json.loads(expected[key])).to_dict()
        try:
            same = ArrayV3Metadata.from_dict(record).to_dict() == meant
        except Exception:  # of zarr, about anything that a hostile file may hold
            same = False
        if not same:
            raise ArchiveError(f"{key} does not describe the array of its plan", remedy="use the nipde that wrote it")
    return expected


def metadata_files(plan: Plan) -> dict[str, bytes]:
    """Every zarr.json, as zarr writes it."""
    store = MemoryStore()
    group = zarr.create_group(store, attributes=attributes_of(plan), zarr_format=3)
    encoding: Any = {"name": "default", "separator": "."}
    for name, layout in layout_of(plan).items():
        as_laid_out = {one: getattr(layout, one) for one in ("shape", "dtype", "chunks", "shards", "attributes")}
        group.create_array(
            name, **as_laid_out, dimension_names=layout.dimensions, compressors=[Crc32cCodec()],
            fill_value=np.nan if layout.dtype.startswith("float") else 0, chunk_key_encoding=encoding,
        )  # fmt: skip
    names = ["zarr.json", *(f"{name}/zarr.json" for name in layout_of(plan))]
    return {name: _bytes(store, name) for name in names}


def attributes_of(plan: Plan) -> dict[str, Any]:
    """What a person or another program needs to read the group."""
    attribution = plan.recipe.attribution
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "plan": plan.to_dict(),
        "grid": plan.recipe.grid.to_dict(),
        "quantities": dataclasses.asdict(plan.recipe.quantities),
        "split": plan.splits,
        **({"attribution": attribution} if attribution else {}),
    }


def _bytes(store: MemoryStore, key: str) -> bytes:
    buffer = sync(store.get(key, default_buffer_prototype()))
    assert buffer is not None
    return buffer.to_bytes()


class ShardEncoder:
    """Turns the entries of one shard, in order, into the bytes of its file: Zarr's sharding codec, index last.

    zarr-python can write the same bytes, but wants a whole shard in memory and passes every chunk through its event
    loop; at 176 kB a chunk that costs several times the checksum and the copy (figures: docs/explanation/design.md).
    """

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
    return data, google_crc32c.value(data).to_bytes(CHECKSUM_BYTES, "little")


def _filled(block: np.ndarray, chunks: tuple[int, ...]) -> np.ndarray:
    """A chunk that reaches beyond the array's edge, filled up to its full size."""
    if block.shape == chunks:
        return block
    full = np.full(chunks, np.nan if block.dtype.kind == "f" else 0, dtype=block.dtype)
    full[tuple(slice(size) for size in block.shape)] = block
    return full

"""The Zarr arrays of an archive: names, axes, chunks and shards.

One schema for every problem (docs/data-format.md). Chunks are what a reader fetches, shards what a task writes.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

from nipde.data.plan import Plan
from nipde.data.system import System
from nipde.grid import AXES

FORMAT = "nipde-archive"
FORMAT_VERSION = 1
#: A chunk holds at most this many bytes of one system's pairs.
CHUNK_BYTES = 8 * 2**20


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
    space, quantities = AXES[: grid.dimension], plan.recipe.quantities

    def fields(role: str, pairs: int | None) -> ArrayLayout:
        quantity = getattr(quantities, role)
        one = (len(quantity.components), *grid.shape)
        names = ("component", *space)
        if pairs is not None:
            most = max(1, CHUNK_BYTES // (int(np.prod(one)) * np.dtype(recipe.precision).itemsize))
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
            attributes={
                "quantity": quantity.name,
                "unit": quantity.unit,
                "components": list(quantity.components),
            },
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


def metadata_files(plan: Plan) -> dict[str, bytes]:
    """Every zarr.json, as zarr writes it."""
    store = MemoryStore()
    group = zarr.create_group(store, attributes=attributes_of(plan), zarr_format=3)
    for name, layout in layout_of(plan).items():
        group.create_array(
            name,
            shape=layout.shape,
            dtype=layout.dtype,
            chunks=layout.chunks,
            shards=layout.shards,
            compressors=[Crc32cCodec()],
            fill_value=np.nan if layout.dtype.startswith("float") else 0,
            dimension_names=layout.dimensions,
            attributes=layout.attributes,
            chunk_key_encoding={"name": "default", "separator": "."},
        )
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

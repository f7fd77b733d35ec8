"""Physics to archive on a cluster of workers; a killed run is continued by starting it again.

One task makes one shard and then leaves a record of its digests. A task that finds a record whose files are intact
returns it at once, so continuing is nothing but running everything again. The manifest, written last, gathers the
records. Seeds belong to systems, never to workers.
"""

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from nipde.atomic import PARTIAL
from nipde.data.archive import METADATA_BYTES, Archive
from nipde.data.checked_json import parsed
from nipde.data.cluster import working
from nipde.data.freed_memory import keep_freed_memory
from nipde.data.layout import chunk_key, encode, file_sizes, layout_of, metadata_files, write_shard
from nipde.data.manifest import MANIFEST, PROGRESS, Manifest, ShardRecord, digest_of, sha256, versions
from nipde.data.plan import Plan
from nipde.data.storage import MISSING, Storage
from nipde.errors import ArchiveError, IntegrityError

#: Called with (systems that became ready, of which computed just now) after every shard.
Progress = Callable[[int, int], None]


def generate(
    plan: Plan,
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    options: dict[str, Any] | None = None,
    progress: Progress = lambda ready, computed: None,
) -> Archive:
    """Make the planned archive at `out`, or finish it, and open it.

    `workers` local processes do the work (default: one per core), or those of a running dask scheduler at the
    address `scheduler`. One worker is this process itself.
    """
    storage = Storage.at(out, options)
    if is_finished(storage, plan):
        clear(storage)
        return Archive(storage)
    everything = range(plan.shards)
    try:
        manifest = make_shards(plan, storage, everything, workers=workers, scheduler=scheduler, progress=progress)
    except KeyboardInterrupt:
        if scheduler is None:  # all workers have ended, some in the middle of a file
            storage.delete([key for key in storage.listing() if key.endswith(PARTIAL)])
        raise
    return finish(storage, manifest)


def make_shards(
    plan: Plan,
    storage: Storage,
    shards: Iterable[int],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Progress = lambda ready, computed: None,
) -> Manifest:
    """Make some shards, and all files of no shard; returns the list of these. Nothing is written if no one can work."""
    plan.recipe.ready()
    plan.recipe.build(plan.system_seed(0), shared_seed=plan.shared_seed)  # options no system can have leave no file
    files, records = _fixed_files(plan), []
    fixed = {key: sha256(data) for key, data in files.items()}
    with working(workers, scheduler) as work:
        for key in sorted(files, key=lambda key: key != "zarr.json"):  # the root first: it says whose place this is
            storage.write(key, files[key])
        for record, computed in work(partial(make_shard, plan, storage, fixed=digest_of(fixed)), shards):
            records.append(record)
            ready = len(plan.systems_of(record.shard))
            progress(ready, ready if computed else 0)
    return Manifest(fixed, sorted(records, key=lambda record: record.shard))


def finish(storage: Storage, manifest: Manifest) -> Archive:
    """Write the manifest, which makes the archive readable, and remove what only a run in progress needs."""
    storage.write(MANIFEST, manifest.to_bytes())
    clear(storage)
    return Archive(storage)


def repair(archive: Archive) -> list[int]:
    """Compute damaged shards of an archive again from their seeds; returns which.

    Raises an IntegrityError where the result is not what the manifest lists, or where metadata is damaged.
    """
    mended = []
    for record in archive.manifest.shards:
        if not _is_intact(archive.plan, archive.storage, record):
            if _write_shard(archive.plan, archive.storage, record.shard) != record.files:
                raise IntegrityError(
                    f"shard {record.shard} cannot be reproduced here",
                    remedy=f"copy it from where the archive came from, or use {record.versions}",
                )
            mended.append(record.shard)
    archive.verify()
    return mended


def make_shard(plan: Plan, storage: Storage, shard: int, *, fixed: str) -> tuple[ShardRecord, bool]:
    """One shard, on disk and recorded as belonging to the `fixed` files; True if it had to be computed."""
    earlier = intact_record(plan, storage, shard, fixed=fixed)
    if earlier is not None:
        return earlier, False
    record = ShardRecord(shard, _write_shard(plan, storage, shard), versions(*plan.recipe.stands_on), fixed)
    storage.write(record.key, record.to_bytes())
    return record, True


def _write_shard(plan: Plan, storage: Storage, shard: int) -> dict[str, str]:
    """Compute and write one shard; returns its files' digests."""
    keep_freed_memory()
    seeds = (plan.system_seed(system) for system in plan.systems_of(shard))
    systems = (plan.recipe.build(seed, shared_seed=plan.shared_seed) for seed in seeds)
    return write_shard(plan, shard, systems, storage)


def _fixed_files(plan: Plan) -> dict[str, bytes]:
    """Files that do not depend on any system: metadata, coordinates, shared loads."""
    layout, files = layout_of(plan), metadata_files(plan)
    grid = plan.recipe.grid
    values = {name: axis.coordinates for name, axis in zip(grid.axis_names, grid.axes, strict=True)}
    if plan.shared_seed is not None:
        values["loads"] = plan.recipe.loads_of(plan.shared_seed)[None]
    for name, entries in values.items():
        files[chunk_key(name, layout[name], 0)] = encode(layout[name], entries)
    return files


def clear(storage: Storage) -> None:
    """Remove what only a run in progress needs."""
    storage.delete([PROGRESS, *(key for key in storage.listing() if key.endswith(PARTIAL))])


def intact_record(plan: Plan, storage: Storage, shard: int, *, fixed: str) -> ShardRecord | None:
    """The record an earlier run of this plan left, if each file of the shard still has its digest."""
    try:
        record = ShardRecord.from_bytes(storage.read(ShardRecord(shard, {}, {}).key, 0, METADATA_BYTES))
    except (*MISSING, IntegrityError):
        return None
    return record if (record.shard, record.fixed) == (shard, fixed) and _is_intact(plan, storage, record) else None


def _is_intact(plan: Plan, storage: Storage, record: ShardRecord) -> bool:
    sizes = file_sizes(plan, layout_of(plan), record.shard)
    try:
        return {key: storage.digest(key, size) for key, size in sizes.items()} == record.files
    except (*MISSING, IntegrityError):
        return False


def is_finished(storage: Storage, plan: Plan) -> bool:
    """Whether the place holds this very archive already; raises if it holds anything else."""
    root = _root(storage)
    if root is None:
        keys = [key for key in storage.listing() if not key.endswith(PARTIAL)]
        if not keys:
            return False
        root = _root(storage)  # another job may have begun just now
    try:
        stored = parsed(root or b"", "zarr.json")["attributes"]["plan"]
        changed = sorted(key for key, value in plan.to_dict().items() if stored.get(key) != value)
    except (IntegrityError, KeyError, TypeError, AttributeError):
        raise ArchiveError(
            f"{storage.address} is not empty", expected="a new place or the same plan's unfinished archive",
            got=f"files such as {next(iter(storage.listing()), 'zarr.json')}",
            remedy="choose another place for the archive",
        ) from None  # fmt: skip
    if changed:
        raise ArchiveError(
            f"{storage.address} holds another archive", expected=f"the same {', '.join(changed)}",
            got=f"{ {key: stored.get(key) for key in changed} }", remedy="choose another place or delete that one",
        )  # fmt: skip
    try:
        return storage.size(MANIFEST) > 0
    except MISSING:
        return False


def _root(storage: Storage) -> bytes | None:
    """What says whose place this is; one request, where a listing of a large archive takes hundreds."""
    try:
        return storage.read("zarr.json", 0, METADATA_BYTES)
    except (*MISSING, IntegrityError):
        return None

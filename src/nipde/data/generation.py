"""Physics to archive on a cluster of workers; a killed run is continued by starting it again.

One task makes one shard and then leaves a record of its digests. A task that finds a record whose files are intact
returns it at once, so continuing is nothing but running everything again. The manifest, written last, gathers the
records. Seeds belong to systems, never to workers.
"""

import ctypes
import logging
import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import cache
from typing import Any

from nipde.atomic import PARTIAL
from nipde.data.archive import METADATA_BYTES, Archive
from nipde.data.checked_json import parsed
from nipde.data.layout import chunk_key, encode, file_sizes, layout_of, metadata_files, write_shard
from nipde.data.manifest import MANIFEST, PROGRESS, Manifest, ShardRecord, sha256, versions
from nipde.data.plan import Plan
from nipde.data.storage import MISSING, Storage
from nipde.errors import ArchiveError, IntegrityError, needing

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's numbers for mallopt
#: Blocks up to this size, and this much free memory, stay with the process.
KEEP_BYTES = 64 * 2**20
#: Called with (systems that became ready, of which computed just now) after every shard.
Progress = Callable[[int, int], None]
#: Finished shards as they come, True with those that were computed just now.
Records = Generator[tuple[ShardRecord, bool], None, None]


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
    address `scheduler`. One worker is this process itself: a cluster of one would only cost its start.
    """
    if workers is not None and workers < 1:
        raise ArchiveError(expected="at least one worker", got=workers, remedy="leave it out for one per core")
    storage = Storage.at(out, options)
    if _is_finished(storage, plan):
        _clear(storage)
        return Archive(storage)
    plan.recipe.ready()
    plan.recipe.build(plan.system_seed(0), shared_seed=plan.shared_seed)  # options no system can have leave no file
    fixed = _fixed_files(plan)
    for key in sorted(fixed, key=lambda key: key != "zarr.json"):  # the root first: it says whose place this is
        storage.write(key, fixed[key])
    records = {}
    try:
        with closing(_run(plan, storage, workers, scheduler)) as finished:
            for record, computed in finished:
                records[record.shard] = record
                ready = len(plan.systems_of(record.shard))
                progress(ready, ready if computed else 0)
    except KeyboardInterrupt:
        if scheduler is None:  # all workers have ended, some in the middle of a file
            storage.delete([key for key in storage.listing() if key.endswith(PARTIAL)])
        raise
    manifest = Manifest({key: sha256(data) for key, data in fixed.items()}, [records[i] for i in range(plan.shards)])
    storage.write(MANIFEST, manifest.to_bytes())
    _clear(storage)
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


def make_shard(plan: Plan, storage: Storage, shard: int) -> tuple[ShardRecord, bool]:
    """One shard, on disk and recorded; True if it had to be computed."""
    earlier = _intact_record(plan, storage, shard)
    if earlier is not None:
        return earlier, False
    record = ShardRecord(shard, _write_shard(plan, storage, shard), versions(*plan.recipe.stands_on))
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


def _clear(storage: Storage) -> None:
    """Remove what only a run in progress needs."""
    storage.delete([PROGRESS, *(key for key in storage.listing() if key.endswith(PARTIAL))])


def _intact_record(plan: Plan, storage: Storage, shard: int) -> ShardRecord | None:
    """The record an earlier run left, if it lists the files of this shard and each still has its digest."""
    try:
        record = ShardRecord.from_bytes(storage.read(ShardRecord(shard, {}, {}).key, 0, METADATA_BYTES))
    except (*MISSING, IntegrityError):
        return None
    return record if record.shard == shard and _is_intact(plan, storage, record) else None


def _is_intact(plan: Plan, storage: Storage, record: ShardRecord) -> bool:
    sizes = file_sizes(plan, layout_of(plan), record.shard)
    try:
        return {key: storage.digest(key, size) for key, size in sizes.items()} == record.files
    except (*MISSING, IntegrityError):
        return False


def _is_finished(storage: Storage, plan: Plan) -> bool:
    """Whether the place holds this very archive already; raises if it holds anything else."""
    keys = [key for key in storage.listing() if not key.endswith(PARTIAL)]
    if not keys:
        return False
    try:
        stored = parsed(storage.read("zarr.json", 0, METADATA_BYTES), "zarr.json")["attributes"]["plan"]
        changed = sorted(key for key, value in plan.to_dict().items() if stored.get(key) != value)
    except (*MISSING, IntegrityError, KeyError, TypeError, AttributeError):
        raise ArchiveError(
            f"{storage.address} is not empty", expected="a new place or the same plan's unfinished archive",
            got=f"files such as {keys[0]}", remedy="choose another place for the archive",
        ) from None  # fmt: skip
    if changed:
        raise ArchiveError(
            f"{storage.address} holds another archive", expected=f"the same {', '.join(changed)}",
            got=f"{ {key: stored.get(key) for key in changed} }", remedy="choose another place or delete that one",
        )  # fmt: skip
    return MANIFEST in keys


@contextmanager
def local_cluster(workers: int) -> Iterator[str]:
    """Worker processes on this machine; yields the address of their scheduler."""
    with needing("dask.distributed", extra="data", remedy=", or use workers=1"):
        import dask
        from distributed import LocalCluster
    # Its sampling profiler can deadlock with a thread that is just ending (CPython issue 106883, Python 3.11).
    quiet = {"distributed.worker.profile.enabled": False, "logging.tornado": "critical"}
    with dask.config.set(quiet):
        with _without_interrupts():
            cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        with cluster:
            try:
                yield cluster.scheduler_address
            except (KeyboardInterrupt, GeneratorExit):  # what is lost with the workers is nobody's concern
                for name in ("distributed", "tornado"):
                    logging.getLogger(name).setLevel(logging.CRITICAL)
                raise


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started in this block ignore Ctrl-C, which a terminal sends to all of them; this one obeys it later.

    Threads and processes inherit the mask. multiprocessing's tracker would lift it when it starts: it must run before.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows: Ctrl-C ends all of them
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(plan: Plan, storage: Storage, workers: int | None, scheduler: str | None) -> Records:
    """Finished records, in the order they finish."""
    count = workers or _cores()
    if scheduler is not None:
        yield from _run_on_cluster(plan, storage, scheduler)
    elif count == 1:
        yield from (make_shard(plan, storage, shard) for shard in range(plan.shards))
    else:
        with local_cluster(count) as address:
            yield from _run_on_cluster(plan, storage, address)


def _cores() -> int:
    """Those this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_on_cluster(plan: Plan, storage: Storage, scheduler: str) -> Records:
    from distributed import Client, as_completed

    try:
        client = Client(scheduler)
    except (OSError, ValueError) as error:
        raise ArchiveError(
            expected=f"a dask scheduler at {scheduler}", got=error, remedy="start one with: dask scheduler"
        ) from error
    with client:
        futures = client.map(lambda shard: make_shard(plan, storage, shard), range(plan.shards), pure=False)
        for future in as_completed(futures):
            yield future.result()
            future.release()


@cache
def keep_freed_memory(free: int = KEEP_BYTES) -> bool:
    """Ask the C library to keep up to `free` freed bytes for the next system; False where it has no such switch.

    By default it returns them to the kernel, which clears every page again on the next use; dask's workers do so
    eagerly and spend a large part of a small solve on it (figures: docs/explanation/design.md).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # TypeError: Windows has no library of the process itself
        return False
    # Only what glibc returns 1 for took effect; its largest mmap threshold is 32 MiB.
    return bool(mallopt(_MMAP_THRESHOLD, KEEP_BYTES // 2) and mallopt(_TRIM_THRESHOLD, free))

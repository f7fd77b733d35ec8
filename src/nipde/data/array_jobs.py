"""One archive by n jobs that never talk to each other: job i makes the shards i - 1, i - 1 + n, i - 1 + 2n, …

Jobs may run in any order, on any machine that sees the place, again after a kill, or twice at once: every file is whole
or absent, and the same whoever writes it. The last step reads every byte and writes the manifest.
"""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from nipde.data.archive import METADATA_BYTES, Archive
from nipde.data.cluster import cores
from nipde.data.generation import Progress, finish, intact_record, is_finished, make_shards
from nipde.data.layout import file_sizes, layout_of
from nipde.data.manifest import Manifest, ShardRecord, digest_of, sha256
from nipde.data.plan import Plan
from nipde.data.storage import MISSING, Storage
from nipde.errors import ArchiveError, IntegrityError

#: An error names at most so many jobs or shards.
NAMED = 20


def generate_share(
    plan: Plan,
    out: str | os.PathLike[str],
    *,
    job: int,
    jobs: int,
    workers: int | None = None,
    options: dict[str, Any] | None = None,
    progress: Progress = lambda ready, computed: None,
) -> None:
    """Make the shards of job `job` of `jobs` (from 1); those that are there and intact are kept.

    `workers` local processes do the work (default: one per core). `merge_shares` comes after the last job.
    """
    share, storage = share_of(plan, job=job, jobs=jobs), Storage.at(out, options)
    if is_finished(storage, plan):
        progress(sum(len(plan.systems_of(shard)) for shard in share), 0)
        return
    fixed = _stored_fixed(plan, storage)
    missing = []
    for shard, record in zip(share, _intact(plan, storage, share, fixed, workers), strict=True):
        if record is None:
            missing.append(shard)
        else:
            progress(len(plan.systems_of(shard)), 0)
    if missing:
        make_shards(plan, storage, missing, workers=workers, progress=progress)


def merge_shares(
    plan: Plan,
    out: str | os.PathLike[str],
    *,
    jobs: int,
    workers: int | None = None,
    options: dict[str, Any] | None = None,
    progress: Progress = lambda ready, computed: None,
) -> Archive:
    """Check every byte that `jobs` jobs have written, by `workers` threads, write the manifest and open the archive.

    An ArchiveError names the jobs to run again where shards are missing, damaged or of another archive.
    """
    storage, everything = Storage.at(out, options), range(plan.shards)
    if is_finished(storage, plan):
        return Archive(storage)
    fixed = _stored_fixed(plan, storage)
    records: list[ShardRecord] = []
    missing = []
    for shard, record in zip(everything, _intact(plan, storage, everything, fixed, workers), strict=True):
        if record is None:
            missing.append(shard)
        else:
            records.append(record)
            progress(len(plan.systems_of(shard)), 0)
    if missing:
        again = sorted({shard % jobs + 1 for shard in missing})
        raise ArchiveError(
            f"{storage.address} is not complete", expected=f"{plan.shards} intact shards of {jobs} jobs",
            got=f"{len(missing)} missing or damaged ({_some(missing)})",
            remedy=f"run again --shard {_some(f'{job}/{jobs}' for job in again)}",
        )  # fmt: skip
    return finish(storage, Manifest(fixed, records))


def share_of(plan: Plan, *, job: int, jobs: int) -> range:
    """The shards of one job; none where there are more jobs than shards."""
    if not 1 <= job <= jobs:
        raise ArchiveError(expected=f"a job from 1 to {jobs}", got=job, remedy="jobs are counted from 1")
    return range(job - 1, plan.shards, jobs)


def _stored_fixed(plan: Plan, storage: Storage) -> dict[str, str]:
    """Digests of the files of no shard as they are stored; empty if one is missing.

    They are not computed again: shared loads could differ in their last bit on a machine of another kind.
    """
    layout = layout_of(plan)
    metadata = ["zarr.json", *(f"{name}/zarr.json" for name in layout)]
    sizes = file_sizes(plan, layout) | dict.fromkeys(metadata, METADATA_BYTES)
    try:
        return {key: sha256(storage.read(key, 0, size)) for key, size in sizes.items()}
    except (*MISSING, IntegrityError):
        return {}


def _intact(
    plan: Plan, storage: Storage, shards: Iterable[int], fixed: dict[str, str], workers: int | None
) -> Iterable[ShardRecord | None]:
    """Records of the shards that are there whole, in order; threads, since reading and digesting wait for the disk."""
    with ThreadPoolExecutor(workers or cores()) as threads:
        yield from threads.map(partial(intact_record, plan, storage, fixed=digest_of(fixed)), shards)


def _some(things: Iterable[Any]) -> str:
    texts = [str(one) for one in things]
    return ", ".join(texts[:NAMED]) + (f" and {len(texts) - NAMED} more" if len(texts) > NAMED else "")

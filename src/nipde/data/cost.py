"""What an archive will take, before it is made: bytes, files, hours, failures, money, and what gives way first.

    core hours = (systems · s + shards · c) / 3600 · (1 + λ (t/2 + r))

s and c are processor seconds per system and per shard, measured on a few systems of the plan itself. t hours make one
shard; each of λ failures per core hour loses half of one, and r hours until the job runs again. Bytes and files are
exact. Failures, cores and prices are the user's; there are no defaults for prices.
"""

import tempfile
import time
from dataclasses import dataclass, replace
from math import exp

from nipde.data.generation import intact_record, make_shard
from nipde.data.layout import file_sizes, layout_of, metadata_files
from nipde.data.manifest import MANIFEST_BYTES, Manifest, ShardRecord, versions
from nipde.data.plan import MOST_SHARDS, Plan
from nipde.data.storage import Storage

#: Processor seconds that a calibration may take, about.
PATIENCE = 3.0
#: Files that one answer of an object store lists.
LISTED = 1000


@dataclass(frozen=True)
class Speed:
    """Of one core of a machine, for the systems of one recipe; processor seconds, so waiting for a disk is left out."""

    #: To draw, solve, digest and write one system.
    system_seconds: float
    #: More for every shard: six or seven files and a record.
    shard_seconds: float
    #: To read and digest what was written, as a merge does: per byte, and more for every shard.
    check_seconds_per_byte: float
    check_shard_seconds: float = 0.0


@dataclass(frozen=True)
class Machines:
    """What a person knows of the machines; prices in any currency, None where nothing is to be paid."""

    cores: int = 1
    #: Failures of a job per core and hour: 1 over the mean hours between two.
    failures: float = 0.0
    #: Hours until a failed job runs again.
    restart_hours: float = 0.0
    #: Hours that a job may run.
    job_hours: float = 24.0
    #: Files that a folder holds before listing or opening becomes slow.
    folder_files: float = 1e6
    #: Tasks that a dask scheduler hands out per second (`results/dask-tasks.json` has those of one machine).
    tasks_per_second: float = 100.0
    #: Seconds of one request to an object store.
    request_seconds: float = 0.1
    price_core_hour: float | None = None
    price_terabyte_month: float | None = None
    months: float = 12.0


@dataclass(frozen=True)
class Limit:
    """One thing that does not grow for ever: how much there is of it, and how much there may be."""

    what: str
    value: float
    limit: float

    @property
    def share(self) -> float:
        """1 where it gives way."""
        return self.value / self.limit


@dataclass(frozen=True)
class Estimate:
    """Of one archive on some machines."""

    systems: int
    shards: int
    bytes: int
    files: int
    manifest_bytes: int
    core_hours: float
    #: On all cores, with the failures.
    hours: float
    #: Then, to check every byte by one thread.
    merge_hours: float
    failures: float
    #: That no job fails.
    calm: float
    lost_core_hours: float
    #: Bytes per second that the storage must take from all cores together.
    bandwidth: float
    cost: float | None
    #: The nearest first.
    limits: tuple[Limit, ...]


def estimate(plan: Plan, speed: Speed, machines: Machines | None = None) -> Estimate:
    """What the planned archive takes at that speed."""
    machines = machines or Machines()
    shard = file_sizes(plan, layout_of(plan), 0)
    last = file_sizes(plan, layout_of(plan), plan.shards - 1)
    fixed = [*file_sizes(plan, layout_of(plan)).values(), *map(len, metadata_files(plan).values())]
    manifest = _manifest_bytes(plan)
    size = (plan.shards - 1) * sum(shard.values()) + sum(last.values()) + sum(fixed) + manifest
    shard_hours = (plan.systems_per_shard * speed.system_seconds + speed.shard_seconds) / 3600
    calm_hours = (plan.systems * speed.system_seconds + plan.shards * speed.shard_seconds) / 3600
    lost = calm_hours * machines.failures * (shard_hours / 2 + machines.restart_hours)
    merge = (size * speed.check_seconds_per_byte + plan.shards * speed.check_shard_seconds) / 3600
    most = min(machines.cores, plan.shards)
    found = Estimate(
        systems=plan.systems, shards=plan.shards, bytes=size,
        files=plan.shards * len(shard) + len(fixed) + 1, manifest_bytes=manifest, core_hours=calm_hours + lost,
        hours=(calm_hours + lost) / most, merge_hours=merge, failures=calm_hours * machines.failures,
        calm=exp(-calm_hours * machines.failures), lost_core_hours=lost,
        bandwidth=size / (3600 * calm_hours / most), cost=_cost(size, calm_hours + lost + merge, machines), limits=(),
    )  # fmt: skip
    return replace(found, limits=_limits(found, max(shard.values()), shard_hours, most, machines))


def calibrate(plan: Plan, *, seconds: float = PATIENCE) -> Speed:
    """Make one shard of one system, then one of as many as `seconds` allow, in a folder that is removed again."""
    with tempfile.TemporaryDirectory(prefix="nipde-") as folder:
        one = replace(plan, systems=1, shard_systems=1, split=(1.0, 0.0, 0.0))
        _seconds(one, f"{folder}/first")  # what is loaded on first use is not counted
        first, check_first = _seconds(one, f"{folder}/one")
        count = max(2, min(plan.systems, int(seconds / first)))
        some = replace(one, systems=count, shard_systems=count)
        more, check_more = _seconds(some, f"{folder}/some")
    slope = (more - first) / (count - 1)
    few, many = (sum(file_sizes(each, layout_of(each), 0).values()) for each in (one, some))
    per_byte = max(0.0, check_more - check_first) / (many - few)
    return Speed(slope, max(0.0, first - slope), per_byte, max(0.0, check_first - few * per_byte))


def _seconds(plan: Plan, folder: str) -> tuple[float, float]:
    """Of the processor: to make the first shard, and to find it intact."""
    storage, start = Storage(folder), time.process_time()
    make_shard(plan, storage, 0, fixed="")
    made = time.process_time()
    intact_record(plan, storage, 0, fixed="")
    return made - start, time.process_time() - made


def _manifest_bytes(plan: Plan) -> int:
    """Of all shards, each as long as the last: its number has the most digits."""
    layout, digest = layout_of(plan), 64 * "0"
    record = ShardRecord(
        0, dict.fromkeys(file_sizes(plan, layout, plan.shards - 1), digest), versions(*plan.recipe.stands_on)
    )
    fixed = dict.fromkeys([*file_sizes(plan, layout), "zarr.json", *(f"{name}/zarr.json" for name in layout)], digest)
    one, two = (len(Manifest(fixed, [record] * count).to_bytes()) for count in (1, 2))
    return one + (plan.shards - 1) * (two - one)


def _cost(size: float, core_hours: float, machines: Machines) -> float | None:
    if machines.price_core_hour is None or machines.price_terabyte_month is None:
        return None
    return core_hours * machines.price_core_hour + size / 1e12 * machines.months * machines.price_terabyte_month


def _limits(found: Estimate, largest: int, shard_hours: float, cores: int, machines: Machines) -> tuple[Limit, ...]:
    """Everything that grows with the archive, the nearest to its limit first."""
    hours = machines.job_hours
    limits = (
        Limit("shards of one manifest", found.shards, MOST_SHARDS),
        Limit("bytes of the manifest", found.manifest_bytes, MANIFEST_BYTES),
        Limit("files in one folder", found.shards + 1, machines.folder_files),
        Limit("tasks per second of a dask scheduler", cores / (3600 * shard_hours), machines.tasks_per_second),
        Limit("hours to list an object store", found.files / LISTED * machines.request_seconds / 3600, hours),
        Limit("hours of one shard", shard_hours, hours),
        Limit("hours of all jobs", found.hours, hours),
        Limit("hours of the merge, one thread", found.merge_hours, hours),
        Limit("bytes of one object (10,000 parts of 50 MiB)", largest, 10_000 * 50 * 2**20),
    )
    return tuple(sorted(limits, key=lambda one: -one.share))

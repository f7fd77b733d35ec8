"""Predictions against archives that are really made, and against sums done by hand."""

import math

import pytest

from nipde.data.cost import Machines, Speed, calibrate, estimate
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.manifest import MANIFEST_BYTES
from nipde.data.plan import MOST_SHARDS, Plan
from nipde.data.reference import ReferenceDarcyRecipe

SPEED = Speed(system_seconds=1.5, shard_seconds=0.5, check_seconds_per_byte=1e-9)


def of(systems: int) -> Plan:
    return Plan(DarcyRecipe(nodes=256, pairs=32), systems=systems)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(DarcyRecipe(nodes=7, pairs=3), systems=10, shard_systems=4),
        Plan(DarcyRecipe(nodes=7, pairs=3, shared_loads=True), systems=9),
        Plan(ReferenceDarcyRecipe(nodes=9, pairs=2, refine=2), systems=3),
    ],
)
def test_bytes_and_files_are_those_of_the_archive(plan, tmp_path):
    generate(plan, tmp_path / "made", workers=1)
    sizes = [path.stat().st_size for path in (tmp_path / "made").rglob("*") if path.is_file()]
    found = estimate(plan, SPEED)
    assert found.files == len(sizes)
    assert found.bytes == sum(sizes)


def test_the_manifest_of_many_shards_is_a_little_shorter_than_said(tmp_path):
    plan = Plan(DarcyRecipe(nodes=5, pairs=1), systems=120, shard_systems=1)
    generate(plan, tmp_path / "made", workers=1)
    found = estimate(plan, SPEED).manifest_bytes
    assert 0 <= found / (tmp_path / "made" / "manifest.json").stat().st_size - 1 < 0.02


def test_sums_by_hand():
    found = estimate(of(100_000), SPEED, Machines(cores=100, failures=1e-3, restart_hours=0.5,
                                                  price_core_hour=0.1, price_terabyte_month=20, months=6))  # fmt: skip
    assert found.bytes == pytest.approx(1e5 * (32 * 2 + 1) * 256**2 * 4, rel=1e-3)  # loads, responses, material
    assert found.shards == 33_334
    calm = (1e5 * 1.5 + 33_334 * 0.5) / 3600
    assert found.failures == pytest.approx(1e-3 * calm)
    assert found.calm == pytest.approx(math.exp(-1e-3 * calm))
    assert found.lost_core_hours == pytest.approx(1e-3 * calm * ((3 * 1.5 + 0.5) / 7200 + 0.5))
    assert found.hours == pytest.approx((calm + found.lost_core_hours) / 100)
    assert found.merge_hours == pytest.approx(found.bytes / 1e9 / 3600)
    paid = found.core_hours + found.merge_hours
    assert found.cost == pytest.approx(0.1 * paid + 6 * 20 * found.bytes / 1e12)
    assert found.bandwidth == pytest.approx(found.bytes * 100 / (3600 * calm))


def test_no_price_no_cost():
    assert estimate(of(10), SPEED, Machines(price_core_hour=1.0)).cost is None


def test_the_choice_by_size_keeps_a_million_systems_within_one_manifest():
    for systems in (100_000, 1_000_000):
        found = estimate(of(systems), SPEED)
        assert found.shards <= MOST_SHARDS
        assert found.manifest_bytes < MANIFEST_BYTES


def test_what_gives_way_first():
    first = lambda machines, plan: estimate(plan, SPEED, machines).limits[0]  # noqa: E731
    slow = first(Machines(cores=1), of(1_000_000))
    assert (slow.what, slow.share > 1) == ("hours of all jobs", True)
    many = first(Machines(cores=100_000, folder_files=1e9), of(1_000_000))
    assert many.what == "tasks per second of a dask scheduler"  # 40,000 shards at once, 38 seconds each
    assert many.value == pytest.approx(40_000 / (25 * 1.5 + 0.5))
    crowded = first(Machines(cores=2000, folder_files=1000), of(1_000_000))
    assert (crowded.what, crowded.value) == ("files in one folder", 40_001)


def test_a_calibration_predicts_another_size(tmp_path):
    plan = Plan(DarcyRecipe(nodes=41, pairs=40), systems=100)
    speed = calibrate(plan, seconds=0.3)
    import time

    start = time.process_time()
    generate(plan, tmp_path / "made", workers=1)
    used = time.process_time() - start
    assert 0.5 < 3600 * estimate(plan, speed).core_hours / used < 2  # loosely: other work shares the machine

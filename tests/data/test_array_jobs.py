"""Jobs that never talk make the archive that one run makes: in any order, at once, after kills, in a store."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from nipde.data import array_jobs, generation
from nipde.data.archive import open_archive
from nipde.data.array_jobs import generate_share, merge_shares, share_of
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.manifest import PROGRESS
from nipde.data.plan import Plan
from nipde.data.storage import Storage
from nipde.errors import ArchiveError


@pytest.fixture
def computed(monkeypatch):
    """Shards as they are computed."""
    made, original = [], generation._write_shard

    def counting(plan, storage, shard):
        made.append(shard)
        return original(plan, storage, shard)

    monkeypatch.setattr(generation, "_write_shard", counting)
    return made


def share(plan, out, job, jobs=3):
    generate_share(plan, out, job=job, jobs=jobs, workers=1)


@pytest.mark.parametrize("jobs", [1, 2, 3, 7])
def test_every_shard_is_one_jobs(plan, jobs):
    shares = [share_of(plan, job=job, jobs=jobs) for job in range(1, jobs + 1)]
    assert sorted(shard for each in shares for shard in each) == list(range(plan.shards))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("job", [0, 4])
def test_jobs_are_counted_from_one(plan, tmp_path, job):
    with pytest.raises(ArchiveError) as error:
        share(plan, tmp_path / "run", job)
    assert (error.value.expected, error.value.got) == ("a job from 1 to 3", job)
    assert not (tmp_path / "run").exists()


def test_jobs_in_any_order_make_the_archive_of_one_run(plan, made, tmp_path):
    for job in (3, 1, 2):
        share(plan, tmp_path / "run", job)
    merged = merge_shares(plan, tmp_path / "run", jobs=3)
    assert merged.digest == open_archive(made).digest
    names = [
        sorted(path.relative_to(place).as_posix() for path in place.rglob("*")) for place in (tmp_path / "run", made)
    ]
    assert names[0] == names[1]


def test_a_job_that_is_done_computes_nothing_and_mends_what_was_damaged(plan, made, tmp_path, computed):
    share(plan, tmp_path / "run", 1, jobs=2)
    assert computed == [0, 2]
    share(plan, tmp_path / "run", 1, jobs=2)
    assert computed == [0, 2]
    victim = tmp_path / "run" / "responses" / "c.2.0.0.0.0"
    victim.write_bytes(victim.read_bytes()[:-1] + b"?")
    share(plan, tmp_path / "run", 1, jobs=2)
    assert computed == [0, 2, 2]
    generate(plan, tmp_path / "run", workers=1)  # the plain command makes the rest
    assert computed == [0, 2, 2, 1]
    share(plan, tmp_path / "run", 2, jobs=2)  # too late: the archive is finished
    assert computed == [0, 2, 2, 1]
    assert open_archive(tmp_path / "run", verify=True).digest == open_archive(made).digest


def test_a_merge_names_the_jobs_to_run_again(plan, tmp_path):
    share(plan, tmp_path / "run", 2)
    file = tmp_path / "run" / "loads" / "c.1.0.0.0.0"
    undamaged = ("2 missing or damaged (0, 2)", "run again --shard 1/3, 3/3")
    damaged = ("3 missing or damaged (0, 1, 2)", "run again --shard 1/3, 2/3, 3/3")
    for damage, said in (
        (file.exists, undamaged),
        (lambda: file.write_bytes(b"short"), damaged),
        (file.unlink, damaged),
    ):
        damage()
        with pytest.raises(ArchiveError) as error:
            merge_shares(plan, tmp_path / "run", jobs=3)
        assert (error.value.got, error.value.remedy) == said
        assert not (tmp_path / "run" / "manifest.json").exists()


def test_a_merge_of_nothing_writes_nothing(plan, tmp_path):
    with pytest.raises(ArchiveError, match="1/2, 2/2"):
        merge_shares(plan, tmp_path / "run", jobs=2)
    assert not (tmp_path / "run").exists()


def test_another_plan_in_the_place_is_refused(plan, tmp_path):
    share(plan, tmp_path / "run", 1)
    other = Plan(plan.recipe, systems=10, seed=4, shard_systems=4)
    for work in (lambda: share(other, tmp_path / "run", 2), lambda: merge_shares(other, tmp_path / "run", jobs=3)):
        with pytest.raises(ArchiveError) as error:
            work()
        assert error.value.expected == "the same seed"


def test_jobs_of_two_plans_that_begin_at_the_same_moment_are_not_mixed(plan, made, tmp_path, computed):
    # both found the place empty; the files of the other plan have the sizes of ours, and records that fit them
    other = Plan(plan.recipe, systems=10, seed=4, shard_systems=4)
    share(other, tmp_path / "run", 2)
    generation.make_shards(plan, Storage(str(tmp_path / "run")), [0], workers=1)
    with pytest.raises(ArchiveError) as error:
        merge_shares(plan, tmp_path / "run", jobs=3)
    assert error.value.remedy == "run again --shard 2/3, 3/3"
    computed.clear()
    for job in (1, 2, 3):
        share(plan, tmp_path / "run", job)
    assert computed == [1, 2]
    assert merge_shares(plan, tmp_path / "run", jobs=3).digest == open_archive(made).digest


def test_the_same_job_twice_at_once_does_no_harm(plan, made, tmp_path):
    threads = [threading.Thread(target=share, args=(plan, tmp_path / "run", job)) for job in (1, 1, 2, 2, 3, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert merge_shares(plan, tmp_path / "run", jobs=3).digest == open_archive(made).digest


def test_a_job_that_finds_another_just_beginning_is_not_refused(plan, tmp_path, monkeypatch):
    storage, original = Storage(str(tmp_path / "run")), Storage.listing

    def listing(self):
        """The other job writes its first files between our look at the root and our listing."""
        monkeypatch.setattr(Storage, "listing", original)
        share(plan, tmp_path / "run", 1)
        return original(self)

    monkeypatch.setattr(Storage, "listing", listing)
    assert not generation.is_finished(storage, plan)


def test_shares_of_several_workers_and_of_shared_loads(tmp_path):
    plan = Plan(DarcyRecipe(nodes=7, pairs=3, shared_loads=True), systems=8, seed=1, shard_systems=2)
    generate_share(plan, tmp_path / "run", job=1, jobs=2, workers=2)
    generate_share(plan, tmp_path / "run", job=2, jobs=2, workers=1)
    digest = generate(plan, tmp_path / "one", workers=1).digest
    loads = tmp_path / "run" / "loads" / "c.0.0.0.0.0"
    kept = loads.read_bytes()
    loads.write_bytes(kept[:-1] + b"?")  # loads that no shard was solved with
    with pytest.raises(ArchiveError, match="4 missing or damaged"):
        merge_shares(plan, tmp_path / "run", jobs=2)
    loads.write_bytes(kept)
    assert merge_shares(plan, tmp_path / "run", jobs=2, workers=3).digest == digest


def test_killed_jobs_are_run_again(tmp_path):
    plan = Plan(DarcyRecipe(nodes=11, pairs=4), systems=480, seed=2)
    sizes = ["--grid", "11", "--pairs", "4", "--systems", "480", "--seed", "2"]
    command = [sys.executable, "-m", "nipde.cli", "generate", "darcy", *sizes, "--workers", "1", "--shard"]
    out = tmp_path / "run"
    killed = subprocess.Popen([*command, "1/2", "--out", str(out)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list((out / PROGRESS).glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    kept = sum(len(plan.systems_of(int(path.stem))) for path in (out / PROGRESS).glob("*.json"))
    assert 0 < kept < 240
    printed = [
        subprocess.run([*command, f"{job}/2", "--out", str(out)], check=True, capture_output=True, text=True).stdout
        for job in (1, 2)
    ]
    assert f"({240 - kept} computed now)" in printed[0]
    assert merge_shares(plan, out, jobs=2).digest == generate(plan, tmp_path / "one", workers=1).digest
    assert not list(out.rglob("*.part"))


def test_long_lists_of_jobs_are_cut():
    assert array_jobs._some(range(22)).endswith("18, 19 and 2 more")


def test_a_copy_of_a_share_counts_as_made_there(plan, made, tmp_path):
    share(plan, tmp_path / "here", 1)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    for job in (2, 3):
        share(plan, tmp_path / "there", job)
    assert merge_shares(plan, tmp_path / "there", jobs=3).digest == open_archive(made).digest

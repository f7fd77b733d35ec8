import json
import os
import signal
import subprocess
import sys
import time

import dask
import pytest

from nipde.data import generation as module
from nipde.data.archive import open_archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.errors import ArchiveError, SolverError


def count_builds(monkeypatch):
    built = []
    original = DarcyRecipe.build

    def counting(self, seed, **shared):
        built.append(int(seed))
        return original(self, seed, **shared)

    monkeypatch.setattr(DarcyRecipe, "build", counting)
    return built


def test_two_workers_make_the_bytes_one_makes(plan, made, tmp_path):
    assert generate(plan, tmp_path / "two", workers=2).digest == open_archive(made).digest


def test_seed_and_size_change_the_digest(plan, made, tmp_path):
    other = Plan(plan.recipe, systems=10, seed=4, shard_systems=4)
    assert generate(other, tmp_path / "other", workers=1).digest != open_archive(made).digest


def test_a_finished_archive_is_not_made_again(plan, made, monkeypatch):
    built = count_builds(monkeypatch)
    generate(plan, made, workers=1)
    assert built == []


def test_only_missing_and_damaged_shards_are_computed_again(plan, made, tmp_path, monkeypatch):
    class Stop(Exception):
        pass

    def stop_after_two(ready, computed):
        seen.append(ready)
        if len(seen) == 2:
            raise Stop

    seen = []
    with pytest.raises(Stop):
        generate(plan, tmp_path / "run", workers=1, progress=stop_after_two)
    # one of the two finished shards is damaged behind its record's back
    victim = tmp_path / "run" / "loads" / "c.0.0.0.0.0"
    victim.write_bytes(victim.read_bytes()[:-1])
    built = count_builds(monkeypatch)
    archive = generate(plan, tmp_path / "run", workers=1)
    assert built[1:] == [plan.system_seed(system) for system in [0, 1, 2, 3, 8, 9]]  # after one on trial
    assert archive.digest == open_archive(made).digest
    assert not (tmp_path / "run" / "progress").exists()


def test_leftovers_of_a_killed_write_are_cleared_away(plan, tmp_path):
    (tmp_path / "run" / "loads").mkdir(parents=True)
    (tmp_path / "run" / "loads" / ".abc.part").write_bytes(b"half")
    generate(plan, tmp_path / "run", workers=1)
    assert not list((tmp_path / "run").rglob("*.part"))


def test_another_plan_does_not_overwrite_an_archive(plan, made, tmp_path):
    with pytest.raises(ArchiveError) as error:
        generate(Plan(plan.recipe, systems=10, seed=4, shard_systems=4), made, workers=1)
    assert (error.value.expected, error.value.got) == ("the same seed", "{'seed': 3}")
    (tmp_path / "precious.txt").write_text("thesis")
    with pytest.raises(ArchiveError) as error:
        generate(plan, tmp_path, workers=1)
    assert "precious.txt" in error.value.got


def test_a_failing_solve_stops_the_run_and_says_why(plan, tmp_path, monkeypatch):
    monkeypatch.setattr("nipde.physics.balance.RESIDUAL_LIMIT", 0.0)
    with pytest.raises(SolverError) as error:
        generate(plan, tmp_path / "run", workers=1)
    assert error.value.expected == "relative residual <= 0"
    assert not list((tmp_path / "run").rglob("*.part"))
    assert not (tmp_path / "run" / "manifest.json").exists()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_says_how_to_go_on_and_nothing_else(workers, tmp_path):
    command = [sys.executable, "-m", "nipde.cli", "generate", "darcy", "--systems", "20000", "--workers", workers]
    run = subprocess.Popen(
        [*command, "--out", str(tmp_path / "run")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # all its processes hear of it, as on a terminal
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    while not list((tmp_path / "run").glob("progress/*.json")):
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGINT)
    _, printed = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "Traceback" not in printed
    assert json.loads((tmp_path / "run" / "zarr.json").read_text())["attributes"]["format"] == "nipde-archive"
    assert not list((tmp_path / "run").rglob("*.part"))


def test_a_scheduler_that_is_not_there_is_said_to_be_missing(plan, tmp_path):
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), pytest.raises(ArchiveError, match="start one"):
        generate(plan, tmp_path / "run", scheduler="tcp://127.0.0.1:9")
    assert not (tmp_path / "run").exists()


def test_a_full_disk_is_an_error_and_leaves_nothing_half_written(plan, made, tmp_path):
    # RLIMIT_FSIZE at sizes below the largest file: the write fails in the middle of some file or other
    code = """
import resource, signal, sys
from nipde.data.generation import generate
from nipde.data.archive import open_archive
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
plan = open_archive(sys.argv[1]).plan
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
generate(plan, sys.argv[2], workers=1)
"""
    for limit in (3000, 7000, 11000):
        command = [sys.executable, "-c", code, str(made), str(tmp_path / "run"), str(limit)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert "File too large" in done.stderr
        assert not list((tmp_path / "run").rglob("*.part"))
        assert not list((tmp_path / "run").glob("progress/*.json"))
    assert generate(plan, tmp_path / "run", workers=1).digest == open_archive(made).digest


def test_records_count_only_with_their_files(plan, tmp_path):
    generate(plan, tmp_path / "run", workers=1)
    from nipde.data.storage import Storage

    storage = Storage(str(tmp_path / "run"))
    assert module.intact_record(plan, storage, 0, fixed="") is None  # records go when the manifest comes

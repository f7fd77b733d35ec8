import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import benchmarks
from benchmarks.campaign import whole
from benchmarks.finished_rows import earlier, finished, write_result
from benchmarks.record import write_record
from benchmarks.run import run_campaign
from nipde.data.archive import open_archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.errors import NipdeError
from nipde.training.recipe import ModelRecipe, TrainingRecipe

RECIPE = TrainingRecipe(ModelRecipe("nips", layers=1, channels=4), context=6, batch=2, steps=100_000)


def stop_in_the_middle(log):
    """SIGTERM as soon as a step has been written."""
    until = time.monotonic() + 60
    while time.monotonic() < until and not (log.exists() and len(log.read_text().splitlines()) > 1):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_run_that_was_told_to_stop_is_no_result(tmp_path):
    generate(Plan(DarcyRecipe(nodes=7, pairs=10), systems=8, split=(0.5, 0.25, 0.25)), tmp_path / "data", workers=1)
    archive, out = open_archive(tmp_path / "data"), tmp_path / "run"
    threading.Thread(target=stop_in_the_middle, args=[out / "log.csv"]).start()
    with pytest.raises(NipdeError, match=r"SIGTERM after \d+ steps"):
        whole(RECIPE, archive, out)
    assert whole(RECIPE.with_options({"steps": 40}), archive, tmp_path / "short").step == 40


def test_rows_of_a_record_outlive_the_folder_they_came_from(tmp_path):
    """And what was measured since takes their place, not what was before."""
    write_result(tmp_path / "now" / "three", {"value": 0})
    time.sleep(1.1)  # times are in seconds
    for name in ("one", "two", "three"):
        write_result(tmp_path / "before" / name, {"value": 1})
    time.sleep(1.1)
    rows = list(finished(tmp_path / "before", {}).values())
    measured = {"rows": rows, "pending": ["four"], "minutes": 5}
    record = write_record("record", measured, results=tmp_path, command="", seed=0, seconds=0)
    write_result(tmp_path / "now" / "one", {"value": 2})
    found = finished(tmp_path / "now", earlier(record))
    assert {name: row["value"] for name, row in found.items()} == {"one": 2, "two": 1, "three": 1}
    assert earlier(tmp_path / "none.json") == {}  # the first of all runs


@pytest.mark.slow
def test_only_what_is_in_no_record_is_run(tmp_path):
    """Unless it is asked for by name."""
    first = ["mmnist-ridge-gcv", "mmnist-minimum-norm"]
    asked = {"results": tmp_path / "results", "workers": 1}
    run_campaign("solids", "trial", work=tmp_path / "one", only=first, **asked)
    record = tmp_path / "results" / "solids-trial.json"
    before = earlier(record)
    assert set(before) == set(first)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "data").symlink_to(tmp_path / "one" / "data")
    run_campaign("solids", "trial", work=tmp_path / "two", only=first[:1], **asked)
    after = earlier(record)
    assert set(after) == set(first)
    assert after[first[0]] != before[first[0]]  # of another time
    assert after[first[1]] == before[first[1]]


ORPHANED = """
import os, sys, time
from benchmarks.campaign import workers

def work(place):
    open(place, "w").write(str(os.getpid()))
    time.sleep(600)

if __name__ == "__main__":
    with workers(1) as pool:
        pool.submit(work, sys.argv[1]).result()
"""


def test_workers_end_when_who_started_them_is_killed(tmp_path):
    script, place = tmp_path / "script.py", tmp_path / "pid"
    script.write_text(ORPHANED)
    found = {**os.environ, "PYTHONPATH": str(Path(benchmarks.__file__).parents[1])}  # no part of the wheel
    parent = subprocess.Popen([sys.executable, str(script), str(place)], env=found)
    until = time.monotonic() + 60
    while not (place.exists() and place.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    worker = int(place.read_text())
    assert alive(worker)
    parent.kill()
    parent.wait()
    until = time.monotonic() + 20
    while alive(worker) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(worker)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

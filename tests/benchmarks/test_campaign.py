import json
import os
import signal
import threading
import time

import pytest

from nipde.benchmarks.campaign import RESULT, restore, whole, write_result
from nipde.data.archive import open as open_archive
from nipde.data.generate import generate
from nipde.data.plan import Plan
from nipde.data.problems import DarcyRecipe
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
    """All but those that are asked for again, by name or as a case of several runs; and nothing newer is replaced."""
    rows = []
    for name in ("one", "two", "three-seed0"):
        write_result(tmp_path / "before" / name, {"case": name.removesuffix("-seed0"), "value": 1})
        rows.append(json.loads((tmp_path / "before" / name / RESULT).read_text()))
    record, now = tmp_path / "record.json", tmp_path / "now"
    record.write_text(json.dumps({"measured": {"rows": rows, "pending": ["four"], "minutes": 5}}))
    write_result(now / "one", {"value": 2})
    restore(record, now, but=["three"])
    found = {path.parent.name: json.loads(path.read_text()) for path in now.glob(f"*/{RESULT}")}
    assert {name: row["value"] for name, row in found.items()} == {"one": 2, "two": 1}
    assert found["two"] == rows[1]
    restore(tmp_path / "none.json", now)  # the first of all runs

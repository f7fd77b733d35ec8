import os
import signal
import threading
import time

import pytest

from nipde.benchmarks.campaign import whole
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

"""A package that brings an estimator, a law and a file format, one file each: every command knows them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PACKAGE = Path(__file__).parent / "package"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder into which pip installed the package."""
    source, folder = tmp_path_factory.mktemp("source") / "package", tmp_path_factory.mktemp("site")
    shutil.copytree(PACKAGE, source)  # builds leave files beside their sources
    words = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *words, str(source)], check=True, timeout=250)
    return folder


@pytest.fixture(scope="module")
def run(site, tmp_path_factory):
    """A Python process that has the package installed."""
    folder = tmp_path_factory.mktemp("work")
    path = os.pathsep.join([str(site), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def run(*words):
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=250
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.folder = folder
    return run


@pytest.fixture(scope="module")
def archive(run):
    """Of the package's law."""
    words = ["--grid", "9", "--pairs", "12", "--systems", "8", "--seed", "3", "--workers", "1", "--rate", "250"]
    run("-m", "nipde.cli", "generate", "reaction", *words, "--out", "systems")
    return "systems"


def write_lab(path, arrays):
    rows = [" ".join(map(repr, row)) for row in np.stack(list(arrays.values()), 1).tolist()]
    path.write_text("\n".join(["LAB", " ".join(arrays), *rows, ""]))


def test_the_law_is_listed_with_its_options(run):
    assert re.search(r"reaction +-Δu \+ k u = f on the unit square", run("-m", "nipde.cli", "generate", "--help"))
    assert "loss rate where there is any" in run("-m", "nipde.cli", "generate", "reaction", "--help")


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["ridge", "share-ridge"])
def test_estimators_are_evaluated_on_the_law(run, archive, estimator):
    words = ["--data", archive, "--pairs", "8", "--part", "train", "--json", f"{estimator}.json"]
    run("-m", "nipde.cli", "evaluate", estimator, *words)
    result = json.loads((run.folder / f"{estimator}.json").read_text())
    assert result["systems"] == 6
    assert 0 < result["held_out"]["mean"] < 1
    assert 0 < result["kernel"]["mean"] < 1.5  # the law states its operator
    assert result["microstructure"] is None


@pytest.mark.slow
def test_the_name_of_the_estimator_stands_in_the_help(run):
    assert "share-ridge" in run("-m", "nipde.cli", "evaluate", "--help")


def test_a_file_of_the_format_is_checked(run):
    x, y = (axis.ravel() for axis in np.meshgrid(*[np.linspace(0, 1, 5)] * 2, indexing="ij"))
    arrays = {"x:mm": x, "y:mm": y, "load:N/mm^2": 1 + x * y, "response:mm": x * (1 - x) * y * (1 - y)}
    write_lab(run.folder / "plate.lab", arrays)
    assert "lab" in run("-m", "nipde.cli", "check", "plate.lab")
    read = "import nipde; m = nipde.read('plate.lab'); print(m.sources[0].format, *m.pairs.grid.shape, m.units.load)"
    assert run("-c", read).split() == ["lab", "5", "5", "N/mm^2"]


def test_all_three_keep_their_contracts(run):
    program = """
import sys; sys.path.insert(0, sys.argv[1])
from test_plugins import write_lab
from mylab.estimator import ShareRidge
from mylab.format import FORMAT
from mylab.law import ReactionRecipe
from nipde.testing import check_estimator, check_format, check_law
check_estimator(ShareRidge())
check_law(ReactionRecipe(nodes=7, pairs=4))
check_format(FORMAT, write_lab)
print("kept")
"""
    assert run("-c", program, str(Path(__file__).parent)).strip() == "kept"

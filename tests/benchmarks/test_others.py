"""Beside other packages: files out and back, environments, thresholds and errors; none of the packages is needed."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import tank as measured_tank
from benchmarks.competitors import aquifer, environment, exchange, plate, tank
from benchmarks.others import of_plate, summary
from benchmarks.tables.others import others as table
from nipde.errors import NipdeError
from nipde.shape import Shape


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "SCRIPTS", tmp_path)
    return tmp_path


def test_arrays_go_out_and_come_back(scripts):
    (scripts / "twice.py").write_text(
        "import json, os, sys, numpy as np\n"
        "given = dict(np.load(sys.argv[1]))\n"
        "factor = json.loads(str(given['setting']))['factor']\n"
        "np.savez(sys.argv[2], values=factor * given['values'], threads=os.environ['OMP_NUM_THREADS'])\n"
    )
    values = np.arange(6.0).reshape(2, 3)
    found = exchange.found_by(Path(sys.executable), "twice.py", {"values": values}, setting={"factor": 2})
    np.testing.assert_array_equal(found["values"], 2 * values)
    assert str(found["threads"]) == "1"


def test_a_script_that_fails_is_named_with_its_last_words(scripts):
    (scripts / "fails.py").write_text("raise SystemExit('no mesh')\n")
    with pytest.raises(NipdeError) as error:
        exchange.found_by(Path(sys.executable), "fails.py", {"values": np.ones(1)})
    assert error.value.got == "no mesh"


@pytest.mark.parametrize(("code", "installed"), [("0", True), ("1", False)])
def test_what_pip_said_is_kept(tmp_path, code, installed):
    place = tmp_path / "pyeit"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").touch()
    (place / environment.MESSAGE).write_text(f"{code}\nwhat it said")
    found = environment.environment(tmp_path, "pyeit")
    assert (found.python is not None) == installed
    assert found.message == "what it said"


def test_the_last_words_of_pip():
    assert environment.last_line("Collecting a\nSuccessfully installed a-1\n\nnotice: new pip\n").endswith("a-1")
    assert environment.last_line("ERROR: No matching distribution found for a") == (
        "ERROR: No matching distribution found for a"
    )


def test_wells_are_where_the_sources_are():
    loads = np.zeros((2, *aquifer.GRID.shape))
    loads[0, 4, 7] = loads[1, 10, 3] = 400.0
    np.testing.assert_allclose(aquifer.wells(loads), [[0.2, 0.35], [0.5, 0.15]])


def aquifer_case():
    centres = np.array([[0.5, 0.5], [0.3, 0.4], [0.051, 0.5]])  # the last is at the rim
    specimen = SimpleNamespace(shape=Shape.rectangle(0.9, 0.9, origin=(0.05, 0.05)))
    return SimpleNamespace(
        pairs=SimpleNamespace(specimen=specimen), mesh=SimpleNamespace(centres=centres),
        truth=np.exp([1.0, 2.0, 9.0]), exact=np.array([[3.0, 4.0, np.nan]]),
    )  # fmt: skip


def test_errors_of_an_aquifer_leave_out_the_rim_and_what_is_beside_a_well():
    case = aquifer_case()
    found = {"log_b": np.array([1.1, 1.7]), "responses": np.array([[3.0, 4.5, 1e9]])}
    assert aquifer.errors(case, found) == pytest.approx({"log_mean": 0.2, "held_out": 0.1})
    assert len(aquifer.judged_centres(case)) == 2


def test_errors_of_a_plate_leave_out_the_rim():
    case = SimpleNamespace(
        tests=SimpleNamespace(specimen=SimpleNamespace(shape=Shape.rectangle(1.0, 1.0))),
        mesh=SimpleNamespace(centres=np.array([[0.5, 0.5], [0.005, 0.5]])), modulus=np.exp([0.5, 7.0]),
    )  # fmt: skip
    assert plate.errors(case, np.array([0.75])) == pytest.approx({"log_mean": 0.25})


def bodies() -> tuple[np.ndarray, np.ndarray]:
    """An image with a little noise of a conductive and a resistive body, NaN outside the tank; and its labels."""
    line = np.linspace(-1, 1, measured_tank.PIXELS)
    x, y = np.meshgrid(line, -line)
    image = 1.0 * (np.hypot(x - 0.4, y) < 0.2) - 0.8 * (np.hypot(x + 0.4, y) < 0.25)
    truth = np.where(image > 0, measured_tank.CONDUCTIVE, np.where(image < 0, measured_tank.RESISTIVE, 0))
    noise = np.random.default_rng(0).uniform(-0.05, 0.05, image.shape)
    return np.where(np.hypot(x, y) < 1, image + noise, np.nan), truth


@pytest.mark.parametrize("share", [None, 0.5])
def test_a_clean_image_is_segmented_to_a_full_score(share):
    image, truth = bodies()
    labels = tank.segmented(image, share=share)
    np.testing.assert_array_equal(labels, truth)
    assert measured_tank.score(truth, labels) == pytest.approx(1.0)


def test_a_share_above_the_smaller_body_loses_it():
    assert set(np.unique(tank.segmented(bodies()[0], share=0.9))) == {0, measured_tank.CONDUCTIVE}


def test_scores_are_summed_by_level():
    each = [{"level": level, "score": score, "seconds": 2.0} for level, score in ((1, 0.5), (1, 0.25), (2, 1.0))]
    found = tank.summary(each)
    assert (found["total"], found["levels"], found["seconds"]) == (1.75, {"1": 0.75, "2": 1.0}, 2.0)


def test_the_setting_that_is_best_on_validation_is_used(monkeypatch):
    asked = []

    def by_package(place, setting, number):
        asked.append((setting["weight"], number))
        return {"log_mean": abs(setting["weight"] - 10) + number / 1000, "seconds": 1.0, "chi_square": 1.0}

    monkeypatch.setattr(plate, "by_package", by_package)
    monkeypatch.setattr(plate, "by_nipde", lambda number: {"log_mean": 0.01, "seconds": 1.0, "chi_square": 1.0})
    monkeypatch.setattr(plate, "TRIED", {"smooth": [{"weight": weight} for weight in (1.0, 10.0, 100.0)]})
    place = environment.Environment(Path(sys.executable), "")
    found = of_plate(place, lambda name, work: work(), specimens=2)
    assert found["rows"][1]["setting"] == {"weight": 10.0}
    assert asked == [*((weight, plate.VALIDATION) for weight in (1.0, 10.0, 100.0)), (10.0, 0), (10.0, 1)]


def test_a_package_that_did_not_install_is_in_the_table_with_what_pip_said():
    one = {"log_mean": 0.1, "held_out": 0.01, "seconds": 3.0, "chi_square": 1.0}
    rows = summary([one, one, None], material="two phases", package="nipde", penalty="", setting=None)
    assert rows[0]["systems"] == 2
    text = table({
        "aquifer": {"rows": rows, "tried": []}, "plate": {"rows": rows, "tried": []}, "tank": None, "quick": False,
        "pending": ["tank"],
        "packages": {"pyeit": {"installed": False, "pip": "ERROR: none found"},
                     "simpeg": {"installed": True, "pip": "Successfully installed numpy-2 simpeg-0.25.2"}},
    })  # fmt: skip
    assert "| pyeit | no | `ERROR: none found` |" in text
    assert "Not measured yet: 1 results." in text
    assert "| simpeg | yes | Successfully installed simpeg-0.25.2 |" in text


def test_scripts_are_valid_python_without_their_packages():
    names = ("pyeit_tank.py", "simpeg_aquifer.py", "pygimli_aquifer.py", "torchfem_plate.py")
    paths = [str(exchange.SCRIPTS / name) for name in names]
    subprocess.run([sys.executable, "-m", "py_compile", *paths], check=True)

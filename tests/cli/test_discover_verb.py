import json

import jsonschema
import numpy as np
import pytest

from nipde.cli import main
from nipde.grid import Grid
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase
from nipde.report.files import schema
from nipde.weights import load, names

UNITS = {"x": "mm", "y": "mm", "loads": "N/mm^2", "responses": "mm"}


def write(path, *, units=True, nodes=9, count=5, **more):
    grid, rng = Grid.uniform(nodes, length=80.0), np.random.default_rng(0)
    permeability = TwoPhase()(GaussianField(4.0, waves=6).sample(grid, rng=rng, count=1)[0])
    loads = GaussianField(1.0, waves=6, rms=0.01).sample(grid, rng=rng, count=count)
    x, said = grid.axes[0].coordinates, {"units": json.dumps(UNITS)} if units else {}
    np.savez(path, x=x, y=x, loads=loads, responses=Darcy(grid, permeability).solve(loads), **said, **more)
    return path, permeability


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return write(tmp_path_factory.mktemp("cli") / "heads.npz", count=10, noise=0.0)


def discover(*words):
    return main(["discover", *map(str, words), "--weights", "darcy-two-phase", "--baselines", "false"])


def test_a_file_becomes_a_folder_and_statements(measured, tmp_path, capsys):
    path, permeability = measured
    assert (
        discover(path, "--out", tmp_path / "found", "--dense", "true", "--level", "0.8", "--quantity", "tension") == 0
    )
    printed = capsys.readouterr().out
    found = json.loads((tmp_path / "found" / "summary.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, schema())
    for sentence in found["statements"]:
        assert sentence in printed
    for note in found["notes"]:
        assert note["text"] in printed
    assert str(tmp_path / "found" / "report.html") in printed
    assert found["baselines"] == []
    assert (found["coefficient"]["level"], found["coefficient"]["name"]) == (0.8, "tension")
    assert found["units"]["coefficient"] == "N/mm"
    assert "dense" in np.load(tmp_path / "found" / "kernel.npz").files
    b = np.load(tmp_path / "found" / "microstructure.npz")["coefficient"]
    assert np.mean((b > 6)[1:-1, 1:-1] == (permeability > 6)[1:-1, 1:-1]) >= 0.95
    assert main(["verify", str(tmp_path / "found")]) == 0
    (tmp_path / "found" / "kernel.npz").unlink()
    assert main(["verify", str(tmp_path / "found")]) == 1


def test_a_folder_of_something_else_is_refused_before_the_work(measured, tmp_path, monkeypatch):
    monkeypatch.setattr("nipde.cli.discover.measurement_of", pytest.fail)
    (tmp_path / "thesis.txt").write_text("five years")
    assert discover(measured[0], "--out", tmp_path) == 2
    assert (tmp_path / "thesis.txt").read_text() == "five years"


def test_a_file_without_units_is_refused_and_units_may_be_stated(tmp_path, capsys):
    path, _ = write(tmp_path / "bare.npz", units=False, count=2)
    assert discover(path, "--out", tmp_path / "found") == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("MeasurementError: ")
    assert "unit" in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not (tmp_path / "found").exists()
    told = "x=mm,y=mm,load=N/mm^2,response=mm"
    assert discover(path, "--out", tmp_path / "found", "--units", told, "--phases", "1") == 0
    found = json.loads((tmp_path / "found" / "summary.json").read_text(encoding="utf-8"))
    assert found["units"]["load"] == "N/mm^2"
    assert len(found["phases"]["medians"]) == 1
    assert "One phase" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--units", "x:mm"], "expected name=unit,name=unit"),
        (["--nodes", "many"], "expected whole numbers such as 21"),
        (["--weights", "nobody"], "expected weights among"),
        (["--weights", "darcy-two-phase-gated"], "weights that infer a"),
        (["--weights", "nips-2-darcy"], "weights that infer a coefficient, got nips-2-darcy"),  # before grid and pairs
        (["--level", "0.42"], "expected a level among"),
        (["--phases", "0"], "--phases"),
        (["--response", "w"], "'w'"),
    ],
    ids=lambda value: value[0] + value[1] if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_one_sentence(measured, tmp_path, capsys, words, text):
    given = ["discover", str(measured[0]), "--out", str(tmp_path / "found"), "--baselines", "false"]
    assert main([*given, *words]) == 2
    said = capsys.readouterr().err
    assert text in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "found").exists()


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    assert discover(tmp_path / "nothing.npz", "--out", tmp_path / "found") == 2
    assert "nothing.npz" in capsys.readouterr().err


def test_help_lists_just_the_weights_that_are_not_refused(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit):
        main(["discover", "--help"])
    printed = " ".join(capsys.readouterr().out.split()).partition(" --weights WEIGHTS ")[2]
    listed = printed.partition("trained model: ")[2].partition(", or a file or folder")[0].split(", ")
    assert "darcy" in listed
    assert set(listed) == {name for name in names() if getattr(load(name), "infers_coefficient", False)}


def test_specimen_and_date_reach_the_summary_and_the_page(measured, tmp_path, capsys):
    path, _ = measured
    assert discover(path, "--out", tmp_path / "found", "--specimen", "plate 7", "--date", "2026-11-03") == 0
    assert "specimen plate 7, measured on 2026-11-03." in capsys.readouterr().out
    found = json.loads((tmp_path / "found" / "summary.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, schema())
    assert (found["provenance"]["specimen"], found["provenance"]["measured_on"]) == ("plate 7", "2026-11-03")
    written = (tmp_path / "found" / "report.html").read_text(encoding="utf-8")
    assert 'id="specimen">plate 7<' in written
    assert 'id="measured-on">2026-11-03<' in written


@pytest.mark.parametrize("device", ["cuda:99", "meta", "toaster"])
def test_a_device_that_is_not_there_is_refused(measured, tmp_path, capsys, device):
    assert discover(measured[0], "--out", tmp_path / "found", "--device", device) == 2
    assert "expected a device that PyTorch has" in capsys.readouterr().err
    assert not (tmp_path / "found").exists()


def test_methods_of_the_processor_take_no_device(measured, tmp_path, capsys):
    words = ["discover", str(measured[0]), "--out", str(tmp_path / "found"), "--device", "cpu"]
    assert main(words) == 2
    assert "leave out --device" in capsys.readouterr().err

"""Plane solids on the command line: two tests in two files to one modulus, and what is refused."""

import json

import numpy as np
import pytest

from nipde.cli import UNFORESEEN, main
from nipde.discretisation.parts import ClampedPart, GripPart, Specimen
from nipde.discretisation.solid_load import SolidLoad
from nipde.physics.plane_elasticity import PlaneElasticity
from nipde.shape import Shape

#: A plate of 60 × 30 × 2 mm that is clamped on the left and gripped on the right.
SHAPE = Shape.rectangle(60.0, 30.0)
POINTS = np.stack(np.meshgrid(np.arange(3.5, 60, 5.0), np.arange(2.5, 30, 5.0), indexing="ij"), -1).reshape(-1, 2)
UNITS = ("--units", "X=mm,Y=mm,U=mm,V=mm")
NOISE, MODULUS = 0.0006, 3000.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Exports of VIC: pulled by 1.2 kN, and pushed upwards by 60 N, seen at fewer points and with a gap."""
    place, rng = tmp_path_factory.mktemp("plate"), np.random.default_rng(3)
    specimen = Specimen(SHAPE, {"left": ClampedPart(), "right": GripPart()})
    loads = [SolidLoad(forces={"right": (600.0, 0.0)}), SolidLoad(forces={"right": (0.0, 30.0)})]
    exact = PlaneElasticity.of(specimen, MODULUS, poisson=0.35, spacing=1.7).displacements(loads, POINTS)
    seen = exact + NOISE * rng.standard_normal(exact.shape)
    for name, each, first in (("pulled.csv", seen[0], 0), ("pushed.csv", seen[1], 4)):
        rows = [
            f"{20 * x},{20 * y},{20 * u:.6g},{20 * v:.6g},{-1 if k == first + 7 else 0.01},{x},{y},{u:.7g},{v:.7g}"
            for k, ((x, y), (u, v)) in enumerate(zip(POINTS, each.T, strict=True))
        ]
        (place / name).write_text("\n".join(["x,y,u,v,sigma,X,Y,U,V", *rows[first:]]))
    (place / "plate.csv").write_text("x,y\n0,0\n60,0\n60,30\n0,30\n")
    return place


def discover(folder, out, *words):
    given = [str(folder / "pulled.csv"), *UNITS, "--outline", str(folder / "plate.csv")]
    return main(["discover", *given, "--out", str(out), "--homogeneous", "--poisson", "0.35", *words])


@pytest.fixture(scope="module")
def found(folder, tmp_path_factory):
    """The folder of one modulus from both tests."""
    out = tmp_path_factory.mktemp("found") / "modulus"
    loads = "right='1.2 kN';right='0 N : 60 N'"
    words = ("--clamped", "left", "--force", loads, "--thickness", "2 mm", "--more-files", str(folder / "pushed.csv"))
    words += ("--specimen", "plate 7 <b>", "--date", "2026-11-03")
    assert discover(folder, out, *words, "--noise", "0.6 um", "--uncertain", "[motion]", "--level", "0.8") == 0
    return out


def test_two_files_become_one_modulus(found):
    summary = json.loads((found / "summary.json").read_text(encoding="utf-8"))
    (phase,) = summary["phases"]
    assert phase["low"] < phase["modulus"] < phase["high"]
    assert phase["modulus"] == pytest.approx(MODULUS, rel=0.01)
    assert (summary["unit"], summary["model"], summary["level"]) == ("MPa", "homogeneous", 0.8)
    assert summary["poisson"] == {"value": 0.35, "half_width": 0, "stated": True, "open": False}
    assert summary["alarms"] == []
    assert "(80 % band " in summary["statements"][0]
    assert [source["name"] for source in summary["sources"]] == ["pulled.csv", "pushed.csv"]
    assert summary["fit"]["readings"] == 2 * (2 * len(POINTS) - 4 - 2)


def test_specimen_and_day_are_on_the_page_and_in_the_summary(found):
    summary = json.loads((found / "summary.json").read_text(encoding="utf-8"))
    assert (summary["specimen"], summary["measured_on"]) == ("plate 7 <b>", "2026-11-03")
    assert "specimen plate 7 <b>, measured on 2026-11-03." in summary["notes"]
    page = (found / "report.html").read_text(encoding="utf-8")
    assert "<h1>Young&#39;s modulus of plate 7 &lt;b&gt;</h1>" in page.replace("Young's", "Young&#39;s")
    assert "on <time>2026-11-03</time>" in page
    assert "<li>pulled.csv, pushed.csv</li>" in page


def test_how_the_bench_was_understood_is_said(found):
    notes = json.loads((found / "summary.json").read_text(encoding="utf-8"))["notes"]
    assert f"Specimen: 60 × 30 mm; points: {len(POINTS)}; tests: 2; gaps: 4.2 %." in notes
    assert "Held: left (clamped), right (grip); other parts are free." in notes
    assert "Test 1: force (600, 0) MPa·mm per thickness on right." in notes
    assert "Test 2: force (0, 30) MPa·mm per thickness on right." in notes
    assert "Plane stress, Poisson's ratio 0.35; noise of the displacements 0.0006 mm." in notes


def test_verify_finds_damage_and_nothing_else(found, capsys):
    assert main(["verify", str(found)]) == 0, capsys.readouterr().err
    stored = (found / "modulus.csv").read_bytes()
    try:
        (found / "modulus.csv").write_bytes(stored[:-9])
        assert main(["verify", str(found)]) == 1
        assert "modulus.csv" in capsys.readouterr().err
    finally:
        (found / "modulus.csv").write_bytes(stored)


def test_help_names_the_bench(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["discover", "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    for option in ("--clamped", "--roller", "--force", "--traction", "--thickness", "--uncertain", "--more-files"):
        assert f"\n  {option}" in printed


PULL = ("--clamped", "left", "--traction", "right=20 MPa")
REFUSED = {
    "unknown part": (("--clamped", "lefft"), "did you mean left?"),
    "roller along z": (("--roller", "left=z"), "expected x or y"),
    "force of no part": (("--force", "1200 N"), "--force, expected part=value, got '1200 N'"),
    "force without thickness": (("--clamped", "left", "--force", "right=1 kN"), "give --thickness"),
    "no thickness": (("--clamped", "left", "--force", "right=1 kN", "--thickness", "0 mm"), "thickness"),
    "traction that is a force": (("--traction", "right=20 N"), "converts to 'MPa', got 'N'"),
    "traction of two tests": ((*PULL[:3], "right=20 MPa;right=1 MPa"), "one entry, or 1, one per test, got 2"),
    "traction on a clamp": (("--clamped", "left", "--traction", "left=1 MPa"), "one condition for every part"),
    "no such uncertainty": ((*PULL, "--uncertain", "[movement]"), "--uncertain: expected"),
    "ratio too large": ((*PULL, "--poisson", "0.5"), "Poisson's ratio < 0.5, got 0.5"),
    "ratio of letters": ((*PULL, "--poisson", "rubber"), "--poisson: expected a number"),
    "negative noise": ((*PULL, "--noise=-1 mm"), "noise > 0"),
    "level": ((*PULL, "--level", "90"), "a number between 0 and 1, got '90'"),
    "no such file": ((*PULL, "--more-files", "nothing.csv"), "nothing.csv"),
    "no such outline": ((*PULL, "--outline", "nothing.csv"), "nothing.csv"),
    "no units": ((*PULL, "--units", ""), "no unit of 'X', 'Y', 'U', 'V'"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_is_one_sentence_and_no_folder(folder, tmp_path, capsys, monkeypatch, kind):
    words, says = REFUSED[kind]
    monkeypatch.chdir(tmp_path)
    assert discover(folder, tmp_path / "new", *words) == 2
    printed = capsys.readouterr().err
    assert says in printed
    assert UNFORESEEN not in printed
    assert len(printed.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_of_something_else_is_refused_before_the_work(folder, tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("five years")
    assert discover(folder / "missing", tmp_path, *PULL) == 2  # no file is looked for
    assert "thesis.txt" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "five years"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

"""Outlines on the command line: checked and drawn, from file to report, and what is refused."""

import json

import numpy as np
import pytest

from nipde.cli import main
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, Specimen
from nipde.physics.triangles import TriangleConduction, triangulated
from nipde.shape import Shape

UNITS = ("--units", "x=mm,load=W/mm^2,response=K")
#: A plate of 40 × 30 with a round hole and an inclusion of five times the conductivity.
HOLE = Shape.disc((26.0, 16.0), 6.0, vertices=96).rings[0]
SHAPE = Shape.polygon([(0, 0), (40, 0), (40, 30), (0, 30)], holes=[HOLE], sides=("bottom", "right", "top", "left"))


def conductivity(x, y):
    return np.where(np.hypot(x - 12, y - 10) < 7, 2.0, 0.4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Fluxes through three sides and the hole, 1 % noise, 60 points; data of triangles."""
    place, rng = tmp_path_factory.mktemp("plate"), np.random.default_rng(5)
    mesh = triangulated(SHAPE, 0.5)
    law = TriangleConduction(mesh, conductivity(*mesh.centres.T), Specimen(SHAPE, {"left": DirichletPart()}))
    parts = ("right", "top", "bottom", "hole 1")
    cases = [LoadCase(fluxes={part: 0.2}) for part in parts]
    points = rng.uniform((0, 0), (40, 30), (90, 2))
    points = points[SHAPE.contains(points)][:60]
    exact = (mesh.at(points) @ law.solve(np.zeros((len(mesh.vertices), len(cases))), cases)).T
    noise = 0.01 * np.sqrt(np.mean(exact**2))
    readings = exact + noise * rng.standard_normal(exact.shape)
    rows = [
        f"{k + 1},{x:.4f},{y:.4f},{u:.6g}"
        for k, each in enumerate(readings)
        for (x, y), u in zip(points, each, strict=True)
    ]
    (place / "plate.csv").write_text("\n".join(["pair,x,y,response", *rows]))
    rings = [[*ring.tolist(), ring[0].tolist()] for ring in SHAPE.rings]
    (place / "plate.geojson").write_text(json.dumps({"type": "Polygon", "coordinates": rings}))
    loads = "".join(f'[[loads]]\nkind = "flux"\npart = "{part}"\nflux = 0.2\n' for part in parts)
    head = f'files = ["plate.csv"]\noutline = "plate.geojson"\nnoise = {noise}\n'
    (place / "plate.toml").write_text(f'{head}[parts]\nleft = "dirichlet"\n{loads}')
    return place


def test_check_says_and_draws_what_was_understood(folder, capsys, tmp_path):
    picture = tmp_path / "plate.png"
    assert main(["check", str(folder / "plate.toml"), *UNITS, "--out", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "Part 'left', 30 mm long: Dirichlet, u = 0." in said
    assert "Part 'hole 1'" in said
    assert "4 flux" in said
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_conditions_come_from_options_too(folder, capsys):
    options = ["--outline", str(folder / "plate.geojson"), "--dirichlet", "left=2.5,top", "--flux", "right=3"]
    options += ["--robin", "'hole 1'=12"]
    assert main(["check", str(folder / "plate.csv"), *UNITS, *options]) == 0
    said = capsys.readouterr().out
    assert "Part 'left', 30 mm long: Dirichlet, u = 2.5." in said
    assert "Part 'top', 40 mm long: Dirichlet, u = 0." in said
    assert "Part 'right', 30 mm long: Neumann, flux 3." in said
    assert "Robin, flux 12 × (surroundings - u), surroundings 0" in said


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--flux", "right"], "part=number"), (["--dirichlet", "rim=2"], "'rim'"), (["--flux", "right=3"], "--dirichlet")],
)
def test_options_that_say_too_little_are_refused(folder, capsys, options, says):
    outline = ["--outline", str(folder / "plate.geojson")]
    assert main(["check", str(folder / "plate.csv"), *UNITS, *outline, *options]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.timeout(600)
def test_discover_from_file_to_report(folder, capsys, tmp_path):
    out = tmp_path / "result"
    assert main(["discover", str(folder / "plate.toml"), *UNITS, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "Two phases" in said
    found, summary = np.load(out / "microstructure.npz"), json.loads((out / "summary.json").read_text())
    x, y = np.meshgrid(found["x"], found["y"], indexing="ij")
    inside = np.isfinite(found["coefficient"])
    assert np.array_equal(inside, SHAPE.covers(np.stack([x.ravel(), y.ravel()], -1)).reshape(x.shape))
    truth = conductivity(x, y)[inside]
    low, high = found["coefficient_low"][inside], found["coefficient_high"][inside]
    assert np.mean((low <= truth) & (truth <= high)) > 0.8
    assert np.mean((found["coefficient"][inside] > 0.9) == (truth > 0.9)) > 0.93
    assert sum(summary["phases"]["shares"]) == pytest.approx(1.0)
    assert summary["held_out"]["mean_error"] < 0.05
    assert not summary["baselines"]
    assert not summary["recommended_loads"]
    assert summary["specimen"]["parts"]["left"] == "Dirichlet"
    assert summary["specimen"]["area"] == pytest.approx(SHAPE.region.area, rel=1e-3)
    page = (out / "report.html").read_text()
    assert 'class="outline"' in page
    rows = (out / "microstructure.csv").read_text().splitlines()
    assert len(rows) == 1 + inside.sum()


def test_weights_and_other_verbs_are_refused(folder, capsys, tmp_path):
    words = [str(folder / "plate.toml"), *UNITS, "--out", str(tmp_path / "out")]
    assert main(["discover", *words, "--weights", "darcy"]) == 2
    assert "specimens of any shape" in capsys.readouterr().err
    assert main(["design", *words, "--weights", "darcy"]) == 2
    assert "no --weights for a specimen with an outline" in capsys.readouterr().err


def test_design_ranks_wells_inside_the_outline(folder, capsys, tmp_path):
    """The same plate with heat at two points instead of fluxes."""
    described = (folder / "plate.toml").read_text().split("[[loads]]")[0]
    rows = (folder / "plate.csv").read_text().splitlines()
    kept = [rows[0], *(row for row in rows[1:] if row[0] in "12")]
    for name in ("plate.csv", "plate.geojson"):
        (tmp_path / name).write_text("\n".join(kept) if name == "plate.csv" else (folder / name).read_text())
    sources = "".join(f'[[loads]]\nkind = "point"\nposition = [{x}, {y}]\ntotal = 5.0\n' for x, y in ((8, 22), (33, 6)))
    (tmp_path / "plate.toml").write_text(described + sources)
    words = [str(tmp_path / "plate.toml"), *UNITS, "--count", "3"]
    assert main(["design", *words, "--out", str(tmp_path / "next.npz")]) == 0
    said = capsys.readouterr().out
    assert said.count("point load at") == 3
    found = np.load(tmp_path / "next.npz")
    places = np.stack([found["x"][np.nonzero(found["loads"])[1]], found["y"][np.nonzero(found["loads"])[2]]], -1)
    assert SHAPE.contains(places).all()
    assert main(["design", *words, "--noise", "0.1"]) == 2
    assert "no --noise for a specimen with an outline" in capsys.readouterr().err


def test_design_says_that_only_the_outline_was_loaded(folder, capsys):
    assert main(["design", str(folder / "plate.toml"), *UNITS]) == 0
    assert "only the outline was loaded" in capsys.readouterr().out

"""The files of a discovery can be opened without nipde."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import jsonschema
import meshio
import numpy as np
import pytest
import torch

import nipde
from nipde.discovery.discover import discover
from nipde.errors import NipdeError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.estimators.inverse.adjoint import BASELINES
from nipde.grid import Axis, Grid
from nipde.measurements.measurement import Measurement, Note, Source
from nipde.measurements.parse import parse
from nipde.measurements.units import Units
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase
from nipde.report.files import DIGESTS, NAMES, fields_of, is_discovery, problems, schema, summary
from nipde.report.kernel_factors import factors_of
from nipde.report.statements import statements

FILES = {*NAMES, DIGESTS}
#: No bytes in UTF-8: what Python makes of a file name in Latin-1.
LATIN = os.fsdecode(b"m\xfc.npz")
PLATE = Grid((Axis(9, 30.0), Axis(11, 90.0)))
WITHOUT_NIPDE = """
import sys, torch
sys.modules["nipde"] = None  # whoever imports it from here on fails
program = torch.export.load(sys.argv[1]).module()
torch.save(program(torch.load(sys.argv[2])), sys.argv[3])
"""


def found_in(grid, *, count=4, baselines=(), gaps=False):
    rng = np.random.default_rng(0)
    permeability = TwoPhase()(GaussianField(4.0, waves=6).sample(grid, rng=rng, count=1)[0])
    loads = GaussianField(1.0, waves=6, rms=1.0).sample(grid, rng=rng, count=count)
    mask = rng.random(loads.shape) > 0.1 if gaps else None
    pairs = nipde.Pairs.from_arrays(loads, Darcy(grid, permeability).solve(loads), grid=grid, noise=1e-4, mask=mask)
    sources, notes = (Source("plate.csv", "csv", "0" * 64),), (Note("reading", "Read ✓."), Note("warning", "Small."))
    origin = tuple(10.0 + place for place in range(grid.dimension))
    measurement = Measurement(pairs, Units("mm", "N/mm^2", "mm"), origin, sources, notes)
    torch.manual_seed(0)
    model = ConditionedNIPS(dimension=grid.dimension, channels=4).eval().requires_grad_(False)
    return discover(measurement, model, baselines={name: BASELINES[name] for name in baselines})


@pytest.fixture(scope="module")
def discovery():
    return found_in(PLATE, gaps=True, baselines=("Tikhonov",))


@pytest.fixture(scope="module")
def folder(discovery, tmp_path_factory):
    return discovery.save(tmp_path_factory.mktemp("found") / "new" / "folder", dense=True)


def test_every_file_is_there(folder):
    assert {path.name for path in folder.iterdir()} == FILES
    assert {path.name for path in folder.parent.iterdir()} == {folder.name}


def test_the_archive_holds_every_field_and_where_it_is(discovery, folder):
    with np.load(folder / "microstructure.npz", allow_pickle=False) as stored:
        assert stored["x"] == pytest.approx(10.0 + np.linspace(0, 30, 9))
        assert stored["y"] == pytest.approx(11.0 + np.linspace(0, 90, 11))
        assert str(stored["unit"]) == discovery.material.unit == "N/mm"
        for name, values in fields_of(discovery).items():
            assert np.array_equal(stored[name], values)
        assert np.array_equal(stored["coefficient"], discovery.material.values)
        assert np.array_equal(stored["coefficient_low"], discovery.material.low)
        assert np.array_equal(stored["coefficient_high"], discovery.material.high)
        assert np.array_equal(stored["phase"], discovery.phases.labels)
        measured = discovery.measurement.pairs.mask.double().mean((0, 1)).numpy()
        assert stored["measured_share"] == pytest.approx(measured)


def test_the_table_has_a_row_for_every_node(discovery, folder):
    read = parse(folder / "microstructure.csv")
    table = read.arrays
    assert read.units["x"] == discovery.measurement.units.length
    assert read.units["coefficient"] == discovery.material.unit
    assert len(table["x"]) == PLATE.size
    assert table["x"].reshape(PLATE.shape) == pytest.approx(PLATE.coordinates[0] + 10)
    assert table["y"].reshape(PLATE.shape) == pytest.approx(PLATE.coordinates[1] + 11)
    for name, values in fields_of(discovery).items():
        assert table[name].reshape(PLATE.shape) == pytest.approx(values, rel=1e-8)


def test_paraview_sees_the_same_values_in_the_same_places(discovery, folder):
    mesh = meshio.read(folder / "microstructure.vtk")
    places = np.rint((mesh.points[:, :2] - (10, 11)) / PLATE.spacing).astype(int)
    assert np.abs(places * PLATE.spacing + (10, 11) - mesh.points[:, :2]).max() <= 1e-4
    (cells,) = mesh.cells
    assert (cells.type, len(cells.data)) == ("quad", 8 * 10)
    corners = mesh.points[cells.data][..., :2]
    areas = [np.linalg.det(np.stack([c[1] - c[0], c[3] - c[0]])) for c in corners]
    assert areas == pytest.approx([np.prod(PLATE.spacing)] * 80, rel=1e-5)  # counterclockwise
    assert len(np.unique(places, axis=0)) == PLATE.size
    for name, values in fields_of(discovery).items():
        assert mesh.point_data[name].ravel() == pytest.approx(values[tuple(places.T)], rel=1e-8)


def test_the_summary_is_what_its_schema_says(discovery, folder):
    found = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(found, schema())
    assert found["statements"] == list(statements(discovery))
    assert found["coverage"] == {"covered": False, "reasons": list(discovery.coverage.reasons)}
    assert found["coverage"]["reasons"]
    assert found["units"] == {"length": "mm", "load": "N/mm^2", "response": "mm", "coefficient": "N/mm"}
    assert Grid.from_dict(found["grid"]) == PLATE
    assert found["grid"]["origin"] == [10.0, 11.0]
    assert found["held_out"]["pairs"] == list(discovery.held_out.indices)
    assert found["pairs"]["measured_share"] == pytest.approx(0.9, abs=0.05)
    assert found["outlier_test"] is None
    assert sum(found["phases"]["shares"]) == pytest.approx(1)
    assert [one["name"] for one in found["baselines"]] == ["Tikhonov"]
    assert found["notes"][0] == {"kind": "reading", "text": "Read ✓."}


def test_files_of_a_smooth_material_have_one_phase(at_sensors):
    smooth = summary(at_sensors, factors_of(at_sensors.kernel))
    jsonschema.validate(json.loads(json.dumps(smooth, allow_nan=False)), schema())
    assert (smooth["phases"]["shares"], smooth["phases"]["thresholds"]) == ([1.0], [])
    assert fields_of(at_sensors)["phase"].max() == 0


def test_a_summary_with_an_outlier_test_or_without_held_out_pairs_fits_the_schema_too():
    grid = Grid.uniform(9)
    few = found_in(grid, count=2, baselines=("Tikhonov",))
    record = json.loads(json.dumps(summary(few, factors_of(few.kernel)), allow_nan=False))
    jsonschema.validate(record, schema())
    assert record["held_out"] is None
    assert record["baselines"][0]["held_out_error"] is None
    with torch.no_grad():
        kernel = nipde.load("darcy-two-phase")(few.measurement.pairs)
    tested = summary(replace(few, kernel=kernel), factors_of(kernel))
    jsonschema.validate(json.loads(json.dumps(tested, allow_nan=False)), schema())
    assert tested["outlier_test"]["is_outlier"] == bool(kernel.outlier_test.is_outlier)
    assert tested["outlier_test"]["z_scores"] == {name: float(z) for name, z in kernel.outlier_test.scores.items()}


def test_the_kernel_is_its_factors(discovery, folder):
    values = discovery.kernel.dense().double().numpy()
    with np.load(folder / "kernel.npz", allow_pickle=False) as stored:
        assert np.array_equal(stored["dense"], discovery.kernel.dense().numpy())
        left, right = (stored[name].reshape(len(stored[name]), -1) for name in ("left", "right"))
        assert stored["y"] == pytest.approx(11.0 + np.linspace(0, 90, 11))
    rest = (left.T @ right - values) * np.sqrt(np.outer(PLATE.weights, PLATE.weights))
    whole = values * np.sqrt(np.outer(PLATE.weights, PLATE.weights))
    record = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["kernel"]
    assert record["rank"] == len(left)
    assert np.linalg.norm(rest) / np.linalg.norm(whole) == pytest.approx(record["truncation_error"], rel=1e-3)
    assert record["truncation_error"] <= 1e-3


@pytest.mark.slow
def test_the_predictor_runs_without_nipde(discovery, folder, tmp_path):
    loads = torch.randn(3, *PLATE.shape, generator=torch.Generator().manual_seed(0))
    torch.save(loads, tmp_path / "loads.pt")
    site = os.path.dirname(os.path.dirname(torch.__file__))
    alone = f"import sys; sys.path.append({site!r})\n" + WITHOUT_NIPDE
    # No site: the editable install of nipde hangs on its start-up files.
    words = [sys.executable, "-I", "-S", "-c", alone, str(folder / "predictor.pt2"), "loads.pt", "responses.pt"]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=200)
    responses, expected = torch.load(tmp_path / "responses.pt"), discovery.kernel.predict(loads[:, None])[:, 0]
    assert float((responses - expected).abs().max() / expected.abs().max()) <= 1e-5


def test_the_page_stands_beside(discovery, folder):
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!")
    assert "Read ✓." in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "grid", [Grid.uniform(33, dimension=1), Grid((Axis(5, 1.0), Axis(5, 20.0), Axis(6, 3.0)))], ids=["1d", "3d"]
)
def test_lines_and_blocks_are_saved_too(grid, tmp_path):
    discovery = found_in(grid)
    folder = discovery.save(tmp_path)
    assert {path.name for path in folder.iterdir()} == FILES
    jsonschema.validate(json.loads((folder / "summary.json").read_text(encoding="utf-8")), schema())
    assert "dense" not in np.load(folder / "kernel.npz").files
    mesh = meshio.read(folder / "microstructure.vtk")
    assert mesh.cells[0].type == {1: "line", 3: "hexahedron"}[grid.dimension]
    assert mesh.point_data["coefficient"].ravel() == pytest.approx(discovery.material.values.ravel(), rel=1e-8)
    positions = np.stack(np.meshgrid(*discovery.measurement.positions.values(), indexing="ij"), -1)
    assert mesh.points[:, : grid.dimension] == pytest.approx(positions.reshape(grid.size, -1), rel=1e-6)


def test_saving_again_replaces_what_was_there(tmp_path):
    few, place = found_in(Grid.uniform(7), count=2), tmp_path / "found"
    (few.save(place) / "report.html").write_text("an older page")
    few.save(place)
    assert {path.name for path in place.iterdir()} == FILES
    assert problems(place) == []
    assert [path.name for path in tmp_path.iterdir()] == ["found"]


@pytest.mark.parametrize("names", [("thesis.txt",), ("summary.json", "thesis.txt"), ("report.html",)])
def test_a_folder_of_something_else_is_never_replaced(discovery, tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("mine")
    with pytest.raises(NipdeError) as error:
        discovery.save(tmp_path)
    assert str(tmp_path) in error.value.got
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["mine"] * len(names)


@pytest.mark.parametrize(
    "change",
    [
        lambda found: replace(found, material=replace(found.material, unit=LATIN)),
        lambda found: replace(found, material=replace(found.material, quantity=LATIN)),
        lambda found: replace(found, provenance={**found.provenance, "files": [{"name": LATIN}]}),
        lambda found: replace(found, measurement=replace(found.measurement, sources=(Source(LATIN, "csv", ""),))),
        lambda found: replace(found, measurement=replace(found.measurement, units=Units("mm", LATIN, "mm"))),
    ],
    ids=["unit", "quantity", "provenance", "source", "load"],
)
def test_text_that_is_not_utf8_is_refused_before_the_work_and_leaves_nothing(discovery, change, tmp_path, monkeypatch):
    monkeypatch.setattr("nipde.report.files.factors_of", pytest.fail)
    with pytest.raises(NipdeError) as error:
        change(discovery).save(tmp_path / "found")
    assert "udcfc" in error.value.got
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failing", ["page", "save_program", "write_vtk"])
def test_an_error_in_the_middle_leaves_the_earlier_discovery(discovery, folder, tmp_path, monkeypatch, failing):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(f"nipde.report.files.{failing}", lambda *given: 1 / 0)
    for place in (folder, tmp_path / "new"):
        with pytest.raises(ZeroDivisionError):
            discovery.save(place)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert list(tmp_path.iterdir()) == []
    assert list(folder.parent.iterdir()) == [folder]


def test_names_and_units_beyond_latin_are_written(discovery, tmp_path):
    material = replace(discovery.material, unit="Ω·m", quantity="比抵抗")
    folder = replace(discovery, material=material).save(tmp_path / "抵抗")
    assert "Ω·m" in (folder / "microstructure.csv").read_text(encoding="utf-8")
    assert "比抵抗" in (folder / "report.html").read_text(encoding="utf-8")


def test_flips_truncations_and_deletions_are_all_noticed(folder, tmp_path):
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert problems(folder) == []
    rng = np.random.default_rng(0)
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    for number in range(300):
        name = sorted(contents)[number % len(contents)]
        place, data = tmp_path / name, bytearray(contents[name])
        kind = rng.choice(["flip", "truncation", "deletion"], p=[0.6, 0.3, 0.1])
        if kind == "flip":
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        elif kind == "truncation":
            del data[rng.integers(len(data)) :]
        place.unlink() if kind == "deletion" else place.write_bytes(data)
        assert is_discovery(tmp_path)
        assert problems(tmp_path), (kind, name)
        place.write_bytes(contents[name])
    assert problems(tmp_path) == []


def test_the_digests_are_those_of_sha256sum(folder):
    subprocess.run(["sha256sum", "--check", "--strict", DIGESTS], cwd=folder, check=True, capture_output=True)


def test_a_file_whose_name_is_not_utf8_is_read_and_saved(tmp_path):
    grid = Grid.uniform(7, length=70.0)
    loads = GaussianField(1.0, waves=6, rms=0.01).sample(grid, rng=np.random.default_rng(0), count=3)
    x, units = grid.axes[0].coordinates, json.dumps({"x": "mm", "y": "mm", "loads": "N/mm^2", "responses": "mm"})
    responses = Darcy(grid, np.ones(grid.shape)).solve(loads)
    np.savez(tmp_path / LATIN, x=x, y=x, loads=loads, responses=responses, noise=0.0, units=units)
    measurement = nipde.read(tmp_path / LATIN)
    assert measurement.sources[0].name == r"m\udcfc.npz"
    assert "N/mm²" in measurement.interpretation().encode().decode()
    torch.manual_seed(0)
    folder = discover(measurement, ConditionedNIPS(dimension=2, channels=4).eval()).save(tmp_path / "found")
    assert problems(folder) == []

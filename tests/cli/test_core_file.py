"""A core from a file: an outline between two heights, loads on its parts, readings at scattered points."""

import json

import jsonschema
import numpy as np
import pytest

import nipde
from nipde.cli import main
from nipde.errors import MeasurementError
from nipde.estimators.inverse import sensor_inversion
from nipde.measurements.outline import PartDescription
from nipde.prism import Prism
from nipde.report import kernel_factors
from nipde.report.files import schema

LOW, HIGH = 0.01, 0.13
UNITS = {"x": "m", "response": "K", "load": "W/m^3"}
TEXT = """
files = ["core.csv"]
response = "temperature"
outline = "core.geojson"
outline_heights = [0.01, 0.13]
noise = 0.02

[units]
x = "m"
response = "K"
load = "W/m^3"

[parts]
back = "dirichlet"

[[loads]]
kind = "flux"
part = "heater"
flux = "400 W/m^2"
pair = 1

[[loads]]
kind = "flux"
part = "front"
flux = 300.0
slope = [0.0, 0.0, 2000.0]
pair = 2

[[loads]]
kind = "flux"
part = "heater"
flux = 500.0
pair = 3
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """Temperatures that only look like such: the files are what is tested."""
    folder, rng = tmp_path_factory.mktemp("core"), np.random.default_rng(0)
    angle, away = 2 * np.pi * rng.random(24), 0.038 * np.sqrt(rng.random(24))
    points = np.stack([0.05 + away * np.cos(angle), 0.05 + away * np.sin(angle), rng.uniform(0.02, 0.12, 24)], -1)
    rows = [f"{pair},{x},{y},{z},{pair * (z - LOW) * 50 + x}" for pair in (1, 2, 3) for x, y, z in points.tolist()]
    (folder / "core.csv").write_text("\n".join(["pair,x,y,z,temperature", *rows]) + "\n", encoding="utf-8")
    turn = 2 * np.pi * np.arange(64) / 64
    ring = (0.05 + 0.04 * np.stack([np.cos(turn), np.sin(turn)], -1)).tolist()
    shapes = {"": ("Polygon", [[*ring, ring[0]]]), "heater": ("LineString", ring[:20])}
    features = [
        {"type": "Feature", "properties": {"name": name} if name else {}, "geometry": {"type": kind, "coordinates": at}}
        for name, (kind, at) in shapes.items()
    ]
    text = json.dumps({"type": "FeatureCollection", "features": features})
    (folder / "core.geojson").write_text(text, encoding="utf-8")
    (folder / "core.toml").write_text(TEXT, encoding="utf-8")
    return folder


def test_what_was_understood(core):
    measurement = nipde.read(core / "core.toml")
    specimen, readings = measurement.specimen, measurement.readings
    assert isinstance(specimen.shape, Prism)
    assert (specimen.shape.low, specimen.shape.high) == pytest.approx(
        (LOW - measurement.origin[2], HIGH - measurement.origin[2])
    )
    assert readings.readings.shape == (3, 24)
    said = measurement.interpretation()
    assert "z from 0.01 to 0.13 m" in said
    assert "Part 'back', an end: Dirichlet, u = 0." in said
    assert "Part 'front', an end: Neumann, flux 0, and what is described for each test." in said
    heights = np.array([LOW, HIGH]) - measurement.origin[2]
    at_ends = readings.outline[1].fluxes["front"](np.zeros(2), np.zeros(2), heights)
    assert at_ends == pytest.approx([300 + 2000 * LOW, 300 + 2000 * HIGH])
    assert readings.outline[0].fluxes == {"heater": 400.0}


def test_check_draws_three_views(core, tmp_path):
    assert main(["check", str(core / "core.toml"), "--out", str(tmp_path / "core.png")]) == 0
    assert (tmp_path / "core.png").stat().st_size > 20_000


def test_options_instead_of_a_description(core):
    words = {"outline": core / "core.geojson", "outline_heights": (LOW, HIGH), "response": "temperature"}
    held = {"back": PartDescription("dirichlet"), "heater": PartDescription("neumann", 400.0)}
    measurement = nipde.read(core / "core.csv", units=UNITS, parts=held, **words)
    assert isinstance(measurement.specimen.shape, Prism)
    with pytest.raises(MeasurementError, match="do not match") as caught:
        nipde.read(core / "core.csv", units=UNITS, parts=held, **{**words, "outline_heights": (0.2, 0.3)})
    assert "same origin" in caught.value.remedy


@pytest.mark.parametrize(
    ("words", "got"),
    [
        (["--outline-heights", "0,one", "--outline", "{}"], "expected two numbers such as 0,0.12, the lower first"),
        (["--outline-heights", "0,1"], "expected the file of the outline, got none"),
        (["--outline-heights", "0,1", "--clamped", "left"], "got --outline-heights, of a scalar law"),
    ],
)
def test_heights_that_make_no_sense_are_refused(core, tmp_path, capsys, words, got):
    words = [word.format(core / "core.geojson") for word in words]
    assert main(["discover", str(core / "core.csv"), *words, "--out", str(tmp_path / "out")]) != 0
    assert got in capsys.readouterr().err


@pytest.mark.slow
def test_a_core_becomes_a_folder(core, tmp_path, capsys, monkeypatch):
    for module, name, value in ((sensor_inversion, "MATERIAL_3D", 8), (sensor_inversion, "SOLVER_3D", 14),
                                (kernel_factors, "MOST", 20)):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    assert (
        main(["discover", str(core / "core.toml"), "--quantity", "conductivity", "--out", str(tmp_path / "out")]) == 0
    )
    assert "three axes: bands of output error are calibrated in the plane" in capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, schema())
    assert found["specimen"]["heights"][1] - found["specimen"]["heights"][0] == pytest.approx(HIGH - LOW)
    assert main(["verify", str(tmp_path / "out")]) == 0

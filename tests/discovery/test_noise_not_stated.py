"""A table of readings at scattered points whose noise nobody stated: it is estimated, and the report says so."""

import json

import jsonschema
import numpy as np
import pytest

import nipde
from nipde.context.sensors import Sensors
from nipde.grid import Axis, Grid
from nipde.physics.darcy import Darcy
from nipde.report.files import schema
from nipde.report.statements import statements

SHARE = 0.02


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Four loads, forty points, noise of 2 % that the file does not mention."""
    grid, rng = Grid((Axis(41, 100.0), Axis(41, 100.0))), np.random.default_rng(4)
    x, y = grid.coordinates
    centres = ((30, 30), (70, 40), (40, 70), (65, 70))
    loads = np.stack([np.exp(-((x - a) ** 2 + (y - b) ** 2) / 300) for a, b in centres])
    heads = Darcy(grid, 2 + np.sin(x / 30) * y / 100).solve(loads)
    points = rng.uniform(5, 95, (40, 2)).round(2)
    readings = (Sensors.at(points).matrix(grid) @ heads.reshape(len(heads), -1).T).T
    readings = readings + SHARE * np.sqrt(np.mean(readings**2)) * rng.standard_normal(readings.shape)
    folder = tmp_path_factory.mktemp("table")
    header = "x [m],y [m]," + ",".join(f"head_{number + 1} [m]" for number in range(len(heads)))
    np.savetxt(folder / "heads.csv", np.column_stack([points, readings.T]), delimiter=",", header=header, comments="")
    terms = "".join(
        f'\n[[loads]]\nkind = "gaussian"\ncentre = [{a}, {b}]\nwidth = {150**0.5}\namplitude = "1 m/d"\n'
        for a, b in centres
    )
    (folder / "table.toml").write_text(
        'files = "heads.csv"\nresponse = "head"\nnodes = 11\nbox = [[0, 100], [0, 100]]\n[units]\nload = "m/d"\n'
        + terms
    )
    estimator = nipde.SensorInversion(phases=(), material=10, solver=30)
    return nipde.discover(nipde.read(folder / "table.toml"), estimator, quantity="transmissivity")


def test_the_noise_is_estimated_from_the_residuals(found):
    assert found.measurement.pairs.noise is None
    assert found.measurement.readings.noise is None
    summary = found.kernel.laws[0].summary
    assert not summary["noise_stated"]
    assert summary["noise"] / summary["size"] == pytest.approx(SHARE, rel=0.4)
    assert found.kernel.outlier_test is None


def test_statements_say_so(found):
    sentences = statements(found)
    assert sentences[0].startswith("Not covered by the calibration: the noise is not stated")
    assert any("estimated from the residuals as" in one and "% of the readings" in one for one in sentences[1:])
    assert not any("weights" in one or "In-distribution" in one for one in sentences)


def test_the_result_is_saved(found, tmp_path):
    folder = found.save(tmp_path / "found")
    record = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    jsonschema.validate(record, schema())
    assert (record["outlier_test"], record["coverage"]["covered"]) == (None, False)
    assert "Noise not stated" in (folder / "report.html").read_text(encoding="utf-8")

"""A crack-like inclusion, from files: thinner than its interfaces are known, so that no node of it is identifiable."""

import json

import numpy as np
import pytest
from scipy.interpolate import RectBivariateSpline

import nipde
from nipde.report.statements import statements
from tests.estimators.test_plates_of_finite_volumes import CENTRES, X, Y, responses

PAIRS, POINTS, NOISE = 10, 40, 0.01
HIGH, LOW = 15.0, 0.5
CRACK = (np.abs((X - 0.5) + 0.3 * (Y - 0.5)) < 0.02) & (np.abs(Y - 0.5) < 0.3)


def measured(folder):
    """A table of readings, the outline and a description; finite volumes of the test's own."""
    rng = np.random.default_rng(4)
    centres, widths, sizes = (
        rng.uniform(0.15, 0.85, (PAIRS, 2)),
        rng.uniform(0.08, 0.2, PAIRS),
        rng.uniform(1, 3, PAIRS),
    )
    points = rng.uniform(0.05, 0.95, (POINTS, 2))
    squared = (X - centres[:, :1, None]) ** 2 + (Y - centres[:, 1:, None]) ** 2
    loads = sizes[:, None, None] * np.exp(-squared / (2 * widths[:, None, None] ** 2))
    fields = np.pad(responses(np.where(CRACK, LOW, HIGH), loads), ((0, 0), (1, 1), (1, 1)))
    padded = np.concatenate([[0], CENTRES, [1]])
    exact = np.stack([RectBivariateSpline(padded, padded, one, kx=1, ky=1).ev(*points.T) for one in fields])
    noise = NOISE * float(np.sqrt(np.mean(exact**2)))
    readings = exact + noise * rng.standard_normal(exact.shape)
    lines = [f"{pair},{x},{y},{value}" for pair, row in enumerate(readings, 1)
             for (x, y), value in zip(points, row, strict=True)]  # fmt: skip
    (folder / "plate.csv").write_text("\n".join(["pair,x,y,response", *lines]))
    square = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
    (folder / "plate.geojson").write_text(json.dumps({"type": "Polygon", "coordinates": [square]}))
    described = "\n".join(
        f'[[loads]]\nkind = "gaussian"\ncentre = [{x}, {y}]\nwidth = {width}\namplitude = {size}\n'
        for (x, y), width, size in zip(centres.tolist(), widths.tolist(), sizes.tolist(), strict=True)
    )
    sides = "\n".join(f'{side} = "dirichlet"' for side in ("left", "right", "bottom", "top"))
    units = '[units]\nx = "m"\ny = "m"\nload = "W/m^2"\nresponse = "K"\n'
    path = folder / "plate.toml"
    head = f'files = "plate.csv"\noutline = "plate.geojson"\nnoise = "{noise} K"\n'
    path.write_text(f"{head}{units}[parts]\n{sides}\n{described}")
    return nipde.read(path)


def test_its_phase_is_stated_and_its_nodes_are_uncertain(tmp_path):
    found = nipde.discover(measured(tmp_path), nipde.SensorInversion(material=30, solver=90), quantity="conductivity")
    assert found.kernel.phases == 2
    low, high = found.phases.medians
    assert high == pytest.approx(HIGH, rel=0.02)
    assert low < HIGH / 8  # what such a crack lets pass tells width and conductivity together
    inside = found.phases.labels == 0
    assert 0.003 < inside.mean() < 0.1
    assert found.material.identifiable[inside].max() < 0.5
    assert found.phases.uncertain[inside].all()
    assert any(sentence.startswith("Two phases: conductivity") for sentence in statements(found))

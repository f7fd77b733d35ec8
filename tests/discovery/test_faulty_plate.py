"""Faulty sensors and pairs from files to statements, on a plate of finite volumes of the tests' own."""

import json

import jsonschema
import numpy as np
import pytest
import torch
from scipy.interpolate import RectBivariateSpline

import nipde
from nipde.discovery.discover import without_nodes
from nipde.report.files import schema
from nipde.report.statements import statements
from tests.estimators.test_faulty_readings import INCLUSIONS
from tests.estimators.test_plates_of_finite_volumes import CENTRES, X, Y, responses

PAIRS, POINTS, NOISE, STUCK = 12, 50, 0.01, 7
ESTIMATOR = nipde.SensorInversion(material=24, solver=70)
SIDE = 200.0  # mm


def loads_at(x, y):
    rng = np.random.default_rng(2)
    centres, widths, sizes = (
        rng.uniform(0.15, 0.85, (PAIRS, 2)),
        rng.uniform(0.08, 0.2, PAIRS),
        rng.uniform(1, 3, PAIRS),
    )
    squared = (x - centres[:, :1, None]) ** 2 + (y - centres[:, 1:, None]) ** 2
    return sizes[:, None, None] * np.exp(-squared / (2 * widths[:, None, None] ** 2)), centres, widths, sizes


def exact_at(points):
    """On the unit square; of a larger one with these loads the coefficient is larger by its area."""
    padded = np.concatenate([[0], CENTRES, [1]])
    fields = np.pad(responses(INCLUSIONS, loads_at(X, Y)[0]), ((0, 0), (1, 1), (1, 1)))
    return np.stack([RectBivariateSpline(padded, padded, one, kx=1, ky=1).ev(*points.T) for one in fields])


def noisy(points):
    exact = exact_at(points)
    noise = NOISE * float(np.sqrt(np.mean(exact**2)))
    return exact + noise * np.random.default_rng(3).standard_normal(exact.shape), noise


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A stuck sensor; two pairs exchanged, of which one is held out."""
    folder = tmp_path_factory.mktemp("plate")
    points = np.random.default_rng(4).uniform(0.05, 0.95, (POINTS, 2))
    readings, noise = noisy(points)
    readings[:, STUCK] = 0.3 * readings.max()
    readings[[0, 4]] = readings[[4, 0]]
    lines = [f"{pair},{SIDE * x},{SIDE * y},{value}" for pair, row in enumerate(readings, 1)
             for (x, y), value in zip(points, row, strict=True)]  # fmt: skip
    (folder / "plate.csv").write_text("\n".join(["pair,x [mm],y [mm],response [K]", *lines]))
    _, centres, widths, sizes = loads_at(X, Y)
    described = "\n".join(
        f'[[loads]]\nkind = "gaussian"\ncentre = [{SIDE * x}, {SIDE * y}]\nwidth = {SIDE * width}\namplitude = {size}\n'
        for (x, y), width, size in zip(centres.tolist(), widths.tolist(), sizes.tolist(), strict=True)
    )
    head = f'files = "plate.csv"\nnoise = "{noise} K"\nnodes = 21\nbox = [[0, {SIDE}], [0, {SIDE}]]\n'
    path = folder / "plate.toml"
    path.write_text(f'{head}units = {{ load = "W/mm^2" }}\n{described}')
    return nipde.discover(nipde.read(path), ESTIMATOR, quantity="conductance"), SIDE * points[STUCK], folder


def test_they_are_stated_first_and_the_case_is_covered(found):
    discovery, at, _ = found
    assert discovery.coverage.covered
    sentence = statements(discovery)[1]
    assert sentence.startswith("1 sensor and 2 pairs were left out as faulty.")
    assert f"at ({at[0]:.4g}, {at[1]:.4g}) mm reads " in sentence
    assert "pair 1 has the responses that pair 5 should have; exchanged?" in sentence


def test_held_out_pairs_that_are_faulty_are_not_judged(found):
    discovery, _, _ = found
    assert set(discovery.kernel.laws[0].faulty_pairs) == {0, 4}
    assert len(discovery.held_out.indices) > 0
    assert not {0, 4} & set(discovery.held_out.indices)
    assert float(discovery.held_out.errors.mean()) < 0.03


def test_the_page_and_the_summary_have_them(found):
    discovery, at, folder = found
    place = discovery.save(folder / "result")
    summary = json.loads((place / "summary.json").read_text())
    jsonschema.validate(summary, schema())
    ((sensor,), pairs) = summary["faulty_sensors"], summary["faulty_pairs"]
    np.testing.assert_allclose(sensor["position"], at)
    assert (sensor["fault"], [(one["pair"], one["exchanged_with"]) for one in pairs]) == ("stuck", [(0, 4), (4, 0)])
    page = (place / "report.html").read_text()
    assert "left out as faulty (1)" in page
    assert 'id="left-out"' in page


def test_nodes_without_readings_are_masked_in_addition():
    grid = nipde.Grid.uniform(5)
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    mask[0, 0, 3, 3] = False
    pairs = nipde.Pairs(grid, torch.ones(2, 1, 5, 5), torch.ones(2, 1, 5, 5), mask=mask)
    assert without_nodes(pairs, np.zeros((0, 2))) is pairs
    expected = mask.clone()
    expected[:, :, 1, 2] = False
    assert torch.equal(without_nodes(pairs, np.array([[0.25, 0.5]])).mask, expected)
    full = without_nodes(nipde.Pairs(grid, pairs.loads, pairs.responses), np.array([[0.25, 0.5]]))
    assert full.mask.sum() == 2 * 24  # sides are kept


def test_a_dead_node_of_a_full_field_is_left_out():
    grid = nipde.Grid.uniform(21)
    x, y = grid.coordinates
    fields, noise = noisy(np.stack([x.ravel(), y.ravel()], -1))
    fields = fields.reshape(PAIRS, *grid.shape)
    fields[:, 9, 12] = 0.0
    pairs = nipde.Pairs.from_arrays(loads_at(x, y)[0], fields, grid=grid, noise=noise)
    law = ESTIMATOR(pairs).laws[0]
    np.testing.assert_allclose(law.faulty_positions, [[9 / 20, 12 / 20]])
    assert not law.bands.outlier_test.is_outlier

"""Errors with a pattern, and outliers: what is integrated out, and what the tests of residuals say of them."""

import numpy as np
import pytest
import torch

from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.estimators.inverse.nuisance import OUTLYING, Nuisance, bearing_outliers
from nipde.estimators.inverse.residual_tests import along, proportion, spread, tails, whiteness
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Grid
from nipde.physics.finite_elements import FiniteElements
from nipde.physics.random_fields import GaussianField

GRID = Grid.uniform(11)
NOISE = 0.01


@pytest.fixture(scope="module")
def specimen():
    """Loads and readings at the inner nodes without noise, by finite elements eight times finer; smooth material."""
    mesh, rng = GRID.refine(8), np.random.default_rng(4)
    x, y = (one[1::2, 1::2] for one in mesh.refine(2).coordinates)
    law = FiniteElements(mesh, 3 + np.sin(4 * x) * np.cos(3 * y))
    loads = GaussianField(2.0, waves=4, rms=1.0).sample(mesh, rng=rng, count=12)
    loads, responses = (mesh.restrict(field, to=GRID) for field in (loads, law.solve(loads)))
    return loads, responses


def estimated(specimen, *, change=lambda y, rng: y, nuisance=()):
    """Law from nine pairs with 1 % noise and a change; and the mean error of predictions of the others."""
    loads, responses = specimen
    rng = np.random.default_rng(7)
    sensors = Sensors.at_nodes(GRID)
    readings = responses[:, GRID.unknown]
    level = NOISE * np.sqrt(np.mean(readings**2))
    noisy = change(readings[:9], rng) + level * rng.standard_normal(readings[:9].shape)
    pairs = SensorPairs(GRID, torch.as_tensor(loads[:9, None]), sensors, torch.as_tensor(noisy), level)
    law = SensorInversion(phases=(), material=16, solver=40, nuisance=nuisance).law(pairs)
    off = law.solve(loads[9:]) - responses[9:]
    return law, float(np.linalg.norm(off) / np.linalg.norm(responses[9:]))


def gained(y, rng):
    gains = 1 + 0.05 * rng.standard_normal(len(y))
    return y * (gains / gains.mean())[:, None]


def shifted(y, rng):
    return y + 0.1 * np.sqrt(np.mean(y**2)) * rng.standard_normal(len(y))[:, None]


def outlying(y, rng):
    return y + np.where(rng.random(y.shape) < 0.02, 0.5 * np.sqrt(np.mean(y**2)), 0.0)


def test_without_errors_nothing_rings(specimen):
    law, error = estimated(specimen)
    assert not law.bands.outlier_test.is_outlier
    assert error < 0.01


@pytest.mark.parametrize(
    ("change", "kind", "score"),
    [(gained, "gain", "gain"), (shifted, "offset", "offset"), (outlying, "outliers", "tails")],
)
def test_an_error_rings_and_is_borne_when_it_is_told(change, kind, score, specimen):
    law, error = estimated(specimen, change=change)
    told, less = estimated(specimen, change=change, nuisance=(kind,))
    assert law.bands.outlier_test.scores[score] > 6
    assert law.bands.outlier_test.is_outlier
    assert not told.bands.outlier_test.is_outlier
    assert less < 0.7 * error
    assert less < 0.012


def test_sizes_are_estimated_and_gains_have_mean_0():
    rng = np.random.default_rng(0)
    predicted = rng.standard_normal((30, 8))
    gains, offsets = 0.03 * rng.standard_normal(8), 0.1 * rng.standard_normal(8)
    gains -= gains.mean()
    nuisance = Nuisance.of(("gain", "offset"), predicted)
    weights = np.full(predicted.shape, 1e8)
    found = nuisance.estimated(weights * (gains * predicted + offsets), weights)
    np.testing.assert_allclose(found, [gains, offsets], atol=1e-5)
    found = nuisance.estimated(weights * 0.02 * predicted, weights)
    assert abs(found[0].mean()) < 1e-12  # a common gain is none of them
    assert nuisance.dof(weights) == pytest.approx(15, abs=1e-3)
    assert Nuisance.of(("outliers",), predicted) is None


def test_outliers_have_the_deviation_that_they_show():
    residual = np.array([[1.0, -2.0, 30.0]])
    np.testing.assert_allclose(bearing_outliers(np.ones((1, 3)), residual)[0, 2], 30 / OUTLYING / 2.9652, rtol=1e-3)
    assert bearing_outliers(np.ones((1, 3)), np.array([[1.0, -0.5, 0.7]])).tolist() == [[1, 1, 1]]


def test_scores_of_white_noise_are_normal():
    rng, points = np.random.default_rng(1), Sensors.at_nodes(GRID).points
    scores = []
    for _ in range(60):
        z, u = rng.standard_normal((2, len(points), 10))
        everywhere = np.ones(z.shape, dtype=bool)
        scores.append([
            whiteness(z, everywhere, points), along(z, u), spread(z.sum(1) / 10**0.5, everywhere.any(1)),
            proportion(z.ravel(), u.ravel()),
        ])  # fmt: skip
    assert np.all(np.abs(np.mean(scores, 0)) < 0.4)
    assert np.all(np.abs(np.std(scores, 0) - 1) < 0.3)


def test_scores_see_what_they_are_for():
    rng, points = np.random.default_rng(2), Sensors.at_nodes(GRID).points
    z, u = rng.standard_normal((2, len(points), 10))
    smooth = z + np.sin(7 * points[:, :1])
    assert whiteness(smooth, np.ones(z.shape, dtype=bool), points) > 6
    assert along(z + 0.5 * u, u) > 6
    assert proportion((z * (0.3 + np.abs(u))).ravel(), u.ravel()) > 6
    assert tails(np.append(z.ravel(), 9.0)) > 6 > tails(z.ravel()) + 2

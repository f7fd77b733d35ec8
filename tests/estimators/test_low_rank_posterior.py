"""The low-rank posterior against the dense one: deviations, samples, functionals, and more sensors."""

from dataclasses import replace

import numpy as np
import pytest

from nipde.context.sensors import Sensors
from nipde.errors import ShapeError
from nipde.estimators.inverse.low_rank_posterior import LowRankPosterior
from nipde.estimators.inverse.material_models import MaternField
from nipde.estimators.inverse.matern_covariance import MaternCovariance
from nipde.estimators.inverse.nuisance import Nuisance
from nipde.estimators.inverse.output_error import LinkSolver, SensorSystem
from nipde.estimators.inverse.reading_jacobian import JacobianByGreens, JacobianBySolves, jacobian_of
from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField

DATA, NODES, PAIRS = Grid.uniform(9), Grid.uniform(17), 5
FIELD = MaternField(NODES, deviation=0.7)
PLACES = np.random.default_rng(5).uniform(0.1, 0.9, (30, 2))


def near_of(sensors, *, nuisance=()):
    """Derivatives at a log-normal state, and readings with 1 % noise."""
    rng = np.random.default_rng(3)
    loads = GaussianField(1.0, waves=4, rms=1.0).sample(DATA, rng=rng, count=PAIRS)
    log = GaussianField(3.0, rms=0.5).sample(NODES, rng=rng, count=1).ravel()
    none = np.zeros((len(sensors), PAIRS))
    system = SensorSystem(grid=DATA, loads=loads, sensors=Sensors.at(sensors), values=none, weights=none)
    near = LinkSolver(NODES, system, nodes=NODES, per_axis=3).linearised(FIELD, log)
    weights = np.full(none.shape, 1 / (0.01 * np.sqrt(np.mean(near.predicted**2))) ** 2)
    return near, replace(system, weights=weights, nuisance=Nuisance.of(nuisance, near.predicted))


def dense(near, system):
    precision = FIELD.quadratic(np.zeros(NODES.size))[0].toarray()
    return np.linalg.inv(near.curvature(system) + precision)


@pytest.fixture(scope="module")
def problem():
    near, system = near_of(PLACES)
    return near, system, dense(near, system)


@pytest.fixture(scope="module")
def posterior(problem):
    near, system, _ = problem
    return LowRankPosterior.of(jacobian_of(near), system, MaternCovariance(FIELD), smallest=1e-4)


@pytest.mark.parametrize("form", [JacobianBySolves, JacobianByGreens])
def test_deviations_are_the_dense_ones_but_for_the_eigenvalues_left_out(form, problem):
    near, system, exact = problem
    expected, prior = np.diag(exact), MaternCovariance(FIELD).variance().ravel()
    ranks = []
    for smallest in (1.0, 0.1, 0.01):
        found = LowRankPosterior.of(form(near), system, MaternCovariance(FIELD), smallest=smallest)
        apart = found.variance.ravel() - expected
        assert apart.min() > -1e-5 * expected.min()  # never narrower
        assert np.all(apart < smallest * prior)
        assert np.all(found.deviation().ravel() / np.sqrt(expected) < 1 + 0.05 * np.sqrt(smallest))
        ranks.append(found.rank)
    assert ranks == sorted(ranks)
    assert ranks[-1] <= system.count


def test_the_covariance_is_symmetric_and_the_dense_one(posterior, problem):
    exact, size = problem[2], NODES.size
    found = posterior.product(np.eye(size).reshape(size, *NODES.shape)).reshape(size, size)
    np.testing.assert_allclose(found, found.T, atol=1e-5 * exact.max())
    np.testing.assert_allclose(found, exact, atol=1e-4 * exact.max())


def test_functionals_have_the_dense_deviation(posterior, problem):
    rows = np.random.default_rng(0).uniform(0, 1, (5, *NODES.shape)) * NODES.weights
    expected = np.sqrt([row.ravel() @ problem[2] @ row.ravel() for row in rows])
    np.testing.assert_allclose(posterior.deviation_of(rows), expected, rtol=2e-3)


def test_samples_have_the_posterior_covariance(posterior, problem):
    exact, count = problem[2], 4000
    samples = posterior.samples(count, seed=1).reshape(count, -1)
    variance, expected = np.mean(samples**2, axis=0), np.diag(exact)
    assert np.abs(variance / expected - 1).max() < 5 * np.sqrt(2 / count)
    scale = np.sqrt(np.outer(expected, expected))
    assert np.abs(samples.T @ samples / count - exact).max() < 6 * (scale / np.sqrt(count)).max()
    np.testing.assert_array_equal(posterior.samples(2, seed=1), posterior.samples(2, seed=1))


def test_more_sensors_never_raise_the_deviation(problem):
    few, many = (
        LowRankPosterior.of(jacobian_of(near), system, MaternCovariance(FIELD), smallest=1e-4).deviation()
        for near, system in (near_of(PLACES[:12]), problem[:2])
    )
    assert np.all(many <= few * (1 + 1e-4))
    assert np.median(many / few) < 0.9


def test_gains_that_are_unknown_widen_it_as_they_widen_the_dense_one(posterior):
    near, system = near_of(PLACES, nuisance=("gain",))
    found = LowRankPosterior.of(jacobian_of(near), system, MaternCovariance(FIELD), smallest=1e-4).deviation()
    np.testing.assert_allclose(found.ravel(), np.sqrt(np.diag(dense(near, system))), rtol=1e-3)
    assert np.all(found >= posterior.deviation() * (1 - 1e-4))


def test_a_prior_of_another_grid_is_refused(problem):
    near, system, _ = problem
    with pytest.raises(ShapeError) as error:
        LowRankPosterior.of(jacobian_of(near), system, MaternCovariance(MaternField(Grid.uniform(9))))
    assert error.value.got == NODES.size

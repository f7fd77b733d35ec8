"""Baselines invert the same pairs in the same units; a failed fit is a field of NaN."""

import numpy as np
import pytest

from nipde.boundary import Neumann
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.discovery.discover import baseline, split
from nipde.estimators.inverse.adjoint import BASELINES
from nipde.estimators.regression.ridge import Ridge
from nipde.grid import Grid
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase

GRID = Grid.uniform(9, length=30.0)


@pytest.fixture(scope="module")
def permeability():
    return TwoPhase()(GaussianField(4.0, waves=6).sample(GRID, rng=np.random.default_rng(0), count=1)[0])


@pytest.fixture(scope="module")
def pairs(permeability):
    loads = GaussianField(1.0, waves=6, rms=0.01).sample(GRID, rng=np.random.default_rng(1), count=10)
    return with_white_noise(
        Pairs.from_arrays(loads, Darcy(GRID, permeability).solve(loads), grid=GRID), share=0.001, seed=0
    )


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_identifies_the_coefficient_and_predicts_held_out_responses(name, pairs, permeability):
    context, queries, _ = split(pairs)
    found = baseline(name, BASELINES[name], context, queries)
    assert found.name == name
    assert found.seconds > 0
    error = np.abs(np.log(found.values / permeability))[GRID.unknown]
    assert error.mean() <= 0.1
    assert found.held_out_error <= 0.01


def test_units_of_load_and_response_scale_its_material(pairs):
    found, other = (
        baseline("Tikhonov", BASELINES["Tikhonov"], given, None)
        for given in (pairs, pairs.scaled(load=1e3, response=1e-2))
    )
    assert other.values[GRID.unknown] == pytest.approx(1e5 * found.values[GRID.unknown], rel=1e-3)


def test_without_queries_there_is_no_held_out_error(pairs):
    found = baseline("Tikhonov", BASELINES["Tikhonov"], pairs.take(slice(0, 1)), None)
    assert np.isnan(found.held_out_error)
    assert np.isfinite(found.values).all()


def test_a_fit_that_fails_is_a_field_of_nan():
    grid = Grid.uniform(7, boundary=Neumann())
    loads = np.random.default_rng(0).standard_normal((3, *grid.shape))
    found = baseline("Tikhonov", BASELINES["Tikhonov"], Pairs.from_arrays(loads, loads, grid=grid, noise=0.0), None)
    assert found.values.shape == grid.shape
    assert np.isnan(found.values).all()
    assert np.isnan(found.held_out_error)


def test_an_estimator_without_coefficient_still_predicts(pairs):
    context, queries, _ = split(pairs)
    found = baseline("ridge", Ridge(), context, queries)
    assert np.isnan(found.values).all()
    assert 0 < found.held_out_error < 1

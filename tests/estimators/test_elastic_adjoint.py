"""Displacements of a body: derivatives, what noise leaves of the moduli, and the choice of λ."""

import numpy as np
import pytest

from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.estimators.elastic_adjoint import ElasticGaussNewton, _Problem
from nipde.estimators.elastic_balance import ElasticBalance
from nipde.grid import Grid
from nipde.physics.hyperelastic import NeoHookean
from nipde.physics.periodic_fields import PowerLawField

GRID = Grid.uniform(11)
YOUNG = np.where(np.add.outer(np.arange(10), np.arange(10)) > 9, 20.0, 1.0)


def pairs_of(*, count=15, size=0.3, seed=0, noise=0.0):
    fields = PowerLawField().sample(GRID, rng=np.random.default_rng(seed), count=2 * count)
    loads = size * fields.reshape(count, 2, *GRID.shape)
    pairs = Pairs.from_arrays(loads, NeoHookean(GRID, YOUNG).solve(loads), grid=GRID)
    return with_white_noise(pairs, share=noise, seed=7) if noise else pairs


def error(young):
    return float(np.mean(np.abs(np.log(young / YOUNG))))


@pytest.mark.parametrize("place", [0, 37, -1])
def test_the_gradient_is_that_of_the_misfit(place):
    """Small loads, where the stiffness at rest is the stiffness; the last parameter is κ/μ."""
    problem = _Problem(pairs_of(size=1e-5, noise=0.01), None)
    parameters = np.append(np.random.default_rng(0).normal(0, 0.3, 100), 0.2)
    step, moved = 1e-4, np.zeros(101)
    moved[place] = step
    ahead, behind = (problem.at(parameters + sign * moved).mean_square / 2 for sign in (1, -1))
    assert (ahead - behind) / (2 * step) == pytest.approx(problem.at(parameters).gradient[place], rel=1e-3)


def test_the_curvature_is_that_of_the_linearised_displacements():
    problem = _Problem(pairs_of(size=1e-5, count=3), None)
    parameters = np.append(np.random.default_rng(0).normal(0, 0.3, 100), 0.2)
    directions, step = np.eye(101)[[3, 50, -1]], 1e-4
    columns = [
        (problem.body(parameters + step * one).solve(problem.loads)
         - problem.body(parameters - step * one).solve(problem.loads)).reshape(-1) / (2 * step)
        for one in directions
    ]  # fmt: skip
    expected = np.array(columns) @ np.array(columns).T / (problem.size**2 * problem.loads.size)
    found = directions @ problem.at(parameters).curvature @ directions.T
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("told", [True, False], ids=["noise told", "noise not told"])
def test_noise_is_borne_where_forces_do_not(told):
    noisy = pairs_of(noise=0.01)
    noisy = noisy if told else Pairs(GRID, noisy.loads, noisy.responses)
    found = ElasticGaussNewton()(noisy)
    assert error(found.bodies[0].young) < 0.2 < error(ElasticBalance().body(noisy).young)
    queries = pairs_of(count=4, seed=1)
    off = (found @ queries.loads - queries.responses).norm() / queries.responses.norm()
    assert float(off) < 0.01


def test_less_noise_leaves_less_error():
    errors = [error(ElasticGaussNewton().body(pairs_of(noise=noise)).young) for noise in (0.03, 0.003)]
    assert errors[1] < errors[0] / 2

"""Rivals are real inversions of the same pairs, in the same units, and a failure is a field of NaN."""

import numpy as np
import pytest

from nipde.boundary import Neumann
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.discovery.held_out import split
from nipde.discovery.rivals import RIVALS, rival
from nipde.grid import Grid
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase

GRID = Grid.uniform(9, length=30.0)


@pytest.fixture(scope="module")
def rock():
    return TwoPhase()(GaussianField(4.0, waves=6).sample(GRID, rng=np.random.default_rng(0), count=1)[0])


@pytest.fixture(scope="module")
def pairs(rock):
    loads = GaussianField(1.0, waves=6, rms=0.01).sample(GRID, rng=np.random.default_rng(1), count=10)
    return with_white_noise(Pairs.from_arrays(loads, Darcy(GRID, rock).solve(loads), grid=GRID), share=0.001, seed=0)


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_finds_the_material_and_answers_held_out_loads(name, pairs, rock):
    context, queries, _ = split(pairs)
    found = rival(name, context, queries)
    assert found.name == name
    assert found.seconds > 0
    error = np.abs(np.log(found.values / rock))[GRID.unknown]
    assert error.mean() <= 0.1
    assert found.held_out_error <= 0.01


def test_units_of_load_and_response_scale_its_material(pairs):
    found, other = (
        rival("Tikhonov", given, None) for given in (pairs, pairs.scaled(load=1e3, response=1e-2))
    )  # fmt: skip
    assert other.values[GRID.unknown] == pytest.approx(1e5 * found.values[GRID.unknown], rel=1e-3)


def test_without_queries_nothing_is_said_of_them(pairs):
    found = rival("Tikhonov", pairs.take(slice(0, 1)), None)
    assert np.isnan(found.held_out_error)
    assert np.isfinite(found.values).all()


def test_a_fit_that_fails_is_a_field_of_nothing():
    grid = Grid.uniform(7, boundary=Neumann())
    loads = np.random.default_rng(0).standard_normal((3, *grid.shape))
    found = rival("Tikhonov", Pairs.from_arrays(loads, loads, grid=grid, noise=0.0), None)
    assert found.values.shape == grid.shape
    assert np.isnan(found.values).all()
    assert np.isnan(found.held_out_error)

"""Parameters that no reading depends on are integrated out of the prior and take their conditional mean."""

import numpy as np
import pytest

from benchmarks import specimens
from nipde import Grid
from nipde.estimators.inverse.level_sets import LevelSetPhases
from nipde.estimators.inverse.marginal_prior import MarginalPrior
from nipde.estimators.inverse.material_models import JumpPenalty, MaternField
from nipde.estimators.inverse.sensor_inversion import SensorInversion

GRID = Grid.uniform(9)
ACTIVE = np.flatnonzero(np.hypot(*(x.ravel() - 0.5 for x in GRID.coordinates)) < 0.35)


@pytest.mark.parametrize("model", [MaternField(GRID), JumpPenalty(GRID)], ids=["Matérn", "total variation"])
def test_the_precision_is_that_of_the_marginal_distribution(model):
    state = np.random.default_rng(0).standard_normal(GRID.size)
    covariance = np.linalg.inv(model.quadratic(state)[0].toarray())
    expected = np.linalg.inv(covariance[np.ix_(ACTIVE, ACTIVE)])
    found = MarginalPrior.of(model, state, ACTIVE).precision
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7 * np.abs(expected).max())


def test_after_a_step_the_others_are_where_the_prior_wants_them():
    model, rng = MaternField(GRID), np.random.default_rng(1)
    state = rng.standard_normal(GRID.size)
    prior = MarginalPrior.of(model, state, ACTIVE)
    moved = state + prior.step(rng.standard_normal(len(ACTIVE)), size=GRID.size)
    precision, before = model.quadratic(state)
    slope = before + precision @ (moved - state)
    others = np.setdiff1d(np.arange(GRID.size), ACTIVE)
    assert np.abs(slope[others]).max() < 1e-9 * np.abs(before[others]).max()


def test_level_sets_stay():
    model = LevelSetPhases(GRID)
    state = model.start(GRID.coordinates[0].ravel())
    step = MarginalPrior.of(model, state, ACTIVE).step(np.ones(len(ACTIVE)), size=len(state))
    assert np.count_nonzero(step) == len(ACTIVE)


def test_a_smooth_material_in_an_outline_is_not_tied_to_what_is_outside():
    """Data of triangles; with log b held outside, its error was 0.035."""
    row = specimens.Row("disc", "inside", 40, material="log-normal")
    experiment = specimens.experiment_of(row, 0)
    law = SensorInversion(piecewise_constant=False)(experiment.pairs).laws[0]
    found = specimens.assessed(law, experiment)
    assert found["log_mean"] < 0.01
    assert found["held_out"] < 0.004
    assert found["material_within"] > 0.85

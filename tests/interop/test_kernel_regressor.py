"""KernelRegressor is a regressor of scikit-learn by scikit-learn's own checks, and the estimator it wraps."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import nipde
from nipde.errors import PairsError, ShapeError
from nipde.interop.kernel_regressor import KernelRegressor
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField

GRID = nipde.Grid.uniform(11)


@pytest.fixture(scope="module")
def rows():
    """Loads and responses of one porous square with two phases, some noise on the responses."""
    rng = np.random.default_rng(2)
    permeability = np.where(GaussianField(4.0).sample(GRID, rng=rng, count=1)[0] < 0, 12.0, 3.0)
    loads = GaussianField(2.0, rms=1.0).sample(GRID, rng=rng, count=60)
    responses = Darcy(GRID, permeability).solve(loads)
    responses += 0.02 * np.sqrt(np.mean(responses**2)) * rng.standard_normal(responses.shape) * GRID.unknown
    return loads.reshape(60, -1), responses.reshape(60, -1)


# Without a grid: scikit-learn brings its own data, of any number of columns. None of its checks is expected to fail.
@parametrize_with_checks([KernelRegressor(), KernelRegressor(nipde.MinimumNorm())])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_without_a_grid_the_minimum_norm_is_linear_regression():
    rng = np.random.default_rng(0)
    inputs, outputs = rng.standard_normal((30, 7)), rng.standard_normal((30, 4))
    ours = KernelRegressor(nipde.MinimumNorm()).fit(inputs, outputs)
    theirs = LinearRegression(fit_intercept=False).fit(inputs, outputs)
    new = rng.standard_normal((5, 7))
    np.testing.assert_allclose(ours.predict(new), theirs.predict(new), rtol=1e-9, atol=1e-12)


def test_with_a_grid_it_is_the_estimator(rows):
    loads, responses = rows
    found = KernelRegressor(nipde.Ridge(1e-3), grid=GRID).fit(loads[:40], responses[:40])
    fields = [field.reshape(-1, *GRID.shape) for field in (loads, responses)]
    kernel = nipde.Ridge(1e-3)(nipde.Pairs.from_arrays(fields[0][:40], fields[1][:40], grid=GRID))
    expected = kernel @ torch.tensor(fields[0][40:])[:, None]
    np.testing.assert_array_equal(found.predict(loads[40:]), expected.reshape(20, -1).numpy())
    np.testing.assert_array_equal(found.kernel_.dense(), kernel.dense())


def test_vector_fields_are_columns_of_components_then_nodes():
    rng = np.random.default_rng(1)
    grid = nipde.Grid.uniform(5)
    loads, responses = rng.standard_normal((60, 50)), rng.standard_normal((60, 75))
    found = KernelRegressor(nipde.MinimumNorm(), grid=grid).fit(loads, responses)
    assert found.kernel_.components == (3, 2)
    matrix = found.kernel_.dense().numpy() * np.tile(grid.weights.reshape(-1), 2)
    np.testing.assert_allclose(found.predict(loads[:3]), loads[:3] @ matrix.T, rtol=1e-10, atol=1e-12)


def test_the_score_counts_nodes_by_their_area_and_1_is_perfect(rows):
    loads, responses = rows
    found = KernelRegressor(nipde.Ridge(1e-3), grid=GRID).fit(loads[:40], responses[:40])
    true, answered = responses[40:], found.predict(loads[40:])
    area = GRID.weights.reshape(-1)
    expected = 1 - ((true - answered) ** 2 @ area).sum() / ((true - true.mean(0)) ** 2 @ area).sum()
    assert found.score(loads[40:], true) == pytest.approx(expected, rel=1e-12)
    assert 0.9 < expected < 1
    assert found.score(loads[40:], answered) == 1
    twice = found.score(np.r_[loads[40:], loads[40:45]], np.r_[true, true[:5]])
    assert found.score(loads[40:], true, sample_weight=np.r_[[2] * 5, [1] * 15]) == pytest.approx(twice, rel=1e-12)


def test_the_ridge_strength_is_chosen_by_held_out_pairs(rows):
    loads, responses = rows
    rough = np.random.default_rng(5).standard_normal(responses.shape)
    responses = responses + 0.3 * np.sqrt(np.mean(responses**2)) * rough
    strengths = [1e-9, 1e-5, 1e-3, 1e-1, 1e3]
    search = GridSearchCV(KernelRegressor(nipde.Ridge(1.0), grid=GRID), {"estimator__penalty": strengths}, cv=4)
    search.fit(loads[:40], responses[:40])
    tried = [KernelRegressor(nipde.Ridge(one), grid=GRID) for one in strengths]
    by_hand = [cross_val_score(one, loads[:40], responses[:40], cv=4).mean() for one in tried]
    assert search.best_params_ == {"estimator__penalty": strengths[int(np.argmax(by_hand))]}
    assert search.best_params_["estimator__penalty"] not in (1e-9, 1e3)
    assert search.best_estimator_.estimator == nipde.Ridge(search.best_params_["estimator__penalty"])
    assert search.score(loads[40:], rows[1][40:]) > 0.8


def test_the_estimator_is_chosen_by_held_out_pairs_in_a_pipeline(rows):
    loads, responses = rows
    kilo = Pipeline(
        [("to SI", FunctionTransformer(lambda given: 1000 * given)), ("kernel", KernelRegressor(grid=GRID, noise=1e-3))]
    )
    choices = [nipde.Ridge(), nipde.load("darcy-two-phase")]
    search = GridSearchCV(kilo, {"kernel__estimator": choices}, cv=2).fit(loads[:20] / 1000, responses[:20])
    assert isinstance(search.best_params_["kernel__estimator"], nipde.ConditionedNIPS)
    assert search.score(loads[40:] / 1000, responses[40:]) > 0.98
    plain = clone(search.best_estimator_["kernel"]).fit(loads[:20], responses[:20])
    np.testing.assert_allclose(
        search.predict(loads[40:] / 1000), plain.predict(loads[40:]), rtol=1e-4, atol=1e-5 * np.abs(responses).max()
    )


def test_parameters_reach_into_the_estimator_and_clones_are_equal():
    found = KernelRegressor(nipde.Ridge(1e-3), grid=GRID)
    assert found.get_params() == {
        "estimator": nipde.Ridge(1e-3), "grid": GRID, "noise": None, "estimator__penalty": 1e-3,
    }  # fmt: skip
    assert found.set_params(estimator__penalty=0.5, noise=0.1).estimator == nipde.Ridge(0.5)
    assert KernelRegressor().set_params(estimator__penalty=0.5).estimator == nipde.Ridge(0.5)
    assert found.set_params(estimator=nipde.MinimumNorm(), estimator__cutoff=0.1).estimator == nipde.MinimumNorm(0.1)
    assert clone(found).get_params() == found.get_params()
    with pytest.raises(ValueError, match="Invalid parameter 'strength'"):
        found.set_params(strength=1)


def test_rows_that_do_not_fit_are_named(rows):
    loads, responses = rows
    with pytest.raises(ShapeError) as error:
        KernelRegressor(grid=GRID).fit(loads[:, :-1], responses)
    assert error.value.got == 120
    with pytest.raises(PairsError, match="noise level"):
        KernelRegressor(grid=GRID, noise=-1.0).fit(loads, responses)


@pytest.mark.slow
def test_the_check_that_needs_an_environment_variable_holds_too():
    """scikit-learn skips it unless the variable is set before SciPy is imported."""
    code = """
from sklearn.utils.estimator_checks import estimator_checks_generator
from nipde.interop.kernel_regressor import KernelRegressor
found = [(one, check) for one, check in estimator_checks_generator(KernelRegressor()) if "array_api" in str(check)]
assert found
for one, check in found:
    check(one)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "SCIPY_ARRAY_API": "1"}
    )
    assert done.returncode == 0, done.stderr

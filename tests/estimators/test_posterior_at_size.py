"""The posterior of a fitted law on a finer grid: exact on the grid of the fit; means, responses and samples."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.context.sensors import Sensors
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.errors import KernelError
from nipde.estimators.inverse.posterior_at_size import posterior_at_size
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Grid

GRID = Grid.uniform(11)


@cache
def law_of(*, smooth):
    family = "log-normal" if smooth else "two-phase"
    recipe = ReferenceDarcyRecipe(nodes=11, pairs=8, family=family, precision="float64")
    system = recipe.build(1)
    read = torch.rand(1, 1, *GRID.shape, generator=torch.Generator().manual_seed(0)) < 0.4
    pairs = with_white_noise(Pairs.from_arrays(system.loads, system.responses, grid=GRID), share=0.01, seed=1)
    estimator = SensorInversion(material=16, solver=32, phases=(2,), piecewise_constant=not smooth)
    return estimator(replace(pairs, mask=read)).laws[0]


@cache
def exact():
    """The dense posterior, with the weight of every reading where it takes one per sensor and one per pair."""
    fitted = law_of(smooth=True).posterior
    near, system = fitted.best.near, fitted.best.problem.fine.system
    rows = near.jacobian.reshape(len(near.active), -1)
    curvature = (rows * system.weights.ravel()) @ rows.T
    return replace(fitted, best=replace(fitted.best, curvature=curvature))


@cache
def posterior():
    return posterior_at_size(law_of(smooth=True), intervals=16, smallest=1e-3)


def test_on_the_grid_of_the_fit_it_is_the_exact_one():
    points = np.stack([x.ravel() for x in posterior().grid.coordinates], -1)
    expected = exact().log_deviation_at(points).reshape(posterior().grid.shape)
    np.testing.assert_allclose(posterior().log_deviation(), expected, rtol=2e-3)
    np.testing.assert_allclose(posterior().estimate.ravel(), exact().best.fit.parameters, rtol=1e-12)


def test_responses_have_the_exact_deviation():
    # A small difference of two large variances, from vectors in single precision: right in the mean over loads.
    loads = np.random.default_rng(0).standard_normal((40, *GRID.shape))
    nodes = np.array([[5, 5], [3, 7], [2, 2], [8, 4]])
    found = posterior().response_deviation(loads, at=Sensors.at(nodes * GRID.spacing[0]))
    plain = replace(exact(), relative_error=0.0, others=())
    ratio = found / plain.response_deviation(loads)[:, nodes[:, 0], nodes[:, 1]]
    np.testing.assert_allclose(ratio.mean(axis=0), 1, atol=3e-3)
    np.testing.assert_allclose(ratio, 1, atol=4e-2)


def test_samples_and_means_agree():
    region = np.zeros((1, *posterior().grid.shape))
    region[0, 4:9, 4:9] = 1.0
    samples = posterior().samples(2000, seed=2)
    weights = region[0] * posterior().grid.weights
    means = np.sum(samples * weights, axis=(1, 2)) / weights.sum()
    assert np.std(means) == pytest.approx(posterior().mean_deviation(region)[0], rel=0.07)
    apart = np.abs(np.mean(samples, axis=0) - posterior().estimate)
    assert np.all(apart < 5 * posterior().log_deviation() / np.sqrt(2000))


def test_a_finer_grid_has_about_the_same_deviation_and_a_summary():
    fine = posterior_at_size(law_of(smooth=True), intervals=64)
    ratio = fine.log_deviation()[::4, ::4] / posterior().log_deviation()
    assert 0.7 < ratio.min() <= ratio.max() < 1.1
    assert fine.summary["unknowns"] == 65**2
    sensors, pairs = fine.near.predicted.shape
    assert fine.summary["solves"] == sensors + pairs
    assert 0 < fine.summary["rank"] <= sensors * pairs


def test_phases_are_refused():
    with pytest.raises(KernelError) as error:
        posterior_at_size(law_of(smooth=False), intervals=16)
    assert error.value.got == "2 phases"
    assert "piecewise_constant=False" in error.value.remedy

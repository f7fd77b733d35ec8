"""Phases in which the material varies: derivatives, prior, and plates of finite volumes that have such phases."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sparse
import torch

from nipde.estimators.inverse.level_sets import LevelSetPhases, variance_between_clusters
from nipde.estimators.inverse.sensor_inversion import CLUSTERED
from nipde.estimators.inverse.varying_phases import VaryingPhases
from nipde.grid import Grid
from nipde.kernels.refined import RefinedKernel
from tests.estimators.test_plates_of_finite_volumes import found_of
from tests.estimators.test_sensor_inversion import kernel_of

NODES = Grid.uniform(9)
MODEL = VaryingPhases(NODES, deviation=0.3, correlation=4.0)


def state(seed=0):
    rng = np.random.default_rng(seed)
    x, y = np.broadcast_arrays(*NODES.coordinates)
    level_set = 8 * (np.hypot(x - 0.45, y - 0.5) - 0.3)
    return np.concatenate([level_set.ravel(), [0.2, 1.3], 0.3 * rng.standard_normal(NODES.size)])


def at_nodes():
    return sparse.eye_array(NODES.size, format="csr")


# The model


def test_log_b_is_the_sum_and_its_derivative_is_that_of_differences():
    parameters, rng = state(), np.random.default_rng(1)
    log, derivative = MODEL.log_coefficient(parameters, at_nodes())
    uniform, field = MODEL.parts(parameters)
    alone, _ = LevelSetPhases(NODES).log_coefficient(uniform, at_nodes())
    np.testing.assert_allclose(log, alone + field)
    for _ in range(3):
        way = rng.standard_normal(len(parameters))
        ahead, back = (MODEL.log_coefficient(parameters + h * way, at_nodes())[0] for h in (1e-6, -1e-6))
        np.testing.assert_allclose(derivative @ way, (ahead - back) / 2e-6, atol=1e-6)


def test_the_prior_is_that_of_its_quadratic_form():
    parameters, rng = state(), np.random.default_rng(2)
    precision, slope = MODEL.quadratic(parameters)
    way = rng.standard_normal(len(parameters))
    ahead, here, back = (MODEL.penalty(parameters + h * way) for h in (1e-4, 0, -1e-4))
    assert slope @ way == pytest.approx((ahead - back) / 2e-4, rel=1e-6)
    assert way @ (precision @ way) == pytest.approx((ahead - 2 * here + back) / 1e-8, rel=1e-3)
    assert MODEL.penalty(np.concatenate([MODEL.parts(parameters)[0], np.ones(NODES.size)])) > 0  # the mean counts


def test_it_keeps_its_material_on_other_nodes_and_when_it_is_raised():
    parameters = state()
    finer, moved = MODEL.moved(parameters, to=Grid.uniform(17))
    here = MODEL.sharp(parameters, at_nodes()).reshape(NODES.shape)
    there = finer.sharp(moved, sparse.eye_array(finer.grid.size, format="csr")).reshape(finer.grid.shape)
    np.testing.assert_allclose(there[::2, ::2], here)
    raised = MODEL.sharp(MODEL.raised(parameters, 0.7), at_nodes())
    np.testing.assert_allclose(raised, here.ravel() + 0.7)


def test_its_field_follows_the_prior_where_nothing_is_read_and_its_level_sets_stay():
    size = len(state())
    np.testing.assert_array_equal(
        MODEL.extrapolated(np.array([3, NODES.size + 5, size - 1]), size), [NODES.size + 5, size - 1]
    )
    assert not len(LevelSetPhases(NODES).extrapolated(np.arange(4), NODES.size + 2))


def test_its_deviation_is_that_of_levels_field_and_interface():
    parameters = state()
    spread = np.zeros(len(parameters))
    spread[NODES.size] = 0.3**2  # of the lower level
    spread[-NODES.size :] = 0.4**2

    def variance(rows):
        return np.asarray(rows.multiply(rows) @ spread).ravel()

    found = MODEL.log_variance(parameters, at_nodes(), variance)
    far = np.abs(parameters[: NODES.size]) > 1.5
    assert far.sum() > 20
    np.testing.assert_allclose(found[far], 0.25, rtol=0.05)
    assert found[~far].max() > 0.4  # half of the step's square is 0.42


def test_clusters_of_two_values_make_up_the_variance_and_those_of_normal_ones_do_not():
    rng = np.random.default_rng(0)
    two = np.where(rng.uniform(size=2000) < 0.3, 1.0, 0.0) + 0.1 * rng.standard_normal(2000)
    assert variance_between_clusters(two) > 0.9 > CLUSTERED
    assert variance_between_clusters(rng.standard_normal(2000)) == pytest.approx(2 / np.pi, abs=0.03)
    assert variance_between_clusters(rng.uniform(size=2000)) == pytest.approx(0.75, abs=0.03)


# What is found


@cache
def plate(*, varying):
    return found_of("varying phases", seed=2, material=24, solver=70, varying=varying)


def test_phases_that_vary_are_found_as_such():
    law, off, ratios = plate(varying=True)
    assert law.summary["model"] == "2 varying phases"
    assert law.summary["criteria"]["2 varying phases"] == min(law.summary["criteria"].values())
    assert law.summary["variation"] == pytest.approx(0.2 / np.sqrt(2), rel=0.25)
    assert np.mean(ratios < 1.645) > 0.9
    without, off_without, _ = plate(varying=False)
    assert without.summary["model"] in ("smooth", "3 phases")
    assert off.mean() < 0.5 * off_without.mean()


def test_its_kernel_has_two_phases():
    law = plate(varying=True)[0]
    assert RefinedKernel(law.grid, (law,), torch.ones((), dtype=torch.float64)).phases == 2


def test_uniform_phases_are_not_said_to_vary():
    summary = kernel_of("two-phase", 0).laws[0].summary
    assert "2 varying phases" not in summary["criteria"]
    assert "variation" not in summary

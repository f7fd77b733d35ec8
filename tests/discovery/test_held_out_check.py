"""Held-out readings object where bands are too narrow, and do not where bands hold."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.discovery.held_out_check import DEVIATIONS, HeldOutCheck, held_out_check
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Grid

GRID, KNOWN, HELD_OUT = Grid.uniform(11), 12, 4
ESTIMATOR = SensorInversion(material=20, solver=40)


@cache
def case(family, seed, noise, estimator=ESTIMATOR):
    """A fit at 32 nodes or so to data of finite elements, held-out readings, and what its bands of 90 % hold."""
    recipe = ReferenceDarcyRecipe(nodes=11, pairs=KNOWN + HELD_OUT + 8, refine=8, family=family, precision="float64")
    system = recipe.build(seed)
    exact = Pairs.from_arrays(system.loads, system.responses, grid=GRID)
    noisy = with_white_noise(exact.take(slice(KNOWN + HELD_OUT)), share=noise, seed=seed)
    measured = torch.rand(1, 1, *GRID.shape, generator=torch.Generator().manual_seed(0)) < 0.4
    noisy = replace(noisy, mask=measured, responses=torch.where(measured, noisy.responses, torch.nan))
    kernel = estimator(noisy.take(slice(KNOWN)))
    others = exact.take(slice(KNOWN + HELD_OUT, None))
    low, high = kernel.band(others.loads, level=0.9)
    within = ((low <= others.responses) & (others.responses <= high))[..., torch.tensor(GRID.unknown)]
    return kernel, SensorPairs.of(noisy.take(slice(KNOWN, None))), float(within.double().mean())


def test_layers_that_a_smooth_material_blurs_fail():
    kernel, readings, within = case("stripes", 2, 0.01, replace(ESTIMATOR, phases=()))
    found = held_out_check(kernel, readings)
    assert within < 0.75
    assert found.fails
    assert found.variance_ratio > 2
    assert found.excess > DEVIATIONS
    assert f"{found.variance_ratio:.1f} times" in found.reason


@pytest.mark.parametrize(("family", "noise"), [("two-phase", 0.01), ("log-normal", 0.01), ("log-normal", 0.05)])
def test_bands_that_hold_pass(family, noise):
    kernel, readings, within = case(family, 1, noise)
    assert within > 0.85
    assert not held_out_check(kernel, readings).fails


def test_readings_of_another_specimen_fail():
    kernel, readings, _ = case("log-normal", 1, 0.01)
    other = case("two-phase", 1, 0.01)[1]
    assert held_out_check(kernel, replace(readings, readings=other.readings)).excess > 10 * DEVIATIONS


def test_nothing_is_said_without_stated_noise_or_with_unknown_gains():
    kernel, readings, _ = case("log-normal", 1, 0.01)
    assert held_out_check(kernel, replace(readings, noise=None)) is None
    law = replace(kernel.laws[0], summary={**kernel.laws[0].summary, "nuisance": ["gain"]})
    assert held_out_check(replace(kernel, laws=(law,)), readings) is None
    nothing = torch.full_like(readings.readings, torch.nan)
    nothing[-1, -1] = readings.readings[-1, -1]
    assert held_out_check(kernel, replace(readings, readings=nothing)) is not None
    whitened = replace(readings, noise=None, covariance=torch.eye(len(readings.sensors)) * float(readings.noise) ** 2)
    plain, other = (held_out_check(kernel, one).variance_ratio for one in (readings, whitened))
    assert other == pytest.approx(plain)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_numbers_are_finite_and_without_unit_also_without_noise(unit):
    kernel, readings, _ = case("log-normal", 1, 0.01)
    scaled = replace(readings, loads=readings.loads * unit, readings=readings.readings * unit, noise=0.0)
    found, plain = held_out_check(kernel, scaled), held_out_check(kernel, replace(readings, noise=0.0))
    assert np.isfinite([found.variance_ratio, found.excess]).all()
    assert found.variance_ratio == pytest.approx(plain.variance_ratio)
    assert found.fails == plain.fails


def test_what_is_not_a_number_fails():
    assert HeldOutCheck(float("nan"), float("nan")).fails
    assert not HeldOutCheck(0.5, -2.0).fails


def test_deviations_at_nodes_are_those_of_readings_there():
    kernel, readings, _ = case("two-phase", 1, 0.01)
    posterior, loads = replace(kernel.laws[0].posterior, relative_error=0.0), readings.loads[:, 0].numpy()
    at_nodes = posterior.response_deviation(loads).reshape(len(loads), -1)
    at_sensors = posterior.reading_deviation(loads, readings.sensors.matrix)
    np.testing.assert_allclose(at_sensors, (readings.sensors.matrix(GRID) @ at_nodes.T).T, rtol=1e-9)

"""Readings that are known up to one number per pair: only their differences count."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.estimators.inverse import linearised_readings
from nipde.estimators.inverse.inverse_problem import InverseProblem
from nipde.estimators.inverse.material_models import MaternField
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Grid
from nipde.measurements.pumping_tests import PumpingCampaign
from tests.measurements.campaign_files import TRANSMISSIVITY, homogeneous_campaign

ESTIMATOR = SensorInversion(nuisance=("level",), homogeneous=True, material=12, solver=60)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Late differences of drawdowns by Theis, in an aquifer without end; the box has the value 0 around."""
    path = homogeneous_campaign(tmp_path_factory.mktemp("campaign") / "site.cmp", noise=2e-5)
    return PumpingCampaign.read(path).sensor_pairs(
        Grid.uniform(61, length=120.0), origin=(-60.0, -60.0), since=2000, error=0.03
    )


def test_transmissivity_of_an_aquifer_by_another_solution(pairs):
    law = ESTIMATOR.law(pairs)
    assert law.summary["model"] == "homogeneous"
    centre = np.array([[60.0, 60.0]])
    log, deviation = law.log_coefficient_at(centre)[0], law.posterior.log_deviation_at(centre)[0]
    assert log == pytest.approx(np.log(TRANSMISSIVITY), abs=max(0.02, 2 * deviation))
    assert deviation < 0.05
    assert max(float(score) for score in law.bands.outlier_test.scores.values()) < 4


def test_a_number_added_to_all_readings_of_a_pair_changes_nothing(pairs):
    """But for where the fit stops: its first stages go by the size of the readings."""
    shift = torch.tensor([[0.05], [-0.02], [0.1]])
    logs = [
        replace(ESTIMATOR, piecewise_constant=False).law(one).log_coefficient_at(np.array([[60.0, 60.0], [50.0, 70.0]]))
        for one in (pairs, replace(pairs, readings=pairs.readings + shift))
    ]
    np.testing.assert_allclose(*logs, rtol=0, atol=0.02)


def test_few_readings_have_the_curvature_of_many(pairs, monkeypatch):
    """Where nothing is missing and all deviations are equal, weights are a product: both ways are exact."""
    full = replace(pairs, readings=pairs.readings.nan_to_num(0.01), noise=0.002)
    problem = InverseProblem.of(full, material=10, solver=30, nuisance=("level",))
    model, parameters = MaternField(problem.nodes), np.full(problem.nodes.size, np.log(TRANSMISSIVITY))
    problem = problem.with_errors_beside(model, parameters).with_noise(np.full((6, 3), 0.002))
    near = problem.coarse.linearised(model, parameters)
    exact = near.curvature(problem.fine.system)
    monkeypatch.setattr(linearised_readings, "FEW", 0)
    np.testing.assert_allclose(exact, near.curvature(problem.fine.system), atol=1e-9 * np.abs(exact).max())

"""How fitted models compare, and how they would under another prior."""

from dataclasses import replace

import numpy as np
import pytest

from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.estimators.inverse.inverse_problem import InverseProblem
from nipde.estimators.inverse.material_models import MaternField


@pytest.fixture(scope="module")
def fitted():
    """A smooth fit to a log-normal material."""
    recipe = ReferenceDarcyRecipe(nodes=11, pairs=10, refine=8, family="log-normal", precision="float64")
    system = recipe.build(4)
    exact = Pairs.from_arrays(system.loads, system.responses, grid=recipe.grid)
    problem = InverseProblem.of(SensorPairs.of(with_white_noise(exact, share=0.01, seed=0)), material=20, solver=40)
    model, start = MaternField(problem.nodes), np.full(problem.nodes.size, problem.log_constant())
    problem = problem.with_errors_beside(model, start)
    start = problem.roughly(0.1).minimised(model, start, steps=5).parameters
    problem = problem.with_errors_beside(model, start)
    return problem.candidate(model, start, steps=12)


def test_under_its_own_prior_a_candidate_is_what_it_is(fitted):
    same = fitted.under(fitted.fit.model)
    assert same.criterion == pytest.approx(fitted.criterion, rel=1e-3)
    assert same.effective_dof == pytest.approx(fitted.effective_dof, rel=1e-6)
    assert np.abs(same.fit.parameters - fitted.fit.parameters).max() < 0.02


@pytest.mark.parametrize(("correlation", "deviation"), [(3.0, 0.5), (1.5, 0.3), (6.0, 2.0)])
def test_under_another_prior_it_is_nearly_the_fit_with_that(fitted, correlation, deviation):
    model = replace(fitted.fit.model, correlation=correlation, deviation=deviation)
    foreseen = fitted.under(model)
    real = fitted.problem.candidate(model, fitted.fit.parameters, steps=12)
    assert foreseen.effective_dof == pytest.approx(real.effective_dof, rel=0.03)
    assert foreseen.fit.chi_square == pytest.approx(real.fit.chi_square, rel=0.03)
    assert foreseen.criterion == pytest.approx(real.criterion, rel=0.05)
    apart = np.sqrt(np.mean((foreseen.fit.parameters - real.fit.parameters) ** 2))
    assert apart < 0.3 * np.sqrt(np.mean((real.fit.parameters - fitted.fit.parameters) ** 2))

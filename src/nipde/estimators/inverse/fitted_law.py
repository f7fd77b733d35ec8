"""A chosen model as a law: its posterior, calibrated bands, tests of its residuals, and a summary of the fit."""

from dataclasses import dataclass
from math import hypot, sqrt

import numpy as np
import torch
from scipy.stats import norm

from nipde.estimators.inverse.band_factors import LEVELS, Case, factors_of
from nipde.estimators.inverse.candidate import Candidate
from nipde.estimators.inverse.fitted_state import Fit
from nipde.estimators.inverse.one_direction import layers_of
from nipde.estimators.inverse.output_error import LinkSolver
from nipde.estimators.inverse.residual_tests import residual_scores
from nipde.estimators.inverse.sensor_posterior import SensorPosterior
from nipde.estimators.inverse.varying_phases import VaryingPhases
from nipde.kernels.prediction_bands import OutlierTest, PredictionBands
from nipde.kernels.refined import SMOOTH, RefinedLaw

#: z-scores above it are outliers.
LIMIT = 4.0
#: Why a case is not covered if χ² of the smooth material that was taken is above its expectation.
UNEXPLAINED = (
    "no smooth material explains the readings, and no phases were identified: the material may have details that these "
    "sensors do not resolve, and bands may be too narrow"
)


@dataclass(frozen=True, eq=False)
class Choice:
    """What was found: the best model, how all compare, and those that explain the readings as well."""

    best: Candidate
    name: str
    criteria: dict[str, float]
    others: tuple[Fit, ...]


def law_of(choice: Choice) -> RefinedLaw:
    """The fitted law of output error, for its kernel."""
    best, name, criteria, others = choice.best, choice.name, choice.criteria, choice.others
    model, parameters, problem, solver = best.fit.model, best.fit.parameters, best.problem, best.problem.fine
    assert isinstance(solver, LinkSolver)
    chi_square, count, expected = best.fit.chi_square, problem.count, best.expected
    noise, solver_error = (
        float(np.median(values[problem.measured])) for values in (problem.deviation, problem.discretisation)
    )
    # What χ² shows above its expectation, by more than its own deviation, is an error of the model.
    model_error = noise * sqrt(max(0.0, chi_square - expected - sqrt(2 / count)))
    posterior = SensorPosterior(
        best, problem.pairs.grid, solver.interpolation, hypot(solver_error, model_error) / problem.size,
        max(1.0, chi_square) ** 0.5, others, problem.mean_gain_deviation(best.fit),
    )  # fmt: skip
    case = Case(
        name, problem.pairs.count, len(problem.pairs.sensors), noise / problem.size, problem.pairs.specimen is not None,
        problem.pairs.grid.dimension,
    )  # fmt: skip
    of_responses, of_material = factors_of(case) or (
        torch.tensor(norm.ppf([(1 + level) / 2 for level in LEVELS])),
        None,
    )
    scores = residual_scores(best)
    test = OutlierTest({name: torch.tensor(max(value, 0.0)) for name, value in scores.items()}, LIMIT)
    summary = {
        "model": name, "chi_square": chi_square, "effective_dof": best.effective_dof, "readings": count,
        "noise_stated": problem.noise_stated, "noise": noise,
        "size": problem.size, "discretisation": solver_error, "model_error": model_error,
        "interpolation": solver.interpolation, "undecided": len(others) > 0, "criteria": criteria,
        "material_nodes": list(problem.nodes.shape), "nuisance": list(problem.nuisance),
        "outside": [*case.outside, *([UNEXPLAINED] if name in SMOOTH and best.significant else [])],
        **layers_of(best), **({"variation": model.variation(parameters)} if isinstance(model, VaryingPhases) else {}),
    }  # fmt: skip
    bands = PredictionBands(LEVELS, of_responses[:, None].expand(-1, 2), test, of_material)
    return RefinedLaw(
        problem.pairs.grid, solver.domain, solver.conductances(model, parameters), solver.interpolation,
        lambda points: model.at(parameters, points), posterior, bands, summary, solver.system.known,
    )  # fmt: skip

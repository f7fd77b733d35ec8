"""From tests of a plane solid to its modulus: one value, smooth, or of few phases, whichever explains them better."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import hypot, sqrt
from typing import Any

import numpy as np
import scipy.linalg as dense
import scipy.sparse as sparse
import torch
from jaxtyping import Float
from scipy.stats import norm

from nipde.context.solid_tests import UNKNOWN_POISSON, SolidTests
from nipde.discretisation.solid_load import SolidLoad
from nipde.errors import KernelError
from nipde.estimators.inverse.band_factors import SolidCase, solid_factors
from nipde.estimators.inverse.candidate import Candidate
from nipde.estimators.inverse.fitted_law import LIMIT, Choice
from nipde.estimators.inverse.fitted_state import Fit
from nipde.estimators.inverse.level_sets import LevelSetPhases
from nipde.estimators.inverse.material_models import Homogeneous, Penalty
from nipde.estimators.inverse.nuisance import LinearErrors
from nipde.estimators.inverse.residual_tests import correlation_sum, residual_scores
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.estimators.inverse.sensor_posterior import SensorPosterior
from nipde.estimators.inverse.solid_problem import SolidProblem, SolidSolver
from nipde.kernels.prediction_bands import OutlierTest
from nipde.physics.plane_elasticity import PlaneElasticity

#: Intervals across the specimen, geometric mean: of the material's nodes, of the mesh of residuals.
MATERIAL, SOLVER = 40, 56
#: ν is found in so many fits at most, or until it moves by less than this.
ROUNDS, SETTLED = 5, 5e-4
#: Tests leave ν open if its deviation is above this: what little they tell is then as much of the prior of E.
OPEN = 0.03
#: Precision of the mean of log E where no force is known, in units of all others together.
MEAN_IS_GIVEN = 1e3
#: Least deviation of log E of a phase: meshes put errors of this size at interfaces, whatever the readings say.
OF_INTERFACES = 1e-3
Points = Float[np.ndarray, "point 2"]


@dataclass(frozen=True)
class SolidInversion:
    """Displacements to E(x), and to ν where it is not known."""

    phases: tuple[int, ...] = (2, 3)
    #: True: phases wherever they can be fitted. False: smooth. None: what the readings prefer.
    piecewise_constant: bool | None = None
    #: One value everywhere, as of a known material; otherwise only where it explains the readings.
    homogeneous: bool = False
    #: Fit this classical penalty instead, for comparison.
    penalty: Penalty | None = None
    steps: int = 10
    material: int = MATERIAL
    solver: int = SOLVER

    def __call__(self, tests: SolidTests) -> "SolidLaw":
        """The fitted solid."""
        search = SensorInversion(
            phases=self.phases, piecewise_constant=self.piecewise_constant, penalty=self.penalty, steps=self.steps,
            varying=False, homogeneous=self.piecewise_constant is None and self.penalty is None,
        )  # fmt: skip
        problem = SolidProblem.of_tests(tests, material=self.material, solver=self.solver)
        choice = self._homogeneous(problem) if self.homogeneous else search.chosen(problem)
        if tests.poisson is not None:
            return SolidLaw(tests, replace(choice, best=self._with_load_errors_relinearised(choice.best)))
        best, beside = self._with_ratio(choice.best)
        return SolidLaw(tests, replace(choice, best=best), beside)

    def _homogeneous(self, problem: SolidProblem) -> Choice:
        """One value, whatever else would explain the readings better."""
        model, parameters, dof = Homogeneous(problem.nodes), np.array([problem.log_constant()]), 0.0
        for _ in range(3):  # deviations and what is linearised follow the fit
            problem = problem.with_errors_beside(model, parameters, effective_dof=dof)
            best = problem.candidate(model, parameters, steps=self.steps)
            parameters, dof = best.fit.parameters, best.effective_dof
        return Choice(best, "homogeneous", {"homogeneous": best.criterion}, ())

    def _with_load_errors_relinearised(self, best: Candidate) -> Candidate:
        """Fitted again with what errors of loads and supports bring in its own material, not in the smooth one."""
        problem = best.problem
        assert isinstance(problem, SolidProblem)
        return self._fitted(problem, best, steps=self.steps) if problem.load_errors else best

    def _with_ratio(self, best: Candidate) -> tuple[Candidate, tuple[Fit, ...]]:
        """With ν as it is found and a curvature of E and ν together; or with the ν that is expected.

        Where E may hide ν, with a fit beside it that has another ν.
        """
        problem = best.problem
        assert isinstance(problem, SolidProblem)
        told = problem.tells_ratio(best.fit.model, best.fit.parameters)
        expected = None if told else self._fitted(problem.with_expected_ratio(), best, steps=self.steps)
        if expected is None or expected.significant:
            free = self._settled(best)
            if told and ratio_deviation(free) < OPEN:
                return free, ()
            expected = expected or self._fitted(problem.with_expected_ratio(), best, steps=self.steps)
            if expected.significant and not free.significant:  # ν is told after all, not how well
                return free, (expected.fit,)
        other = self._fitted(problem.with_expected_ratio(more=1.0), expected, steps=self.steps)
        return expected, (other.fit,)

    def _settled(self, best: Candidate) -> Candidate:
        """Fitted until ν no longer moves; then with a curvature that has what E and ν have in common."""
        for _ in range(ROUNDS):
            before = best.problem
            assert isinstance(before, SolidProblem)
            best = self._fitted(before, best, steps=self.steps)
            assert isinstance(best.problem, SolidProblem)
            if abs(best.problem.poisson - before.poisson) < SETTLED:
                break
        assert isinstance(best.problem, SolidProblem)
        return self._fitted(replace(best.problem, ratio="free"), best, steps=0)

    @staticmethod
    def _fitted(problem: SolidProblem, near: Candidate, *, steps: int) -> Candidate:
        """Near a fit, with errors as that one has them."""
        model, parameters = near.fit.model, near.fit.parameters
        return problem.with_errors_beside(model, parameters, effective_dof=near.effective_dof).candidate(
            model, parameters, steps=steps
        )


def ratio_deviation(found: Candidate) -> float:
    """Of ν, the last of the errors beside a fit; what the material leaves open is in it."""
    system = found.problem.fine.system
    assert isinstance(system.nuisance, LinearErrors)
    rows, weights = found.near.jacobian.reshape(len(found.near.active), -1), system.weights.ravel()
    columns = system.nuisance.columns
    own = rows * weights @ rows.T + found.precision
    both = rows * weights @ columns
    others = (columns.T * weights) @ columns + np.diag(system.nuisance.deviations**-2)
    schur = others - both.T @ dense.solve(own, both, assume_a="pos")
    return float(np.sqrt(np.linalg.inv(schur)[-1, -1]))


@dataclass(frozen=True, eq=False)
class RelativePosterior(SensorPosterior):
    """Of log E less its mean over the nodes: all that displacements tell without a force."""

    @cached_property
    def _root(self) -> Float[np.ndarray, "active active"]:
        model, parameters, active = self.best.fit.model, self.best.fit.parameters, self.best.near.active
        _, rows = model.log_coefficient(parameters, sparse.eye_array(model.grid.size, format="csr"))
        mean = np.asarray(rows.mean(axis=0)).ravel()[active]
        total = self.best.curvature + self.best.precision
        return np.asarray(dense.cholesky(total + MEAN_IS_GIVEN * np.trace(total) * np.outer(mean, mean), lower=True))

    def difference(self, other: Fit, points: Float[np.ndarray, "point axis"]) -> Float[np.ndarray, " point"]:
        """Of log E less its mean."""
        own = self.best.fit
        means = [float(np.mean(one.model.at_nodes(one.parameters))) for one in (other, own)]
        return super().difference(other, points) - (means[0] - means[1])


@dataclass(frozen=True, eq=False)
class SolidLaw:
    """What was found of a solid, and how sure it is."""

    tests: SolidTests
    choice: Choice
    #: Fits with another ν, as far away as it is uncertain, where the curvature does not have that.
    beside: tuple[Fit, ...] = ()

    @property
    def best(self) -> Candidate:
        """The model that explains the readings best."""
        return self.choice.best

    @property
    def problem(self) -> SolidProblem:
        """As it was discretised."""
        problem = self.best.problem
        assert isinstance(problem, SolidProblem)
        return problem

    @cached_property
    def posterior(self) -> SensorPosterior:
        """Of log E."""
        problem, best = self.problem, self.best
        noise, solver_error = (
            float(np.median(values[problem.measured])) for values in (problem.deviation, problem.discretisation)
        )
        excess = best.fit.chi_square - best.expected - sqrt(2 / problem.count)
        model_error = noise * sqrt(max(0.0, excess))
        relative_error = hypot(solver_error, model_error) / problem.size
        if isinstance(best.fit.model, LevelSetPhases):
            relative_error = max(relative_error, OF_INTERFACES)
        kind = SensorPosterior if self.tests.has_force else RelativePosterior
        return kind(best, problem.nodes, "spline", relative_error, self.widened, (*self.choice.others, *self.beside))

    @property
    def widened(self) -> float:
        """What deviations are multiplied with: √χ² where that is above 1, and the root of `correlation`."""
        return (max(1.0, self.best.fit.chi_square) * self.correlation) ** 0.5

    @cached_property
    def correlation(self) -> float:
        """By which the variance of means is larger than for independent errors, where residuals show that."""
        if residual_scores(self.best)["whiteness"] <= LIMIT:
            return 1.0
        problem, half = self.problem, len(self.tests.points)
        residual = np.nan_to_num(self.residuals.reshape(self.tests.count, -1).T)
        return max(
            correlation_sum(residual[part], problem.measured[part], self.tests.points)
            for part in (slice(half), slice(half, None))
        )

    def log_modulus_at(self, points: Points) -> Float[np.ndarray, " point"]:
        """log E at any points of the specimen, less its mean if no force is known; interfaces are sharp."""
        log = self.best.fit.model.at(self.best.fit.parameters, self._in_box(points))
        return log if self.tests.has_force else log - self._mean

    @cached_property
    def _mean(self) -> float:
        return float(np.mean(self.best.fit.model.at_nodes(self.best.fit.parameters)))

    def modulus_at(self, points: Points) -> Float[np.ndarray, " point"]:
        """E at any points."""
        return np.exp(self.log_modulus_at(points))

    def log_deviation_at(self, points: Points) -> Float[np.ndarray, " point"]:
        """Standard deviation of log E."""
        return self.posterior.log_deviation_at(self._in_box(points))

    def log_half_width_at(self, points: Points, *, level: float = 0.9) -> Float[np.ndarray, " point"]:
        """Half width of bands on log E: calibrated ones where there are such, otherwise those of the posterior."""
        factors = None if self.uncalibrated else solid_factors(self._case)
        if factors is not None and level not in factors:
            raise KernelError(
                expected=f"a level among {', '.join(map(str, factors))}", got=level, remedy="use one of them"
            )
        return (norm.ppf((1 + level) / 2) if factors is None else factors[level]) * self.log_deviation_at(points)

    @cached_property
    def uncalibrated(self) -> tuple[str, ...]:
        """Why bands are those of the posterior alone; nothing where they are calibrated."""
        without = () if self.tests.has_force else ("no force is known",)
        return (*without, *self._case.outside)

    @property
    def _case(self) -> SolidCase:
        problem = self.problem
        noise = float(np.median(problem.deviation[problem.measured]))
        return SolidCase(self.choice.name, problem.count, noise / problem.size)

    @property
    def poisson(self) -> float:
        """ν, as it was stated or found."""
        return self.problem.poisson

    @cached_property
    def poisson_deviation(self) -> float:
        """0 where it was stated; where tests leave it open, or E may hide it, what is expected has a part in it."""
        if self.tests.poisson is not None:
            return 0.0
        expected, deviation = UNKNOWN_POISSON
        if self.leaves_ratio_open:
            return deviation
        told = self.problem.tells_ratio(self.best.fit.model, self.best.fit.parameters)
        return hypot(self.widened * ratio_deviation(self.best), 0.0 if told else self.poisson - expected)

    @property
    def leaves_ratio_open(self) -> bool:
        """Whether ν is unknown, and the tests do not tell it."""
        return self.tests.poisson is None and not self.problem.finds_ratio

    @cached_property
    def outlier_test(self) -> OutlierTest:
        """Of the residuals."""
        scores = residual_scores(self.best)
        return OutlierTest({name: torch.tensor(max(value, 0.0)) for name, value in scores.items()}, LIMIT)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """How the fit went."""
        problem, best = self.problem, self.best
        return {
            "model": self.choice.name, "criteria": self.choice.criteria, "undecided": len(self.choice.others) > 0,
            "chi_square": best.fit.chi_square, "expected": best.expected, "effective_dof": best.effective_dof,
            "readings": problem.count, "size": problem.size,
            "noise": float(np.median(problem.deviation[problem.measured])),
            "discretisation": float(np.median(problem.discretisation[problem.measured])),
            "correlation": self.correlation, "poisson": self.poisson, "poisson_deviation": self.poisson_deviation,
        }  # fmt: skip

    @cached_property
    def residuals(self) -> Float[np.ndarray, "test component point"]:
        """Of the readings, over their deviation; NaN where nothing was measured."""
        problem, fit = self.problem, self.best.fit
        residual = np.where(problem.measured, problem.residual(fit.model, fit.parameters), np.nan)
        return (residual / problem.deviation).T.reshape(self.tests.readings.shape)

    @cached_property
    def body(self) -> PlaneElasticity:
        """The solid as it was found, on the mesh of the residuals."""
        solver = self.problem.fine
        assert isinstance(solver, SolidSolver)
        log_modulus, _ = self.best.fit.model.log_coefficient(self.best.fit.parameters, solver.interpolation)
        return PlaneElasticity(solver.elements, np.exp(log_modulus), self.poisson, self.tests.plane)

    def displacements(self, loads: Sequence[SolidLoad], points: Points) -> Float[np.ndarray, "pair component point"]:
        """Under loads that were never applied."""
        return self.body.displacements(loads, points)

    def _in_box(self, points: Points) -> Points:
        ends = [axis.length for axis in self.problem.nodes.axes]
        return np.clip(np.asarray(points) - self.tests.origin, 0, ends)

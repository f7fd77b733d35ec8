"""A fitted model, and how it compares: n log (χ² / (1 - F/n)) + F log n, F = tr (JᵀwJ + R)⁻¹ JᵀwJ."""

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as dense
from jaxtyping import Float

from nipde.estimators.inverse.fitted_state import Fit
from nipde.estimators.inverse.linearised_readings import Linearised
from nipde.estimators.inverse.marginal_prior import MarginalPrior
from nipde.estimators.inverse.material_models import MaterialModel
from nipde.estimators.inverse.readings import Values

if TYPE_CHECKING:
    from nipde.estimators.inverse.inverse_problem import InverseProblem

#: The error of a solver falls at least with this power of the spacing where the coefficient jumps.
AT_INTERFACES = 1.0
#: The variance of the solver's error may be larger by this than it is estimated, in units of itself.
UNCERTAIN = 2.0
#: χ² so many of its deviations above its expectation is no chance.
SIGNIFICANT = 3.0


def expectation(effective_dof: float, count: int) -> float:
    """Of χ² of `count` readings: 1 - F/n."""
    return max(1 - effective_dof / count, 0.02)


def is_significant(chi_square: float, *, effective_dof: float, count: int) -> bool:
    """Whether χ² is above its expectation by more than chance."""
    excess = log(max(chi_square, 1e-9) / expectation(effective_dof, count))
    return excess > SIGNIFICANT * sqrt(2 / count)


def trace_of_quotient(matrix: Float[np.ndarray, "row row"], root: Float[np.ndarray, "row row"]) -> float:
    """tr (L Lᵀ)⁻¹ M of a symmetric M, by the lower triangle of the inverse; L is overwritten."""
    inverse = dense.lapack.dpotri(root, lower=1, overwrite_c=1)[0]
    lower = np.tri(len(root), dtype=bool)
    return float(2 * np.sum(inverse * matrix, where=lower) - np.diag(inverse) @ np.diag(matrix))


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fitted model, its derivatives, and how it compares."""

    problem: "InverseProblem"
    fit: Fit
    near: Linearised
    #: JᵀwJ and R on the active parameters, the others integrated out of R.
    curvature: Float[np.ndarray, "active active"]
    precision: Float[np.ndarray, "active active"]
    #: F, the effective number of parameters, with those of errors that have a pattern.
    effective_dof: float

    @property
    def count(self) -> int:
        """n, the number of readings."""
        return self.problem.count

    @property
    def expected(self) -> float:
        """Of χ²: 1 - F/n."""
        return expectation(self.effective_dof, self.count)

    @property
    def excess(self) -> float:
        """log of χ² over its expectation."""
        return log(max(self.fit.chi_square, 1e-9) / self.expected)

    @property
    def significant(self) -> bool:
        """Whether χ² is above its expectation by more than chance."""
        return is_significant(self.fit.chi_square, effective_dof=self.effective_dof, count=self.count)

    @property
    def solver_error(self) -> Values:
        """Of every reading, with its sign: by the difference of the two grids, to first order as at interfaces."""
        problem = self.problem
        apart = np.where(problem.measured, self.near.predicted - (problem.values - self.fit.residual), 0.0)
        return problem.distinct(apart) * problem.error_share(AT_INTERFACES)

    @property
    def criterion(self) -> float:
        """n log (χ² / (1 - F/n)) + F log n: a model with a parameter per reading explains none."""
        return self._misfit + self.effective_dof * log(self.count)

    def under(self, model: MaterialModel) -> "Candidate":
        """The same parameters under another prior, to second order from here: no response is computed."""
        parameters, active = self.fit.parameters, self.near.active
        own, other = (MarginalPrior.of(each, parameters, active) for each in (self.fit.model, model))
        root = np.asarray(dense.cholesky(self.curvature + other.precision, lower=True, check_finite=False))
        step = dense.cho_solve((root, True), own.slope - other.slope)
        misfit = step @ (self.curvature @ step / 2 - own.slope)  # own.slope balances the misfit's gradient
        moved = parameters + other.step(step, size=len(parameters))
        fit = replace(
            self.fit, model=model, parameters=moved, penalty=model.penalty(moved),
            chi_square=self.fit.chi_square + 2 * float(misfit) / self.count,
        )  # fmt: skip
        effective_dof = trace_of_quotient(self.curvature, root) + self.problem.nuisance_dof
        return replace(self, fit=fit, precision=other.precision, effective_dof=effective_dof)

    @property
    def akaike_criterion(self) -> float:
        """The same with F instead of F log n."""
        return self._misfit + self.effective_dof

    @property
    def _misfit(self) -> float:
        """n log (χ² / (1 - F/n)); residuals below a stated noise are no merit, nor is the solver's error a fault."""
        problem = self.problem
        if not problem.noise_stated:
            return self.count * self.excess
        shares = (problem.discretisation / problem.deviation)[problem.measured] ** 2
        return self.count * max(self.excess - log(1 + UNCERTAIN * float(shares.mean())), 0.0)

    def refined(self, factor: float = 1.0, *, solver: int = 1, steps: int) -> "Candidate":
        """From here on a finer grid of the material or the solver; this one if it explains the readings better.

        Grids of too many nodes are not tried.
        """
        if not self.problem.allows(factor, solver=solver):
            return self
        finer = self.problem.refined(factor, solver=solver)
        start = self.fit.moved(to=finer.nodes)
        if solver > 1:
            finer = finer.with_errors_beside(start.model, start.parameters, effective_dof=self.effective_dof)
        other = finer.candidate(start.model, start.parameters, steps=steps)
        # One model on two grids: what the finer one leaves less of is the solver's error, so it counts here.
        return min(self, other, key=lambda one: one.count * one.excess + one.effective_dof * log(one.count))

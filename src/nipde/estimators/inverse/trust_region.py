"""Gauss-Newton steps within a trust region: (Jᵀ P J + R + μ I) δ = -gradient with the least μ ≥ 0 for which |δ|∞ ≤ Δ.

Readings change in proportion to an interface's way for about one cell. Shortening a step as a whole shortens what could
have moved farther, too; damping shortens what the readings say least of. Steps of fields are shortened as a whole.
"""

import numpy as np
import scipy.linalg as dense
from jaxtyping import Float

from nipde.estimators.inverse.fitted_state import Fit
from nipde.estimators.inverse.linearised_readings import Linearised
from nipde.estimators.inverse.marginal_prior import MarginalPrior
from nipde.estimators.inverse.material_models import Parameters
from nipde.estimators.inverse.readings import Readings

#: Steps need no more than single precision, if the diagonal is larger by its rounding.
ROUNDING = 2e-5
#: A step may exceed the radius by this until it is shortened as a whole; so often μ is estimated at most.
CLOSE, ESTIMATES = 1.2, 8
OfActive = Float[np.ndarray, " active"]


class QuadraticModel:
    """The objective near a state to second order, with the curvature of the misfit's least squares.

    Parameters that change nothing follow the prior, or stay.
    """

    def __init__(self, near: Linearised, state: Fit, system: Readings) -> None:
        self.size, self.damped = len(state.parameters), state.model.damped
        self.prior = MarginalPrior.of(state.model, state.parameters, near.active)
        self.gradient: OfActive = near.gradient(system.weighted(state.residual))[near.active] + self.prior.slope
        self._damping = 0.0
        for precision in (np.float32 if system.nuisance is None else np.float64, np.float64):
            curvature = near.curvature(system, precision=precision)
            curvature[np.diag_indices_from(curvature)] *= 1 + ROUNDING
            self.matrix = curvature + self.prior.precision
            try:
                self._root = dense.cholesky(self.matrix, lower=True, check_finite=False)
            except np.linalg.LinAlgError:  # parameters of very different weight
                if precision is np.float64:
                    raise
            else:
                return

    def step(self, radius: float) -> tuple[Parameters, float]:
        """Of all parameters, and the decrease that it promises; a radius may not be larger than one before."""
        for _ in range(ESTIMATES):
            of_active = -dense.cho_solve((self._root, True), self.gradient, check_finite=False)
            longest = float(np.abs(of_active).max())
            if longest <= CLOSE * radius or not self.damped:
                break
            # Newton's step for 1 / |δ|: as in a region of the Euclidean norm.
            scaled = dense.solve_triangular(self._root, of_active, lower=True, check_finite=False)
            self._damping += float(of_active @ of_active / (scaled @ scaled)) * (longest - radius) / radius
            damped = self.matrix.copy()
            damped[np.diag_indices_from(damped)] += self._damping
            self._root = dense.cholesky(damped, lower=True, overwrite_a=True, check_finite=False)
        of_active *= min(1.0, radius / max(longest, 1e-300))
        decrease = -float(of_active @ (self.gradient + self.matrix @ of_active / 2))
        return self.prior.step(of_active, size=self.size), decrease

"""The prior of the parameters that readings depend on, marginalised over the others, which take their conditional mean.

Outside an outline nothing is measured. Were log b held there at some value, the prior would tie the inside to it.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.sparse.linalg import splu

from nipde.estimators.inverse.material_models import MaterialModel, Parameters


@dataclass(frozen=True, eq=False)
class MarginalPrior:
    """Quadratic form of a prior on the active parameters, the inactive integrated out: R_aa - R_ai R_ii⁻¹ R_ia."""

    active: np.ndarray
    precision: Float[np.ndarray, "active active"]
    slope: Float[np.ndarray, " active"]
    inactive: np.ndarray
    #: R_ii⁻¹ R_ia and R_ii⁻¹ gᵢ.
    response: Float[np.ndarray, "inactive active"]
    own_step: Float[np.ndarray, " inactive"]

    @classmethod
    def of(cls, model: MaterialModel, parameters: Parameters, active: np.ndarray) -> "MarginalPrior":
        """Near a state."""
        precision, slope = model.quadratic(parameters)
        inner, others = precision[active][:, active].toarray(), np.setdiff1d(np.arange(len(parameters)), active)
        inactive = model.extrapolated(others, len(parameters))
        if not len(inactive):
            none = np.zeros(0)
            return cls(active, inner, slope[active], none.astype(int), np.zeros((0, len(active))), none)
        across = precision[inactive][:, active].tocsc()
        near = np.flatnonzero(np.diff(across.indptr))  # columns that couple to inactive parameters
        factor = splu(sparse.csc_array(precision[inactive][:, inactive]))
        response = np.zeros((len(inactive), len(active)))
        response[:, near] = factor.solve(across[:, near].toarray())
        own_step = factor.solve(slope[inactive])
        marginal = inner - across.T @ response
        return cls(active, marginal, slope[active] - across.T @ own_step, inactive, response, own_step)

    def step(self, of_active: Float[np.ndarray, " active"], *, size: int) -> Parameters:
        """Of all parameters, by that of the active ones."""
        step = np.zeros(size)
        step[self.active] = of_active
        step[self.inactive] = -self.own_step - self.response @ of_active
        return step

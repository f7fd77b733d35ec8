"""The prior of the parameters that readings depend on: the others take what it expects of them, beside these.

Outside an outline nothing is measured. Were log b held there at some value, the prior would tie the inside to it.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.sparse.linalg import splu

from nipde.estimators.inverse.material_models import MaterialModel, Parameters


@dataclass(frozen=True, eq=False)
class ActivePrior:
    """Quadratic form of a prior on the active parameters, the others integrated out: R_aa - R_ai R_ii⁻¹ R_ia."""

    active: np.ndarray
    precision: Float[np.ndarray, "active active"]
    slope: Float[np.ndarray, " active"]
    others: np.ndarray
    #: R_ii⁻¹ R_ia and R_ii⁻¹ gᵢ.
    response: Float[np.ndarray, "other active"]
    own_step: Float[np.ndarray, " other"]

    @classmethod
    def of(cls, model: MaterialModel, parameters: Parameters, active: np.ndarray) -> "ActivePrior":
        """Near a state."""
        precision, slope = model.quadratic(parameters)
        inner, rest = precision[active][:, active].toarray(), np.setdiff1d(np.arange(len(parameters)), active)
        if not (model.extrapolates and len(rest)):
            none = np.zeros(0)
            return cls(active, inner, slope[active], none.astype(int), np.zeros((0, len(active))), none)
        across = precision[rest][:, active].tocsc()
        near = np.flatnonzero(np.diff(across.indptr))  # columns of parameters beside the others
        factor = splu(sparse.csc_array(precision[rest][:, rest]))
        response = np.zeros((len(rest), len(active)))
        response[:, near] = factor.solve(across[:, near].toarray())
        own_step = factor.solve(slope[rest])
        return cls(active, inner - across.T @ response, slope[active] - across.T @ own_step, rest, response, own_step)

    def step(self, of_active: Float[np.ndarray, " active"], *, size: int) -> Parameters:
        """Of all parameters, by that of the active ones."""
        step = np.zeros(size)
        step[self.active] = of_active
        step[self.others] = -self.own_step - self.response @ of_active
        return step

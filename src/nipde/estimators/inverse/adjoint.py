"""Output error: min over log b of ½ Σ_i ‖u(b; f_i) - u_i‖²_W + λ R(log b), u(b; f) = A(b)⁻¹ W f; the law is known.

The residuals' derivative is ∂u = -A⁻¹ Dᵀ(D u ∂a), a the conductances of the links: one sparse factor per state gives
responses, adjoints and Gauss-Newton curvature for all pairs at once.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.context.pairs import Pairs
from nipde.discretisation.links import FaceMean, Harmonic
from nipde.discretisation.sensitivity import Sensitivity
from nipde.estimators.inverse.gauss_newton import LONG, Misfit, Search, fit
from nipde.estimators.inverse.linearisation import Linearisation
from nipde.estimators.inverse.regularisers import SMOOTH, Regulariser
from nipde.estimators.inverse.systems import MeasuredSystem, law_kernel
from nipde.kernels.law import LawKernel
from nipde.physics.darcy import Darcy


@dataclass(frozen=True)
class AdjointGaussNewton:
    """Darcy's law whose responses come closest to the measured ones; masked nodes do not count.

    `kernel.laws[i].permeability` is the coefficient of system i.
    """

    face_mean: FaceMean = Harmonic()
    regulariser: Regulariser = SMOOTH
    search: Search = LONG

    def __call__(self, pairs: Pairs) -> LawKernel[Darcy]:
        """The kernel of the fitted law."""
        return law_kernel(pairs, face_mean=self.face_mean, fit=self.log_permeability)

    def log_permeability(self, system: MeasuredSystem) -> Float[np.ndarray, " node"]:
        """log b of one system in its own units."""
        start, misfit = system.constant(), OutputError(system)
        return fit(misfit, regulariser=self.regulariser, start=start, noise=system.noise, search=self.search)


class OutputError(Misfit):
    """r_i = u(b; f_i) - u_i at the measured nodes."""

    def __init__(self, system: MeasuredSystem) -> None:
        self.system, self.links, self.count = system, system.conductances.links, system.count

    def linearise(self, log_permeability: Float[np.ndarray, " node"]) -> Linearisation:
        """One factor, one solve per pair."""
        conductances = self.system.conductances
        permeability = np.exp(log_permeability).reshape(self.links.grid.shape)
        solve = Darcy(self.links.grid, permeability, conductances.mean).factor.solve
        responses = solve(self.system.cell_loads)
        sensitivity = Sensitivity(
            conductances.difference, conductances.slopes(log_permeability), conductances.difference @ responses
        )
        return Linearisation(sensitivity, solve, responses - self.system.responses, self.system.weights)

    def prediction_error(self, state: Linearisation, log_permeability: Float[np.ndarray, " node"]) -> float:
        """The residual itself."""
        return state.mean_square

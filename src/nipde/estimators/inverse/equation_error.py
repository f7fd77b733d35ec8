"""Equation error: min over log b of ½ Σ_i ‖A₀⁻¹ (A(b) u_i - W f_i)‖²_W + λ R(log b) with the measured u_i; law known.

The residual of the equation is linear in the conductances of the links. A₀ has the best constant
permeability: its solve weighs the residual down where it is rough, and white noise in u_i, which A amplifies like a
second derivative, no longer dominates. Noise remains in the regressors D u_i, hence a bias that no number of
pairs removes.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.context.pairs import Pairs
from nipde.discretisation.links import FaceMean, Harmonic
from nipde.discretisation.sensitivity import Sensitivity
from nipde.estimators.inverse.adjoint import OutputError
from nipde.estimators.inverse.gauss_newton import LONG, Misfit, Search, fit
from nipde.estimators.inverse.linearisation import Linearisation
from nipde.estimators.inverse.regularisers import SMOOTH, Regulariser
from nipde.estimators.inverse.systems import MeasuredSystem, law_kernel
from nipde.kernels.law import LawKernel
from nipde.physics.darcy import Darcy


@dataclass(frozen=True)
class EquationError:
    """Darcy's law that the measured responses violate least; `weak=False` takes the L² norm of the residual itself.

    Needs every node measured. `kernel.laws[i].permeability` is the coefficient of system i.
    """

    face_mean: FaceMean = Harmonic()
    regulariser: Regulariser = SMOOTH
    weak: bool = True
    search: Search = LONG

    def __call__(self, pairs: Pairs) -> LawKernel[Darcy]:
        """The kernel of the fitted law."""
        pairs.refuse_mask("EquationError")
        return law_kernel(pairs, face_mean=self.face_mean, fit=self.log_permeability)

    def log_permeability(self, system: MeasuredSystem) -> Float[np.ndarray, " node"]:
        """log b of one system in its own units."""
        start = system.constant()
        misfit = EquationResidual(system, log_constant=start, weak=self.weak)
        return fit(misfit, regulariser=self.regulariser, start=start, noise=system.noise, search=self.search)


class EquationResidual(Misfit):
    """r_i = A₀⁻¹ (W f_i - A(b) u_i), or W⁻¹ in place of A₀⁻¹; A(b) u = Dᵀ(a D u)."""

    def __init__(self, system: MeasuredSystem, *, log_constant: float, weak: bool) -> None:
        self.system, self.links, self.count = system, system.conductances.links, system.count
        grid, volume = self.links.grid, self.links.volume
        medium = Darcy(grid, np.full(grid.shape, np.exp(log_constant)), system.conductances.mean)
        self.solve = medium.factor.solve if weak else lambda columns: columns / volume[:, None]
        self.drops = system.conductances.difference @ system.responses

    def linearise(self, log_permeability: Float[np.ndarray, " node"]) -> Linearisation:
        """One solve per pair, always with the same factor."""
        conductances = self.system.conductances
        sensitivity = Sensitivity(conductances.difference, conductances.slopes(log_permeability), self.drops)
        outflow = conductances.difference.T @ (self.drops * conductances(log_permeability)[:, None])
        residual = self.solve(self.system.cell_loads - outflow)
        return Linearisation(sensitivity, self.solve, residual, self.system.weights)

    def prediction_error(self, state: Linearisation, log_permeability: Float[np.ndarray, " node"]) -> float:
        """By solving: noise is in the regressors too, so a small residual of the equation proves nothing."""
        return OutputError(self.system).linearise(log_permeability).mean_square

"""Equation error: min over log b of ½ Σ_i ‖A₀⁻¹ (A(b) u_i - W f_i)‖²_W + λ R(log b) with the measured u_i; law known.

The residual of the equation is linear in the conductances of the links. A₀ has the best constant
permeability: its solve weighs the residual down where it is rough, and white noise in u_i, which A amplifies like a
second derivative, no longer dominates. Noise remains in the regressors D u_i, hence a bias that no number of
pairs removes.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.discretisation.sensitivity import Sensitivity
from nipde.estimators.inverse.adjoint import DarcyEstimator, OutputError
from nipde.estimators.inverse.gauss_newton import Misfit
from nipde.estimators.inverse.linearisation import Linearisation
from nipde.estimators.inverse.systems import MeasuredSystem
from nipde.physics.darcy import Darcy


@dataclass(frozen=True)
class EquationError(DarcyEstimator):
    """Darcy's law that the measured responses violate least; `weak=False` takes the L² norm of the residual itself."""

    full_field = True
    weak: bool = True

    def misfit(self, system: MeasuredSystem, *, log_constant: float) -> Misfit:
        """Of the equation."""
        return EquationResidual(system, log_constant=log_constant, weak=self.weak)


class EquationResidual(Misfit):
    """r_i = A₀⁻¹ (W f_i - A(b) u_i), or W⁻¹ in place of A₀⁻¹; A(b) u = Dᵀ(a D u)."""

    def __init__(self, system: MeasuredSystem, *, log_constant: float, weak: bool) -> None:
        super().__init__(system)
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

"""Equation error: min over log b of ½ Σ_i ‖A₀⁻¹ (A(b) u_i - W f_i)‖²_W + λ R(log b) with the measured u_i; law known.

The residual of the equation is linear in the conductances of the faces. A₀ is the medium of the best constant
permeability: its solve weighs the residual down where it is rough, and white noise in u_i, which A amplifies like a
second derivative, no longer drowns the rest. Noise remains in the regressors D u_i, hence a bias that no number of
pairs removes.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.context.pairs import Pairs
from nipde.estimators.adjoint import OutputError
from nipde.estimators.inversion.gauss_newton import LONG, Misfit, Search, fit
from nipde.estimators.inversion.linearisation import Linearisation
from nipde.estimators.inversion.regularisers import SMOOTH, Regulariser
from nipde.estimators.inversion.systems import MeasuredSystem, law_kernel
from nipde.kernels.law import LawKernel
from nipde.physics.darcy import Darcy
from nipde.physics.faces import FaceMean, Harmonic


@dataclass(frozen=True)
class EquationError:
    """Darcy's law that the measured responses violate least; `weak=False` measures the residual as it stands, in L².

    Needs every node measured. `kernel.laws[i].permeability` is the field found for system i.
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
        self.system, self.faces, self.count = system, system.faces, system.count
        grid, volume = self.faces.grid, self.faces.volume
        medium = Darcy(grid, np.full(grid.shape, np.exp(log_constant)), self.faces.mean)
        self.solve = medium.factor.solve if weak else lambda columns: columns / volume[:, None]
        self.drops = self.faces.differences @ system.responses

    def linearise(self, log_permeability: Float[np.ndarray, " node"]) -> Linearisation:
        """One solve per pair, always with the same factor."""
        conductance = self.faces.conductance(log_permeability)
        outflow = self.faces.differences.T @ (self.drops * conductance[:, None])
        return Linearisation(
            faces=self.faces,
            solve=self.solve,
            drops=self.drops,
            residual=self.solve(self.system.cell_loads - outflow),
            weights=self.system.weights,
            slopes=self.faces.slopes(log_permeability),
        )

    def prediction_error(self, state: Linearisation, log_permeability: Float[np.ndarray, " node"]) -> float:
        """By solving: noise is in the regressors too, so a small residual of the equation proves nothing."""
        return OutputError(self.system).linearise(log_permeability).mean_square

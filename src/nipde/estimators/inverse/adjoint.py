"""Output error: min over log b of ½ Σ_i ‖u(b; f_i) - u_i‖²_W + λ R(log b), u(b; f) = A(b)⁻¹ W f; the law is known.

The residuals' derivative is ∂u = -A⁻¹ Dᵀ(D u ∂a), a the conductances of the links: one sparse factor per state gives
responses, adjoints and Gauss-Newton curvature for all pairs at once.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.context.scaling import Scaling
from nipde.discretisation.checkerboard import fix_checkerboard_gauge
from nipde.discretisation.links import FaceMean, Harmonic
from nipde.discretisation.sensitivity import Sensitivity, conductances_of
from nipde.errors import KernelError
from nipde.estimators.inverse.gauss_newton import LONG, Misfit, Search, fit
from nipde.estimators.inverse.linearisation import Linearisation
from nipde.estimators.inverse.regularisers import SMOOTH, Regulariser, TotalVariation
from nipde.estimators.inverse.systems import MeasuredSystem, check_law, systems_of
from nipde.grid import Grid
from nipde.kernels.base import Kernel
from nipde.kernels.law import LawKernel
from nipde.physics.darcy import Darcy
from nipde.spectral.transform import transform


@dataclass(frozen=True)
class DarcyEstimator(ABC):
    """Darcy's law of least misfit; `kernel.laws[i].permeability` is the coefficient of system i."""

    #: Whether every node must be measured.
    full_field: ClassVar[bool] = False
    face_mean: FaceMean = Harmonic()
    regulariser: Regulariser = SMOOTH
    search: Search = LONG

    def __call__(self, pairs: Pairs) -> LawKernel[Darcy]:
        """The kernel of the fitted laws, in the pairs' precision and place."""
        laws = tuple(Darcy(pairs.grid, field, self.face_mean) for field in self.permeability(pairs))
        return LawKernel(pairs.grid, laws, pairs.responses.new_ones(pairs.batch))

    def permeability(self, pairs: Pairs) -> Float[np.ndarray, "system *space"]:
        """Of every system, in physical units and in the gauge of least variation."""
        if self.full_field:
            pairs.refuse_mask(type(self).__name__)
        check_law(pairs.grid, pairs.components)
        pairs.check_finite()
        exact = pairs.to(dtype=torch.float64, device="cpu")
        scaling, conductances = Scaling.of(exact), conductances_of(pairs.grid, self.face_mean)
        systems = systems_of(scaling.normalised(exact), conductances, precision=torch.finfo(pairs.responses.dtype).eps)
        logs = torch.tensor(np.stack([self._fitted(system) for system in systems])).view(-1, *pairs.grid.shape)
        unit = (1 / scaling.kernel).reshape(-1, *(1,) * pairs.grid.dimension)
        return (fix_checkerboard_gauge(pairs.grid, logs, self.face_mean.power).exp() * unit).numpy()

    @abstractmethod
    def misfit(self, system: MeasuredSystem, *, log_constant: float) -> Misfit:
        """What is minimised; `log_constant` is log b of the best constant coefficient."""

    def _fitted(self, system: MeasuredSystem) -> Float[np.ndarray, " node"]:
        """log b of one system in its own units."""
        start = system.constant()
        misfit = self.misfit(system, log_constant=start)
        return fit(misfit, regulariser=self.regulariser, start=start, noise=system.noise, search=self.search)


@dataclass(frozen=True)
class AdjointGaussNewton(DarcyEstimator):
    """Darcy's law whose responses come closest to the measured ones; masked nodes do not count."""

    def misfit(self, system: MeasuredSystem, *, log_constant: float) -> Misfit:
        """Of the responses."""
        return OutputError(system)


#: A kernel that is not of the law gains nothing from a long search.
SHORT = Search(stages=7, iterations=2, last_iterations=2, contrast=30.0)
#: For piecewise-constant coefficients.
with_total_variation = partial(AdjointGaussNewton, regulariser=TotalVariation())
#: Classical inversion of the same pairs with the law known, for smooth and for piecewise-constant coefficients.
BASELINES = {"Tikhonov": AdjointGaussNewton(), "total variation": with_total_variation()}


def permeability_of(
    kernel: Kernel, *, face_mean: FaceMean = Harmonic(), regulariser: Regulariser = SMOOTH, probes: int = 64,
    search: Search = SHORT,
) -> Float[Tensor, "*batch_component_space"]:  # fmt: skip
    """Permeability, load times length² per response, of the Darcy law nearest to every kernel of a batch.

        b = argmin Σ_m ‖(G_b - K) φ_m‖²_W + λ R(log b),    φ_m the `probes` smoothest functions that fit the boundary

    With all φ_m the sum is the Frobenius distance of the kernels. This is the paper's inversion; it gives a coefficient
    to kernels of estimators that assume no law. A kernel that is zero or not finite has none: its field is NaN.
    """
    check_law(kernel.grid, kernel.components)
    if probes < 1:
        raise KernelError(expected="at least one probing load", got=probes)
    loads = torch.as_tensor(probing_loads(kernel.grid, count=probes))[:, None]
    like = kernel.row_integral()
    with torch.no_grad():
        responses = kernel.predict(loads.to(like).expand(*kernel.batch, *loads.shape)).double().cpu()
    estimator = AdjointGaussNewton(face_mean, regulariser, search)
    fields = []
    for response in responses.reshape(-1, *loads.shape):
        if not bool(torch.isfinite(response).all()) or not bool((response[(..., *kernel.grid.inner)] != 0).any()):
            fields.append(np.full(kernel.grid.shape, np.nan))
            continue
        fields.append(estimator.permeability(Pairs(kernel.grid, loads, response))[0])
    return like.new_tensor(np.stack(fields)).reshape(*kernel.batch, 1, *kernel.grid.shape)


def probing_loads(grid: Grid, *, count: int) -> Float[np.ndarray, "probe *space"]:
    """The `count` eigenfunctions of -Δ with the longest waves, or all that the grid resolves."""
    waves = transform(grid)
    squares = waves.squared_wavenumbers(torch.zeros((), dtype=torch.float64)).flatten()
    modes = torch.eye(len(squares), dtype=torch.float64)[squares.argsort(stable=True)[:count]]
    return waves.synthesis(modes.view(-1, *waves.shape)).numpy()


class OutputError(Misfit):
    """r_i = u(b; f_i) - u_i at the measured nodes."""

    def linearise(self, log_permeability: Float[np.ndarray, " node"]) -> Linearisation:
        """One factor, one solve per pair."""
        conductances = self.system.conductances
        permeability = np.exp(log_permeability).reshape(self.links.grid.shape)
        solve = Darcy(self.links.grid, permeability, conductances.mean).factor.solve
        responses = solve(self.system.cell_loads)
        drops = conductances.difference @ responses
        sensitivity = Sensitivity(conductances.difference, conductances.slopes(log_permeability), drops)
        return Linearisation(sensitivity, solve, responses - self.system.responses, self.system.weights)

    def prediction_error(self, state: Linearisation, log_permeability: Float[np.ndarray, " node"]) -> float:
        """The residual itself."""
        return state.mean_square

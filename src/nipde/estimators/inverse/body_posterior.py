"""Posterior of a plane body: θ is normal around its estimate, its precision the curvature of misfit and penalty.

    C = (σ²/n) (H + λR)⁻¹,    σ noise as a share of the responses' root mean square, n measured numbers

to first order, with the penalty at the selected λ taken for the prior.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import ndtri

from nipde.errors import KernelError
from nipde.estimators.inverse.body_misfit import BodyMisfit
from nipde.physics.cellwise import CellwiseBody


@dataclass(frozen=True, eq=False)
class BodyPosterior:
    """Of one system."""

    misfit: BodyMisfit
    parameters: Float[np.ndarray, " parameter"]
    precision: Float[np.ndarray, "parameter parameter"]

    @cached_property
    def body(self) -> CellwiseBody:
        """The most likely one."""
        return self.misfit.body(self.parameters)

    @cached_property
    def _covariance(self) -> Float[np.ndarray, "everywhere everywhere"]:
        own = cho_solve(cho_factor(self.precision), np.eye(len(self.precision)))
        return np.asarray(self.misfit.spread @ (self.misfit.spread @ own).T)

    def modulus_deviation(self) -> Float[np.ndarray, "*cell"]:
        """Standard deviation of log E in every cell, E = μ (3r + 2)/(r + 1) with r = κ/μ."""
        cells, covariance = self.body.shear.size, self._covariance
        ratio = float(np.exp(self.parameters[-1]))
        slope = ratio / ((3 * ratio + 2) * (ratio + 1))  # of log E by log r
        variance = np.diag(covariance)[:cells] + 2 * slope * covariance[:cells, -1] + slope**2 * covariance[-1, -1]
        return np.sqrt(variance).reshape(self.body.shear.shape)

    def modulus_band(self, level: float = 0.9) -> tuple[Float[np.ndarray, "*cell"], Float[np.ndarray, "*cell"]]:
        """Young's modulus of every cell, from and to: a share `level` of cells should be within."""
        if not 0 < level < 1:
            raise KernelError(expected="a level between 0 and 1", got=level, remedy="0.9 is ninety per cent")
        wide = np.exp(ndtri((1 + level) / 2) * self.modulus_deviation())
        return self.body.young / wide, self.body.young * wide

    def angle_deviation(self) -> Float[np.ndarray, "*cell"]:
        """Standard deviation of the fibres' angle in every cell, radians; infinite where there are none.

        It means little beyond half a radian, where the stiffness of the fibres is of the size of its deviation.
        """
        cells, count = self.body.shear.shape, self.body.shear.size
        if self.misfit.fields == 1:
            return np.full(cells, np.inf)
        angle, stiffness = self.body.angles.reshape(-1), self.body.stiffness.reshape(-1) / self.misfit.unit
        first, second = np.arange(count, 2 * count), np.arange(2 * count, 3 * count)
        across = -np.sin(2 * angle), np.cos(2 * angle)
        covariance = self._covariance
        variance = (
            across[0] ** 2 * covariance[first, first] + 2 * across[0] * across[1] * covariance[first, second]
            + across[1] ** 2 * covariance[second, second]
        )  # fmt: skip
        with np.errstate(divide="ignore"):
            return (np.sqrt(variance) / (2 * stiffness)).reshape(cells)

    def draws(self, count: int, *, seed: int = 0) -> list[CellwiseBody]:
        """Samples of the posterior: they give a band to any prediction and any derived quantity."""
        if count < 0:
            raise KernelError(expected="a number of bodies", got=count, remedy="draw 100")
        factor = np.linalg.cholesky(self.precision)
        normal = np.random.default_rng(seed).standard_normal((len(self.parameters), count))
        return [self.misfit.body(self.parameters + away) for away in solve_triangular(factor.T, normal).T]

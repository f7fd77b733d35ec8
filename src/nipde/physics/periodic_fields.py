"""Gaussian fields of a power-law spectrum: white noise on a periodic box twice as long, damped by |w|^-exponent.

    φ(x) = Re Σ_w |w|^(-γ) ẑ_w exp(i w·x),   w ≠ 0, ẑ the transform of white noise on a fixed lattice, variance one

The lattice does not depend on the grid: the same seed is the same function on every grid.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.errors import PhysicsError
from nipde.grid import Grid


@dataclass(frozen=True)
class PowerLawField:
    """Law of a zero-mean field of unit variance; covariance (-Δ)^-exponent, waves up to `waves` per length."""

    exponent: float = 2.5
    waves: int = 28

    def __post_init__(self) -> None:
        if not (0 < self.exponent < np.inf and self.waves >= 1):
            raise PhysicsError(
                expected="exponent > 0 and waves >= 1", got=(self.exponent, self.waves), remedy="choose others"
            )

    def sample(self, grid: Grid, *, rng: np.random.Generator, count: int) -> Float[np.ndarray, "count x y"]:
        """`count` independent fields at the nodes of a grid of two axes."""
        if grid.dimension != 2:
            raise PhysicsError(expected="a grid of two axes", got=grid.dimension, remedy="use another grid")
        noise = rng.standard_normal((count, 2 * self.waves, 2 * self.waves))
        spectrum = np.fft.fft2(noise) * self._damping(grid)
        along_x, along_y = (self._waves_along(axis.coordinates / (2 * axis.length)) for axis in grid.axes)
        return np.ascontiguousarray((along_x @ spectrum @ along_y.T).real)

    def _damping(self, grid: Grid) -> Float[np.ndarray, "wave wave"]:
        """|w|^-γ, scaled so that the variance of the field is one."""
        numbers = [np.fft.fftfreq(2 * self.waves, 1 / (2 * self.waves)) / axis.length for axis in grid.axes]
        squared = np.add.outer(numbers[0] ** 2, numbers[1] ** 2)
        squared[0, 0] = np.inf
        damping = squared ** (-self.exponent / 2)
        return damping * np.sqrt(damping.size / np.sum(damping**2))

    def _waves_along(self, places: Float[np.ndarray, " node"]) -> np.ndarray:
        """exp(2πi k x) / (number of waves) at places in units of the period."""
        numbers = np.fft.fftfreq(2 * self.waves, 1 / (2 * self.waves))
        return np.exp(2j * np.pi * np.multiply.outer(places, numbers)) / (2 * self.waves)

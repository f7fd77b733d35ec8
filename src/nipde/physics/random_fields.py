"""Gaussian random fields with covariance σ² (-Δ + τ²)^-α, and the two-phase materials cut from them.

    ξ(x) = Σ_k σ (|k|² + τ²)^(-α/2) z_k φ_k(x),   z_k ~ N(0, 1),   φ_k cosines, the constant left out

The sum ends at a fixed number of half waves per axis, whatever the grid: the same seed is the same function on
every grid, and refining the grid does not change the law. Coefficients are drawn in shells of rising
max(k_x, k_y, …), so a longer sum begins with exactly the numbers of a shorter one.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from nipde.errors import PhysicsError
from nipde.grid import Grid
from nipde.spectral.basis import Cosine


@dataclass(frozen=True)
class GaussianField:
    """Law of a zero-mean field: smoothness `alpha`, inverse correlation length `tau`, highest half wave `waves`.

    σ = τ^(α - dimension/2) keeps the variance of order one; `rms`, if given, fixes the root mean square over
    the domain and the ensemble instead.
    """

    alpha: float
    tau: float = 5.0
    waves: int = 20
    rms: float | None = None

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and self.tau > 0 and self.waves >= 1 and (self.rms is None or self.rms > 0)):
            raise PhysicsError(
                expected="alpha, tau, rms > 0 and waves >= 1",
                got=f"alpha={self.alpha}, tau={self.tau}, waves={self.waves}, rms={self.rms}",
                remedy="see docs/reference/physics.md for the law",
            )

    def sample(self, grid: Grid, *, rng: np.random.Generator, count: int) -> Float[np.ndarray, "count *space"]:
        """`count` independent fields at the nodes of the grid."""
        return self.synthesise(grid, self.coefficients(grid, rng=rng, count=count))

    def coefficients(self, grid: Grid, *, rng: np.random.Generator, count: int) -> Float[np.ndarray, "count *mode"]:
        """Random coefficients of the cosines; the grid gives dimension and lengths only."""
        modes = self.waves + 1
        order = _shell_order(modes, grid.dimension)
        # Mode by mode, not field by field: a longer sum then starts with the same numbers.
        normals = rng.standard_normal((len(order), count))
        normals *= self.amplitudes(grid).reshape(-1, 1)[order]
        coefficients = np.zeros((modes**grid.dimension, count))
        coefficients[order] = normals
        return np.ascontiguousarray(coefficients.T).reshape(count, *(modes,) * grid.dimension)

    def synthesise(
        self, grid: Grid, coefficients: Float[np.ndarray, "count *mode"], *, derivative: int | None = None
    ) -> Float[np.ndarray, "count *space"]:
        """Values of the sums at the nodes, or of their derivative along one axis."""
        field, modes, done = coefficients, self.waves + 1, 1
        for place, axis in reversed(list(enumerate(grid.axes))):
            values = _cosines(axis.length, axis.nodes, axis.spacing, modes, int(derivative == place))
            if done == 1:  # the last axis in one product, the others in one per field
                field = field.reshape(-1, modes) @ values.T
            else:
                field = values @ field.reshape(-1, modes, done)
            done *= axis.nodes
        return field.reshape(-1, *grid.shape)

    def amplitudes(self, grid: Grid) -> Float[np.ndarray, "*mode"]:
        """Standard deviation of every coefficient; its square is the spectrum of the covariance."""
        return _amplitudes(self, tuple(axis.length for axis in grid.axes))

    def resolving_grid(self) -> Grid:
        """A grid of the unit square that resolves every wave."""
        return Grid.uniform(4 * self.waves + 1)


@dataclass(frozen=True)
class PowerLawField:
    """Law of a zero-mean field of unit variance: white noise on a periodic box twice as long, damped by |w|^-exponent.

        φ(x) = Re Σ_w |w|^(-γ) ẑ_w exp(i w·x),   w ≠ 0, ẑ the transform of white noise on a fixed lattice

    The lattice has `waves` waves per length, whatever the grid: the same seed is the same function on every grid.
    """

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


@dataclass(frozen=True)
class TwoPhase:
    """A material of two phases: one value where the Gaussian field is negative, another elsewhere."""

    negative: float = 12.0
    positive: float = 3.0

    def __post_init__(self) -> None:
        if not (self.negative > 0 and self.positive > 0):
            raise PhysicsError(
                expected="two positive phases", got=(self.negative, self.positive), remedy="permeability is > 0"
            )

    def __call__(self, field: Float[np.ndarray, "*field"]) -> Float[np.ndarray, "*field"]:
        """Material values of a Gaussian field."""
        return np.where(field < 0, self.negative, self.positive)


@lru_cache(maxsize=32)
def _amplitudes(law: GaussianField, lengths: tuple[float, ...]) -> Float[np.ndarray, "*mode"]:
    squared = np.zeros(())
    for length in lengths:
        squared = np.add.outer(squared, Cosine(length, law.waves + 1).wavenumbers ** 2)
    amplitudes = law.tau ** (law.alpha - len(lengths) / 2) * (squared + law.tau**2) ** (-law.alpha / 2)
    amplitudes.flat[0] = 0.0
    if law.rms is not None:
        amplitudes *= law.rms * np.sqrt(np.prod(lengths) / np.sum(amplitudes**2))
    amplitudes.flags.writeable = False
    return amplitudes


@lru_cache(maxsize=32)
def _cosines(length: float, nodes: int, spacing: float, modes: int, derivative: int) -> Float[np.ndarray, "node mode"]:
    values = Cosine(length, modes).values(np.arange(nodes) * spacing, derivative=derivative)
    values.flags.writeable = False
    return values


@lru_cache(maxsize=32)
def _shell_order(modes: int, dimension: int) -> np.ndarray:
    """Flat indices of all modes but the constant, by rising max(k) and then lexicographically."""
    indices = np.indices((modes,) * dimension).reshape(dimension, -1)
    order = np.lexsort((*indices[::-1], indices.max(axis=0)))[1:]
    order.flags.writeable = False
    return order

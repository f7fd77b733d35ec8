"""How a material follows from parameters θ, and what is expected of them: log b(x) = m(θ, x), prior on θ.

Every prior is given by its quadratic form near a state, so that Gauss-Newton steps and the posterior come from one
matrix. Here are fields at nodes; phases are in `level_sets`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gamma, pi
from typing import ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float, Int

from nipde.discretisation.interpolation import multilinear
from nipde.discretisation.links import links_of
from nipde.grid import Grid

Parameters = Float[np.ndarray, " parameter"]
AtPoints = Float[np.ndarray, " point"]
#: Variances of linear forms of the parameters, one per row.
VarianceOf = Callable[[sparse.csr_array], Float[np.ndarray, " row"]]
Penalty = Literal["tikhonov", "total-variation", "edges"]
OfSquares = Callable[[Float[np.ndarray, " link"]], Float[np.ndarray, " link"]]
#: ρ(s) and ρ′(s) of the squared jump s.
RHO: dict[Penalty, tuple[OfSquares, OfSquares]] = {
    "tikhonov": (lambda s: s, np.ones_like),
    "total-variation": (lambda s: np.sqrt(s + 1), lambda s: 0.5 / np.sqrt(s + 1)),
    "edges": (np.log1p, lambda s: 1 / (s + 1)),
}
#: Precision of what the prior leaves free: enough for a Cholesky factor.
TINY = 1e-6


@dataclass(frozen=True)
class MaterialModel(ABC):
    """Fields at the nodes of `grid`, and what is made of them."""

    #: Whether steps that are too long are damped, so that what readings say least of moves less, or shortened as a
    #: whole: at single nodes damping would make a field rough.
    damped: ClassVar[bool] = False
    grid: Grid

    @abstractmethod
    def log_coefficient(
        self, parameters: Parameters, interpolation: sparse.csr_array
    ) -> tuple[AtPoints, sparse.csr_array]:
        """log b at the points that `interpolation` leads to from the nodes, and its derivative by the parameters."""

    @abstractmethod
    def penalty(self, parameters: Parameters) -> float:
        """-log of the prior, up to a constant."""

    @abstractmethod
    def quadratic(self, parameters: Parameters) -> tuple[sparse.csr_array, Parameters]:
        """Precision of the prior near a state, and the gradient of the penalty there."""

    @abstractmethod
    def moved(self, parameters: Parameters, *, to: Grid) -> tuple[Self, Parameters]:
        """The same material on another grid of nodes."""

    @abstractmethod
    def log_variance(self, parameters: Parameters, interpolation: sparse.csr_array, variance: VarianceOf) -> AtPoints:
        """Of log b at points, from the variances of linear forms of the parameters."""

    @abstractmethod
    def raised(self, parameters: Parameters, by: float) -> Parameters:
        """The same material with log b larger everywhere."""

    def extrapolated(self, inactive: Int[np.ndarray, " parameter"], size: int) -> Int[np.ndarray, " parameter"]:
        """Which parameters that no reading depends on take their conditional mean in the prior; others stay."""
        return inactive

    def at_resolution(self, spacing: float) -> Self:
        """For a solver whose integration points are so far apart, in units of the nodes' spacing."""
        return self

    def at_nodes(self, parameters: Parameters) -> Float[np.ndarray, " node"]:
        """log b at the nodes."""
        return self.log_coefficient(parameters, sparse.eye_array(self.grid.size, format="csr"))[0]

    def at(self, parameters: Parameters, points: Float[np.ndarray, "point axis"]) -> AtPoints:
        """log b anywhere; interfaces are sharp."""
        return self.sharp(parameters, multilinear(self.grid, points))

    def sharp(self, parameters: Parameters, interpolation: sparse.csr_array) -> AtPoints:
        """log b without the width of interfaces."""
        return self.log_coefficient(parameters, interpolation)[0]


@dataclass(frozen=True)
class FieldAtNodes(MaterialModel):
    """Parameters are log b at the nodes."""

    def log_coefficient(
        self, parameters: Parameters, interpolation: sparse.csr_array
    ) -> tuple[AtPoints, sparse.csr_array]:
        """Interpolated."""
        return interpolation @ parameters, interpolation

    def log_variance(self, parameters: Parameters, interpolation: sparse.csr_array, variance: VarianceOf) -> AtPoints:
        """That of the interpolated values."""
        return variance(interpolation)

    def moved(self, parameters: Parameters, *, to: Grid) -> tuple[Self, Parameters]:
        """Interpolated."""
        return replace(self, grid=to), interpolated(parameters, self.grid, to)

    def raised(self, parameters: Parameters, by: float) -> Parameters:
        """At every node."""
        return parameters + by


@dataclass(frozen=True)
class Homogeneous(MaterialModel):
    """One log b everywhere, about which nothing is expected."""

    def log_coefficient(
        self, parameters: Parameters, interpolation: sparse.csr_array
    ) -> tuple[AtPoints, sparse.csr_array]:
        """The same at all points."""
        count = interpolation.shape[0]
        return np.full(count, parameters[0]), sparse.csr_array(np.ones((count, 1)))

    def log_variance(self, parameters: Parameters, interpolation: sparse.csr_array, variance: VarianceOf) -> AtPoints:
        """That of the one number."""
        return np.full(interpolation.shape[0], variance(sparse.csr_array(np.ones((1, 1))))[0])

    def moved(self, parameters: Parameters, *, to: Grid) -> tuple[Self, Parameters]:
        """As it is."""
        return replace(self, grid=to), parameters

    def raised(self, parameters: Parameters, by: float) -> Parameters:
        """The one number."""
        return parameters + by

    def penalty(self, parameters: Parameters) -> float:
        """None."""
        return 0.0

    def quadratic(self, parameters: Parameters) -> tuple[sparse.csr_array, Parameters]:
        """None but for a Cholesky factor."""
        return sparse.csr_array(np.full((1, 1), TINY)), np.zeros(1)


@dataclass(frozen=True)
class MaternField(FieldAtNodes):
    """A Matérn field: precision ∝ (κ² - Δ)² of log b, deviation σ, around a constant, κ in units of 1 / length."""

    deviation: float = 1.0
    #: κ times the length of the box.
    correlation: float = 6.0

    def penalty(self, parameters: Parameters) -> float:
        """½ θᵀ R θ without the mean of θ."""
        centred = parameters - self._mean(parameters)
        return float(centred @ (self.precision @ centred)) / 2

    def quadratic(self, parameters: Parameters) -> tuple[sparse.csr_array, Parameters]:
        """R, wherever it is taken."""
        return self.precision, self.precision @ (parameters - self._mean(parameters))

    def _mean(self, parameters: Parameters) -> float:
        return float(self.grid.integrate(parameters.reshape(self.grid.shape)) / self.grid.volume)

    @property
    def kappa(self) -> float:
        """κ, 1 / length."""
        return float(self.correlation / self.grid.volume ** (1 / self.grid.dimension))

    @property
    def scale(self) -> float:
        """What (κ² - Δ)² is multiplied with so that the deviation is σ."""
        half = self.grid.dimension / 2
        return float(gamma(2 - half) / ((4 * pi) ** half * self.kappa ** (4 - 2 * half) * self.deviation**2))

    @property
    def precision(self) -> sparse.csr_array:
        """R."""
        stiffness, volumes = laplacian(self.grid)
        root = self.kappa**2 * sparse.diags_array(volumes) + stiffness
        return sparse.csr_array(root.T @ sparse.diags_array(self.scale / volumes) @ root)


@dataclass(frozen=True)
class JumpPenalty(FieldAtNodes):
    """Σ τ ρ(jump of log b along a link): the classical penalties that the other models are compared with.

    Tikhonov: ρ(s) = s, total variation: √(s + 1), edges: log(s + 1), with s = (jump / ε)².
    """

    kind: Penalty = "total-variation"
    #: τ and ε.
    weight: float = 1.0
    scale: float = 0.05

    def penalty(self, parameters: Parameters) -> float:
        """Σ τ ρ."""
        return self.weight * float(np.sum(RHO[self.kind][0](self._squares(parameters))))

    def quadratic(self, parameters: Parameters) -> tuple[sparse.csr_array, Parameters]:
        """Reweighted: 2τ ρ′ / ε² of every link, ρ′ by the square of the jump."""
        difference = links_of(self.grid).difference
        stiffness = 2 * self.weight / self.scale**2 * RHO[self.kind][1](self._squares(parameters))
        precision = difference.T @ sparse.diags_array(stiffness) @ difference + TINY * sparse.eye_array(self.grid.size)
        return sparse.csr_array(precision), difference.T @ (stiffness * (difference @ parameters))

    def _squares(self, parameters: Parameters) -> Float[np.ndarray, " link"]:
        return (links_of(self.grid).difference @ parameters / self.scale) ** 2


def interpolated(field: Float[np.ndarray, " node"], grid: Grid, to: Grid) -> Float[np.ndarray, " node"]:
    """Multilinear, at the nodes of another grid on the box."""
    return grid.interpolate(field.reshape(grid.shape), to=to).reshape(-1)


def laplacian(grid: Grid) -> tuple[sparse.csr_array, Float[np.ndarray, " node"]]:
    """Stiffness of -Δ with free ends, and the volumes of the cells."""
    links = links_of(grid)
    stiffness = links.difference.T @ sparse.diags_array(links.factor) @ links.difference
    return sparse.csr_array(stiffness), grid.weights.reshape(-1)

"""How a material follows from parameters θ, and what is expected of them: log b(x) = m(θ, x), prior on θ.

Smooth: log b at nodes, a Matérn field. Piecewise smooth: the same values, jumps small or large but seldom in between.
Phases: interfaces are the zeros of level sets φ, log b is constant between them. Every prior is given by its quadratic
form near a state, so that Gauss-Newton steps and the posterior come from one matrix.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import gamma, pi
from typing import Any, Self

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.ndimage import distance_transform_edt

from nipde.discretisation.interpolation import multilinear
from nipde.discretisation.links import links_of
from nipde.grid import Grid

Parameters = Float[np.ndarray, " parameter"]
AtPoints = Float[np.ndarray, " point"]


@dataclass(frozen=True)
class MaterialModel(ABC):
    """Fields at the nodes of `grid`, and what is made of them."""

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
class Smooth(MaterialModel):
    """A Matérn field: precision ∝ (κ² - Δ)² of log b, deviation σ, around a constant, κ in units of 1 / length."""

    deviation: float = 1.0
    #: κ times the length of the box.
    correlation: float = 6.0

    def log_coefficient(
        self, parameters: Parameters, interpolation: sparse.csr_array
    ) -> tuple[AtPoints, sparse.csr_array]:
        """Interpolated."""
        return interpolation @ parameters, interpolation

    def moved(self, parameters: Parameters, *, to: Grid) -> tuple[Self, Parameters]:
        """Interpolated."""
        return replace(self, grid=to), _interpolated(parameters, self.grid, to)

    def penalty(self, parameters: Parameters) -> float:
        """½ θᵀ R θ without the mean of θ."""
        centred = parameters - self._mean(parameters)
        return float(centred @ (self._precision @ centred)) / 2

    def quadratic(self, parameters: Parameters) -> tuple[sparse.csr_array, Parameters]:
        """R, wherever it is taken."""
        return self._precision, self._precision @ (parameters - self._mean(parameters))

    def _mean(self, parameters: Parameters) -> float:
        return float(self.grid.integrate(parameters.reshape(self.grid.shape)) / self.grid.volume)

    @property
    def _precision(self) -> sparse.csr_array:
        half = self.grid.dimension / 2
        kappa = self.correlation / self.grid.volume ** (1 / self.grid.dimension)
        stiffness, volumes = _laplacian(self.grid)
        root = kappa**2 * sparse.diags_array(volumes) + stiffness
        scale = gamma(2 - half) / ((4 * pi) ** half * kappa ** (4 - 2 * half) * self.deviation**2)
        return sparse.csr_array(root.T @ sparse.diags_array(scale / volumes) @ root)


@dataclass(frozen=True)
class PiecewiseSmooth(MaterialModel):
    """Jumps between neighbours follow a Student law, τ log(1 + (jump / ε)²) per link: most are small, some large."""

    #: τ and ε.
    weight: float = 1.0
    scale: float = 0.05

    def log_coefficient(
        self, parameters: Parameters, interpolation: sparse.csr_array
    ) -> tuple[AtPoints, sparse.csr_array]:
        """Interpolated."""
        return interpolation @ parameters, interpolation

    def moved(self, parameters: Parameters, *, to: Grid) -> tuple[Self, Parameters]:
        """Interpolated."""
        return replace(self, grid=to), _interpolated(parameters, self.grid, to)

    def penalty(self, parameters: Parameters) -> float:
        """Σ τ log(1 + (jump / ε)²)."""
        return float(self.weight * np.log1p((_jumps(self.grid) @ parameters / self.scale) ** 2).sum())

    def quadratic(self, parameters: Parameters) -> tuple[sparse.csr_array, Parameters]:
        """Reweighted: 2τ / (jump² + ε²) of every link."""
        difference = _jumps(self.grid)
        jumps = difference @ parameters
        stiffness = 2 * self.weight / (jumps**2 + self.scale**2)
        precision = difference.T @ sparse.diags_array(stiffness) @ difference + TINY * sparse.eye_array(self.grid.size)
        return sparse.csr_array(precision), difference.T @ (stiffness * jumps)


@dataclass(frozen=True)
class Phases(MaterialModel):
    """log b = t₀ + Σ_k δ_k σ(φ_k / w): θ holds the level sets φ_k in units of the spacing, then t₀, δ_1, …

    σ rises from 0 to 1 within the width w. The prior wants interfaces of small curvature: ½ λ |Δ φ|² near them.
    """

    interfaces: int = 1
    #: λ.
    stiffness: float = 0.1
    #: w in units of the spacing.
    width: float = 0.25

    def log_coefficient(
        self, parameters: Parameters, interpolation: sparse.csr_array
    ) -> tuple[AtPoints, sparse.csr_array]:
        """Constant but near interfaces."""
        sets, levels = self.parts(parameters)
        log = np.full(interpolation.shape[0], levels[0])
        columns, heights = [], [np.ones((len(log), 1))]
        for level_set, height in zip(sets, levels[1:], strict=True):
            rise = np.tanh(interpolation @ level_set / self.width)
            share = (1 + rise) / 2
            log += height * share
            slope = height * (1 - rise**2) / (2 * self.width)
            columns.append(sparse.diags_array(slope) @ interpolation)
            heights.append(share[:, None])
        derivative = sparse.hstack([*columns, sparse.csr_array(np.hstack(heights))], format="csr")
        return log, derivative

    def moved(self, parameters: Parameters, *, to: Grid) -> tuple[Self, Parameters]:
        """Level sets interpolated, in units of the other spacing."""
        sets, levels = self.parts(parameters)
        unit = float(np.mean(np.array(self.grid.spacing) / np.array(to.spacing)))
        return replace(self, grid=to), np.concatenate([*(unit * _interpolated(s, self.grid, to) for s in sets), levels])

    def sharp(self, parameters: Parameters, interpolation: sparse.csr_array) -> AtPoints:
        """By the signs of the level sets."""
        sets, levels = self.parts(parameters)
        return levels[0] + ((interpolation @ sets.T) > 0) @ levels[1:]

    def penalty(self, parameters: Parameters) -> float:
        """½ λ Σ |L φ|²."""
        return sum(
            self.stiffness / 2 * float(np.sum((_bending(self.grid) @ one) ** 2)) for one in self.parts(parameters)[0]
        )

    def quadratic(self, parameters: Parameters) -> tuple[sparse.csr_array, Parameters]:
        """λ Lᵀ L of every level set; levels are free."""
        bending = _bending(self.grid)
        one = self.stiffness * (bending.T @ bending) + TINY * sparse.eye_array(self.grid.size)
        precision = sparse.block_diag([*[one] * self.interfaces, TINY * sparse.eye_array(self.interfaces + 1)])
        gradient = np.zeros(len(parameters))
        for number, level_set in enumerate(self.parts(parameters)[0]):
            own = slice(number * self.grid.size, (number + 1) * self.grid.size)
            gradient[own] = self.stiffness * (bending.T @ (bending @ level_set))
        return sparse.csr_array(precision), gradient

    def parts(self, parameters: Parameters) -> tuple[Float[np.ndarray, "interface node"], Float[np.ndarray, " level"]]:
        """Level sets, and the levels t₀, δ_1, …"""
        size = self.interfaces * self.grid.size
        return parameters[:size].reshape(self.interfaces, -1), parameters[size:]

    def start(self, log_coefficient: Float[np.ndarray, " node"]) -> Parameters:
        """Interfaces where a field crosses the thresholds between its clusters."""
        levels = clusters(log_coefficient, self.interfaces + 1)
        cuts = (levels[1:] + levels[:-1]) / 2
        sets = [signed_distance(self.grid, log_coefficient - cut) for cut in cuts]
        return np.concatenate([*sets, levels[:1], np.diff(levels)])


#: Precision of what the prior leaves free: enough for a Cholesky factor.
TINY = 1e-6


def clusters(values: Float[np.ndarray, " node"], count: int) -> Float[np.ndarray, " level"]:
    """Medians of the clusters of k-means in one dimension, rising."""
    centres = np.quantile(values, (np.arange(count) + 0.5) / count)
    for _ in range(50):
        label = np.abs(values[:, None] - centres).argmin(axis=1)
        moved = np.array([values[label == k].mean() if np.any(label == k) else centres[k] for k in range(count)])
        if np.allclose(moved, centres, atol=1e-9):
            break
        centres = moved
    label = np.abs(values[:, None] - centres).argmin(axis=1)
    return np.sort([np.median(values[label == k]) if np.any(label == k) else centres[k] for k in range(count)])


def signed_distance(grid: Grid, field: Float[np.ndarray, " node"], *, refine: int = 8) -> Float[np.ndarray, " node"]:
    """Distance to the zeros of a multilinear field in units of the spacing, negative where it is negative."""
    fine = grid.refine(refine)
    positive = grid.interpolate(field.reshape(grid.shape), to=fine) > 0
    if positive.all() or not positive.any():
        return np.where(field > 0, 1.0, -1.0) * max(grid.shape)
    inside, outside = (distance_transform_edt(side) for side in (positive, ~positive))
    distance = np.where(positive, inside - 0.5, 0.5 - outside) / refine
    return fine.restrict(distance, to=grid).reshape(-1)


def _interpolated(field: Float[np.ndarray, " node"], grid: Grid, to: Grid) -> Float[np.ndarray, " node"]:
    return grid.interpolate(field.reshape(grid.shape), to=to).reshape(-1)


def _jumps(grid: Grid) -> sparse.csr_array:
    """Differences along all links: points around a link read corners, too."""
    return links_of(grid).difference


def _laplacian(grid: Grid) -> tuple[sparse.csr_array, Float[np.ndarray, " node"]]:
    """Stiffness of -Δ with free ends, and the volumes of the cells."""
    links = links_of(grid)
    stiffness = links.difference.T @ sparse.diags_array(links.factor) @ links.difference
    return sparse.csr_array(stiffness), grid.weights.reshape(-1)


def _bending(grid: Grid) -> sparse.csr_array:
    """Second differences along every axis, one row per inner node."""
    rows = []
    for place, axis in enumerate(grid.axes):
        second = sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(axis.nodes - 2, axis.nodes))
        parts = [second if other == place else sparse.eye_array(one.nodes) for other, one in enumerate(grid.axes)]
        total: Any = parts[0]
        for part in parts[1:]:
            total = sparse.kron(total, part)
        rows.append(total)
    return sparse.csr_array(sparse.vstack(rows))

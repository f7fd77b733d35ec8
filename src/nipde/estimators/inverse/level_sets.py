"""Materials of few phases: interfaces are the zeros of level sets φ, log b is constant between them."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float, Int
from scipy.ndimage import distance_transform_edt
from scipy.spatial import cKDTree
from scipy.stats import norm

from nipde.discretisation.interpolation import second_differences
from nipde.estimators.inverse.material_models import (
    TINY,
    AtPoints,
    MaterialModel,
    Parameters,
    VarianceOf,
    interpolated,
)  # fmt: skip
from nipde.grid import Grid

#: w in units of the distance between a solver's integration points.
NARROWEST = 0.75


@dataclass(frozen=True)
class LevelSetPhases(MaterialModel):
    """log b = t₀ + Σ_k δ_k σ(φ_k / w): θ holds the level sets φ_k in units of the spacing, then t₀, δ_1, …

    σ rises from 0 to 1 within the width w. The prior wants interfaces of small curvature: ½ λ |Δ φ|² near them.
    """

    damped: ClassVar[bool] = True
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

    def at_resolution(self, spacing: float) -> Self:
        """Interfaces as narrow as the points resolve: a wide transition biases the level of the conductive phase."""
        return replace(self, width=NARROWEST * spacing)

    def extrapolated(self, inactive: Int[np.ndarray, " parameter"], size: int) -> Int[np.ndarray, " parameter"]:
        """None: far from interfaces there is nothing to extrapolate."""
        return inactive[:0]

    def moved(self, parameters: Parameters, *, to: Grid) -> tuple[Self, Parameters]:
        """Level sets interpolated, in units of the other spacing."""
        sets, levels = self.parts(parameters)
        unit = float(np.mean(np.array(self.grid.spacing) / np.array(to.spacing)))
        return replace(self, grid=to), np.concatenate([*(unit * interpolated(s, self.grid, to) for s in sets), levels])

    def raised(self, parameters: Parameters, by: float) -> Parameters:
        """By its lowest level."""
        return parameters + by * (np.arange(len(parameters)) == self.interfaces * self.grid.size)

    def sharp(self, parameters: Parameters, interpolation: sparse.csr_array) -> AtPoints:
        """By the signs of the level sets."""
        sets, levels = self.parts(parameters)
        return levels[0] + ((interpolation @ sets.T) > 0) @ levels[1:]

    def log_variance(self, parameters: Parameters, interpolation: sparse.csr_array, variance: VarianceOf) -> AtPoints:
        """Of the levels, and where an interface may pass."""
        of_levels = variance(self.by_levels(parameters, interpolation))
        return of_levels + self.variance_of_interfaces(parameters, interpolation, variance)

    def by_levels(self, parameters: Parameters, interpolation: sparse.csr_array) -> sparse.csr_array:
        """Derivative of log b by the levels."""
        _, derivative = self.log_coefficient(parameters, interpolation)
        of_levels = np.arange(len(parameters)) >= self.interfaces * self.grid.size
        return sparse.csr_array(derivative @ sparse.diags_array(of_levels.astype(float)))

    def variance_of_interfaces(
        self, parameters: Parameters, interpolation: sparse.csr_array, variance: VarianceOf
    ) -> AtPoints:
        """Where one may pass, the height of its step: h² p (1 - p).

        p follows from the distance to the interface and the deviation of its position there.
        """
        sets, levels = self.parts(parameters)
        size = self.grid.size
        total = np.zeros(interpolation.shape[0])
        for number, (level_set, height) in enumerate(zip(sets, levels[1:], strict=True)):
            distance = signed_distance(self.grid, level_set)
            near = np.flatnonzero(np.abs(distance) < 1)
            if not len(near):
                continue
            slope = np.sqrt(sum(part**2 for part in np.gradient(level_set.reshape(self.grid.shape)))).ravel()[near]
            rows = sparse.eye_array(size, len(parameters), k=number * size, format="csr")[near]
            position = variance(rows) / np.maximum(slope, 0.3) ** 2  # of the interface, in squared spacings
            beside = cKDTree(self._places(near)).query(self._places(np.arange(size)))[1]
            deviation = np.sqrt(interpolation @ position[beside] + self.width**2)
            share = norm.cdf(interpolation @ distance / deviation)
            total = total + height**2 * share * (1 - share)
        return total

    def _places(self, nodes: np.ndarray) -> Float[np.ndarray, "node axis"]:
        return np.stack(np.unravel_index(nodes, self.grid.shape), -1).astype(float)

    def penalty(self, parameters: Parameters) -> float:
        """½ λ Σ |L φ|²."""
        bending = second_differences(self.grid)
        return sum(self.stiffness / 2 * float(np.sum((bending @ one) ** 2)) for one in self.parts(parameters)[0])

    def quadratic(self, parameters: Parameters) -> tuple[sparse.csr_array, Parameters]:
        """λ Lᵀ L of every level set; levels are free."""
        bending = second_differences(self.grid)
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


def variance_between_clusters(values: Float[np.ndarray, " node"]) -> float:
    """Share of the variance that lies between two clusters."""
    low, high = clusters(values, 2)
    nearest = np.where(np.abs(values - low) < np.abs(values - high), 0, 1)
    rest = sum(float(np.sum((values[nearest == k] - values[nearest == k].mean()) ** 2)) for k in np.unique(nearest))
    return 1 - rest / max(float(np.sum((values - values.mean()) ** 2)), 1e-300)


def signed_distance(grid: Grid, field: Float[np.ndarray, " node"], *, refine: int = 8) -> Float[np.ndarray, " node"]:
    """Distance to the zeros of a multilinear field in units of the spacing, negative where it is negative."""
    fine = grid.refine(refine)
    positive = grid.interpolate(field.reshape(grid.shape), to=fine) > 0
    if positive.all() or not positive.any():
        return np.where(field > 0, 1.0, -1.0) * max(grid.shape)
    inside, outside = (distance_transform_edt(side) for side in (positive, ~positive))
    distance = np.where(positive, inside - 0.5, 0.5 - outside) / refine
    return fine.restrict(distance, to=grid).reshape(-1)

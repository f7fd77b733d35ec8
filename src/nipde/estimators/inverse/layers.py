"""Materials that vary in one direction only: graded, or layers between straight interfaces, whose direction is unknown.

    s = (x - centre) · (cos α, sin α),   log b = g(s),   or   log b = t₀ + Σ_k h_k σ((s - s_k) / w)

Few parameters stand for the whole plane, so thirty sensors find what a field of any pattern leaves open.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Bool, Float, Int
from scipy.sparse.linalg import spsolve
from scipy.stats import norm

from nipde.estimators.inverse.level_sets import NARROWEST, clusters
from nipde.estimators.inverse.material_models import (
    TINY,
    AtPoints,
    MaterialModel,
    Parameters,
    VarianceOf,
)  # fmt: skip
from nipde.grid import Grid

#: Values of log b that differ by less are those of one phase.
ALIKE = 0.15
#: Deviations that a level may be off.
SURELY = 3.0
#: Interfaces that are nearer to each other, in spacings, may be one.
TOGETHER = 0.5
#: Deviation that is expected of the step at an interface.
STEP = 3.0


@dataclass(frozen=True)
class AlongOneDirection(MaterialModel):
    """The first parameter is the angle α from `angle` on, as a shift at the box's corners in spacings."""

    damped: ClassVar[bool] = True
    #: α where the first parameter is 0.
    angle: float = 0.0

    @cached_property
    def reach(self) -> float:
        """From the centre to a corner, in spacings."""
        return float(np.linalg.norm([axis.length for axis in self.grid.axes]) / (2 * np.mean(self.grid.spacing)))

    def direction(self, parameters: Parameters) -> float:
        """α."""
        return self.angle + float(parameters[0]) / self.reach

    def along(self, parameters: Parameters, interpolation: sparse.csr_array) -> tuple[AtPoints, AtPoints]:
        """s of points in spacings, and its derivative by the first parameter."""
        nodes = np.stack([x.ravel() for x in self.grid.coordinates], -1)
        centre = (nodes.max(axis=0) + nodes.min(axis=0)) / 2
        x, y = (interpolation @ (nodes - centre)).T / np.mean(self.grid.spacing)
        alpha = self.direction(parameters)
        return x * np.cos(alpha) + y * np.sin(alpha), (y * np.cos(alpha) - x * np.sin(alpha)) / self.reach

    def moved(self, parameters: Parameters, *, to: Grid) -> tuple[Self, Parameters]:
        """In units of the other spacing; the angle is the reference there."""
        other = replace(self, grid=to, angle=self.direction(parameters))
        return other, self._scaled(parameters, float(np.mean(self.grid.spacing) / np.mean(to.spacing)))

    def _scaled(self, parameters: Parameters, unit: float) -> Parameters:
        return np.concatenate([[0.0], parameters[1:]])


@dataclass(frozen=True)
class Graded(AlongOneDirection):
    """θ holds the angle and g at knots: (κ² - d²/ds²)^order is its precision, deviation σ around its mean.

    Of order 1 it may jump, as layers make it; of order 2 it is as smooth as a Matérn field.
    """

    deviation: float = 1.0
    order: int = 1
    #: Knots from corner to corner, and κ in units of 1 / that length.
    knots: int = 121
    correlation: float = 16.0

    @cached_property
    def places(self) -> Float[np.ndarray, " knot"]:
        """s of the knots, in units of `reach`."""
        return np.linspace(-1, 1, self.knots)

    def profile(self, parameters: Parameters, interpolation: sparse.csr_array) -> tuple[sparse.csr_array, AtPoints]:
        """From knots to points, and ∂g/∂s · ∂s/∂θ₀."""
        along, turning = self.along(parameters, interpolation)
        at = np.clip((along / self.reach + 1) / 2 * (self.knots - 1), 0, self.knots - 1 - 1e-9)
        first = at.astype(int)
        rows = np.arange(len(at))
        weights = sparse.csr_array(
            (np.r_[1 - (at - first), at - first], (np.r_[rows, rows], np.r_[first, first + 1])),
            shape=(len(at), self.knots),
        )
        slope = np.diff(parameters[1:])[first] * (self.knots - 1) / (2 * self.reach)
        return weights, slope * turning

    def log_coefficient(
        self, parameters: Parameters, interpolation: sparse.csr_array
    ) -> tuple[AtPoints, sparse.csr_array]:
        """Linear between knots."""
        weights, turned = self.profile(parameters, interpolation)
        return weights @ parameters[1:], sparse.hstack([sparse.csr_array(turned[:, None]), weights], format="csr")

    def log_variance(self, parameters: Parameters, interpolation: sparse.csr_array, variance: VarianceOf) -> AtPoints:
        """Of the profile and of the angle."""
        return variance(self.log_coefficient(parameters, interpolation)[1])

    def penalty(self, parameters: Parameters) -> float:
        """½ gᵀ R g without the mean of g."""
        centred = parameters[1:] - parameters[1:].mean()
        return float(centred @ (self._precision @ centred)) / 2

    def quadratic(self, parameters: Parameters) -> tuple[sparse.csr_array, Parameters]:
        """R, wherever it is taken; the angle is free."""
        precision = sparse.block_diag([[[TINY]], self._precision], format="csr")
        slope = self._precision @ (parameters[1:] - parameters[1:].mean())
        return sparse.csr_array(precision), np.concatenate([[0.0], slope])

    @cached_property
    def _precision(self) -> sparse.csr_array:
        spacing, kappa = 1 / (self.knots - 1), self.correlation
        step = sparse.csr_array(np.diff(np.eye(self.knots), axis=0))
        root = kappa**2 * spacing * sparse.eye_array(self.knots) + step.T @ (step * (1 / spacing))
        power = root if self.order == 1 else root @ root * (1 / spacing)
        variance = 1 / (2 * kappa) if self.order == 1 else 1 / (4 * kappa**3)
        return sparse.csr_array(power * (variance / self.deviation**2))

    def raised(self, parameters: Parameters, by: float) -> Parameters:
        """At every knot."""
        return np.concatenate([parameters[:1], parameters[1:] + by])

    def start(self, log_coefficient: Float[np.ndarray, " node"]) -> Parameters:
        """The profile nearest to a field."""
        at_nodes = sparse.eye_array(self.grid.size, format="csr")
        weights, _ = self.profile(np.zeros(self.knots + 1), at_nodes)
        mean = log_coefficient.mean()
        matrix = (weights.T @ weights + self._precision).tocsc()
        return np.concatenate([[0.0], mean + spsolve(matrix, weights.T @ (log_coefficient - mean))])


@dataclass(frozen=True)
class Layers(AlongOneDirection):
    """θ holds the angle, t₀, the steps h_k, and the interfaces s_k in spacings."""

    #: w in units of the spacing.
    width: float = 0.25

    def parts(self, parameters: Parameters) -> tuple[float, np.ndarray, np.ndarray]:
        """t₀, h_k, s_k."""
        count = (len(parameters) - 2) // 2
        return float(parameters[1]), parameters[2 : 2 + count], parameters[2 + count :]

    def levels(self, parameters: Parameters) -> Float[np.ndarray, " layer"]:
        """log b of the layers, in the order of s."""
        base, steps, places = self.parts(parameters)
        return base + np.concatenate([[0.0], np.cumsum(steps[np.argsort(places)])])

    def extrapolated(self, inactive: Int[np.ndarray, " parameter"], size: int) -> Int[np.ndarray, " parameter"]:
        """None."""
        return inactive[:0]

    def raised(self, parameters: Parameters, by: float) -> Parameters:
        """By t₀."""
        return parameters + by * (np.arange(len(parameters)) == 1)

    def at_resolution(self, spacing: float) -> Self:
        """Interfaces as narrow as the points resolve."""
        return replace(self, width=NARROWEST * spacing)

    def log_coefficient(
        self, parameters: Parameters, interpolation: sparse.csr_array
    ) -> tuple[AtPoints, sparse.csr_array]:
        """Constant but near interfaces."""
        base, steps, places = self.parts(parameters)
        along, turning = self.along(parameters, interpolation)
        rise = np.tanh((along[:, None] - places) / self.width)
        share, slope = (1 + rise) / 2, steps * (1 - rise**2) / (2 * self.width)
        derivative = np.hstack([(slope.sum(axis=1) * turning)[:, None], np.ones((len(along), 1)), share, -slope])
        rows, columns = derivative.shape
        indices = np.tile(np.arange(columns), rows), np.arange(0, rows * columns + 1, columns)
        return base + share @ steps, sparse.csr_array((derivative.ravel(), *indices), shape=derivative.shape)

    def sharp(self, parameters: Parameters, interpolation: sparse.csr_array) -> AtPoints:
        """Which interfaces a point has passed."""
        base, steps, places = self.parts(parameters)
        return base + (self.along(parameters, interpolation)[0][:, None] > places) @ steps

    def log_variance(self, parameters: Parameters, interpolation: sparse.csr_array, variance: VarianceOf) -> AtPoints:
        """Of the levels, and where an interface may pass the square of its step: h² p (1 - p)."""
        _, steps, places = self.parts(parameters)
        count = len(steps)
        along, turning = self.along(parameters, interpolation)
        passed = (along[:, None] > places).astype(float)
        of_levels = np.hstack([np.zeros((len(along), 1)), np.ones((len(along), 1)), passed, np.zeros(passed.shape)])
        total = variance(sparse.csr_array(of_levels))
        for number in range(count):
            rows = np.zeros((len(along), len(parameters)))
            rows[:, 0], rows[:, 2 + count + number] = turning, -1.0
            deviation = np.sqrt(variance(sparse.csr_array(rows)) + self.width**2)
            share = norm.cdf((along - places[number]) / deviation)
            total = total + steps[number] ** 2 * share * (1 - share)
        return total

    def simpler(self, parameters: Parameters) -> Parameters | None:
        """Without the least step, or with the two nearest interfaces as one; None where all are far apart and large."""
        base, steps, places = self.parts(parameters)
        order = np.argsort(places)
        steps, places = steps[order], places[order]
        if len(steps) < 2:
            return None
        least, nearest = int(np.abs(steps).argmin()), int(np.diff(places).argmin())
        if abs(steps[least]) < ALIKE:
            steps, places = np.delete(steps, least), np.delete(places, least)
        elif places[nearest + 1] - places[nearest] < TOGETHER:
            both = slice(nearest, nearest + 2)
            larger = places[both][np.abs(steps[both]).argmax()]
            steps = np.concatenate([steps[:nearest], [steps[both].sum()], steps[nearest + 2 :]])
            places = np.concatenate([places[:nearest], [larger], places[nearest + 2 :]])
        else:
            return None
        return np.concatenate([parameters[:1], [base], steps, places])

    def penalty(self, parameters: Parameters) -> float:
        """½ Σ (h / STEP)²."""
        return float(np.sum((self.parts(parameters)[1] / STEP) ** 2)) / 2

    def quadratic(self, parameters: Parameters) -> tuple[sparse.csr_array, Parameters]:
        """Of the steps alone."""
        count = (len(parameters) - 2) // 2
        precision = np.full(len(parameters), TINY)
        precision[2 : 2 + count] = STEP**-2
        slope = np.zeros(len(parameters))
        slope[2 : 2 + count] = parameters[2 : 2 + count] / STEP**2
        return sparse.csr_array(sparse.diags_array(precision)), slope

    def phases(self, parameters: Parameters, variance: VarianceOf) -> int:
        """Two or three, if the layers have so many values, as far as these are known; else 1."""
        levels, count = self.levels(parameters), (len(parameters) - 2) // 2
        rows = np.zeros((count + 1, len(parameters)))
        rows[:, 1], rows[:, 2 + np.argsort(self.parts(parameters)[2])] = 1.0, np.tri(count + 1, count, -1)
        apart_at_most = np.maximum(ALIKE, SURELY * np.sqrt(variance(sparse.csr_array(rows))))
        if np.ptp(levels) > ALIKE:
            for number in (2, 3):
                apart = np.abs(levels[:, None] - clusters(levels, min(number, len(levels)))).min(axis=1)
                if np.all(apart < apart_at_most):
                    return number
        return 1

    def start(
        self, graded: Graded, profile: Parameters, *, known: Bool[np.ndarray, " knot"], share: float
    ) -> Parameters:
        """Layers nearest to a profile, by the least squares where every layer costs a `share` of its variance."""
        values, places = profile[1:][known], graded.places[known] * graded.reach
        ends = segments(values, cost=share * float(np.sum((values - values.mean()) ** 2)))
        levels = np.array(
            [values[first:last].mean() for first, last in zip([0, *ends], [*ends, len(values)], strict=True)]
        )
        interfaces = np.array([(places[end - 1] + places[end]) / 2 for end in ends])
        return np.concatenate([[0.0, levels[0]], np.diff(levels), interfaces])

    def _scaled(self, parameters: Parameters, unit: float) -> Parameters:
        base, steps, places = self.parts(parameters)
        return np.concatenate([[0.0, base], steps, unit * places])


def segments(values: Float[np.ndarray, " place"], *, cost: float) -> list[int]:
    """Where to cut a sequence so that its variance within the parts, and the cost of each, is least."""
    count = len(values)
    sums, squares = (np.concatenate([[0.0], np.cumsum(values**power)]) for power in (1, 2))
    least, before = np.full(count + 1, -cost), np.zeros(count + 1, dtype=int)
    for end in range(1, count + 1):
        first = np.arange(end)
        within = squares[end] - squares[first] - (sums[end] - sums[first]) ** 2 / (end - first)
        total = least[first] + within + cost
        before[end] = int(total.argmin())
        least[end] = total[before[end]]
    ends, end = [], int(before[count])
    while end:
        ends.append(end)
        end = int(before[end])
    return ends[::-1]


def direction_of(
    grid: Grid, field: Float[np.ndarray, " node"], among: Bool[np.ndarray, " node"]
) -> tuple[float, float]:
    """The angle along which a field changes most, and how much it changes across, as a share of the squared slopes."""
    slopes = np.stack(np.gradient(field.reshape(grid.shape), *grid.spacing)).reshape(2, -1)[:, among]
    shares, axes = np.linalg.eigh(slopes @ slopes.T)
    return float(np.arctan2(axes[1, 1], axes[0, 1])), float(shares[0] / max(shares[1], 1e-300))

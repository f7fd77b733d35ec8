"""One system on the grids that it is computed on: the readings' deviations, and minima of models."""

from dataclasses import dataclass, replace
from math import ceil, log, sqrt
from typing import Any, Self

import numpy as np
import scipy.linalg as dense
import torch
from jaxtyping import Float

from nipde.context.sensor_pairs import SensorPairs
from nipde.discretisation.interpolation import Interpolation, isolated
from nipde.errors import PairsError
from nipde.estimators.inverse.candidate import Candidate, trace_of_quotient
from nipde.estimators.inverse.fitted_state import Fit
from nipde.estimators.inverse.linearised_readings import Solver
from nipde.estimators.inverse.marginal_prior import MarginalPrior
from nipde.estimators.inverse.material_models import MaterialModel, MaternField, Parameters
from nipde.estimators.inverse.nuisance import (
    OUTLYING,
    ErrorPatterns,
    Nuisance,
    NuisanceKind,
    bearing_outliers,
    usual_size,
)  # fmt: skip
from nipde.estimators.inverse.output_error import LinkSolver, SensorSystem, fit
from nipde.estimators.inverse.readings import Readings, Values
from nipde.grid import Grid

#: The error of a solver falls at least with this power of the spacing.
ORDER = 1.5
#: Grids of a material are not made finer than this: the cost of a step grows with the third power of the nodes.
MOST_NODES = 5000
#: Nor is the solver's grid, of which a direct factorisation is held.
MOST_UNKNOWNS = 300_000
#: How much finer the grid of a material is made where that is needed; a solver's error below this share of the size of
#: the readings is small enough.
FINER, COARSE = 1.5, 0.002
#: Points per axis of a cell of the solver where the coefficient is taken: usually, and where the noise is below COARSE.
USUAL_POINTS, EXACT_POINTS = 2, 4


@dataclass(frozen=True, eq=False)
class InverseProblem:
    """One system on the grids that it is computed on."""

    pairs: SensorPairs
    #: Nodes of the material.
    nodes: Grid
    coarse: Solver
    fine: Solver
    #: Standard deviation of every reading, and that of the solver's error in it.
    deviation: Values
    discretisation: Values
    #: Errors that the readings may have beside noise.
    nuisance: tuple[NuisanceKind, ...] = ()
    #: Of a cell of the fine solver, per axis.
    points: int = USUAL_POINTS

    @classmethod
    def of(cls, pairs: SensorPairs, *, material: int, solver: int, nuisance: tuple[NuisanceKind, ...] = ()) -> Self:
        """On grids with so many intervals."""
        grid = pairs.grid
        mean = float(np.prod([axis.intervals for axis in grid.axes]) ** (1 / grid.dimension))
        system, deviation, none = _system(pairs)
        nodes, fine = resampled(grid, material / mean), grid.refine(max(1, ceil(solver / mean - 1e-9)))
        sources = bool(system.loads.any()) and np.array_equal(isolated(system.loads, grid), system.loads != 0)
        points = EXACT_POINTS if grid.dimension == 2 and _almost_exact(pairs) else USUAL_POINTS
        solvers = cls.solvers(system, nodes, fine, "points" if sources else "spline", points)
        return cls(pairs, nodes, *solvers, deviation, none, nuisance, points)

    @staticmethod
    def solvers(
        system: Any, nodes: Grid, fine: Grid, interpolation: Interpolation, points: int
    ) -> tuple[Solver, Solver]:
        """Of derivatives and of residuals."""
        return (
            LinkSolver(nodes, system, nodes=nodes, per_axis=3, interpolation=interpolation),
            LinkSolver(fine, system, nodes=nodes, per_axis=points, interpolation=interpolation),
        )

    def _on(self, nodes: Grid, interpolation: Interpolation, *, solver: int = 1) -> Self:
        finer = self.fine.grid.refine(solver)
        coarse, fine = self.solvers(self.fine.system, nodes, finer, interpolation, self.points)
        return replace(self, nodes=nodes, coarse=coarse, fine=fine)

    @property
    def places(self) -> Float[np.ndarray, "sensor axis"]:
        """Positions of the sensors."""
        return self.pairs.sensors.points

    @property
    def stated(self) -> Values | None:
        """Deviations as they are stated; 1 where readings are whitened; None if none are."""
        if self.pairs.covariance is not None:
            return np.ones(self.values.shape)
        if self.pairs.noise is None:
            return None
        noise = torch.as_tensor(self.pairs.noise, dtype=torch.float64)
        return np.asarray(noise.expand(self.pairs.readings.shape).T.numpy())

    @property
    def interpolation_is_known(self) -> bool:
        """Point sources, and loads that end at an outline, have one interpolation only."""
        return self._interpolation == "points" or self.pairs.specimen is not None

    @property
    def _interpolation(self) -> Interpolation:
        return getattr(self.fine, "interpolation", "spline")

    @property
    def noise_stated(self) -> bool:
        """Whether the deviations are known, not estimated."""
        return self.stated is not None

    @property
    def outline_given(self) -> bool:
        """Whether anything is given at the outline."""
        return self.coarse.outline is not None

    @property
    def values(self) -> Values:
        """Readings, 0 where there is none."""
        return self.fine.system.values

    @property
    def measured(self) -> Values:
        """Where there is one."""
        return self.fine.system.weights > 0

    @property
    def count(self) -> int:
        """Number of readings."""
        return self.fine.system.count

    @property
    def size(self) -> float:
        """Root mean square of the readings."""
        return float(np.sqrt(np.sum(self.values**2) / self.count))

    @property
    def usual_deviation(self) -> float:
        """Median of the readings'."""
        return float(np.median(self.deviation[self.measured]))

    def with_pairs(self, pairs: SensorPairs, found: Candidate) -> "InverseProblem":
        """Other readings of the same material on the same grids; deviations beside what was found."""
        system, deviation, none = _system(pairs)
        solvers = self.solvers(system, self.nodes, self.fine.grid, self._interpolation, self.points)
        problem = InverseProblem(pairs, self.nodes, *solvers, deviation, none, self.nuisance, self.points)
        return problem.with_errors_beside(found.fit.model, found.fit.parameters, effective_dof=found.effective_dof)

    def refined(self, factor: float, *, solver: int = 1) -> "InverseProblem":
        """On a finer grid of the material, and on one of the solver with so many times its intervals."""
        return self._on(resampled(self.nodes, factor), self._interpolation, solver=solver)

    @property
    def too_coarse(self) -> bool:
        """Whether the solver's error is as large as the noise: narrow places need more cells; and more are possible."""
        noise = self.deviation if self.stated is None else self.stated
        error, usual = (float(np.median(values[self.measured])) for values in (self.discretisation, noise))
        return error > max(usual / 2, COARSE * self.size) and self.allows(FINER, solver=2)

    def allows(self, factor: float, *, solver: int = 1) -> bool:
        """Whether grids so much finer are not too large."""
        return resampled(self.nodes, factor).size <= MOST_NODES and self.fine.grid.refine(solver).size <= MOST_UNKNOWNS

    def with_noise(self, deviation: Values) -> "InverseProblem":
        """With other deviations."""
        system = replace(self.fine.system, weights=np.where(self.measured, 1 / deviation**2, 0.0))
        return replace(self._with_system(system), deviation=deviation)

    def roughly(self, share: float) -> "InverseProblem":
        """With deviations of at least this share of the readings' size: far from a minimum, models need no more."""
        return self.with_noise(np.maximum(self.deviation, share * self.size))

    def _with_system(self, system: Readings) -> Self:
        return replace(self, coarse=self.coarse.with_system(system), fine=self.fine.with_system(system))

    def with_better_interpolation(self, model: MaterialModel, parameters: Parameters) -> "InverseProblem":
        """Loads by cosines instead of splines where the readings fit better with them."""
        if self.interpolation_is_known:
            return self
        other = self._interpolating("cosine")
        return min(self, other, key=lambda one: one.misfit(model, parameters) * (1.0 if one is other else 0.98))

    def reconsidered(self, state: Fit) -> tuple["InverseProblem", Parameters]:
        """The other interpolation of the loads if the readings fit better with it, after a few steps of its own."""
        if self.interpolation_is_known:
            return self, state.parameters
        other = self._interpolating("cosine" if self._interpolation == "spline" else "spline")
        moved = other.minimised(state.model, state.parameters, steps=3)
        return (other, moved.parameters) if moved.chi_square < 0.98 * state.chi_square else (self, state.parameters)

    def _interpolating(self, kind: Interpolation) -> "InverseProblem":
        return self._on(self.nodes, kind)

    def with_errors_beside(
        self, model: MaterialModel, parameters: Parameters, *, effective_dof: float = 0.0
    ) -> "InverseProblem":
        """Deviations as stated or from the residuals, and the solver's error: from its difference to a coarser one.

        Errors with a pattern, and outliers, are those that the readings may have and show beside this material.
        """
        predicted = self.fine.predicted(model, parameters)
        apart = self.distinct(self.coarse.predicted(model, parameters) - predicted)
        usual = 1.5 * float(np.median(np.abs(apart[self.measured])))
        error = np.hypot(apart, usual) * self.error_share(ORDER)
        problem = self._with_system(replace(self.fine.system, nuisance=self.patterns(model, parameters, predicted)))
        residual = problem.residual(model, parameters)
        if self.stated is not None:
            deviation = np.hypot(self.stated, error)
        else:  # the solver's error is in the residuals
            clipped = np.minimum(np.abs(residual), OUTLYING * usual_size(residual))
            variance = float(np.sum((clipped if "outliers" in self.nuisance else residual) ** 2))
            variance /= max(self.count - effective_dof, 0.1 * self.count)
            deviation = np.full(error.shape, sqrt(variance))
        deviation = np.maximum(deviation, 1e-9 * self.size)
        if "outliers" in self.nuisance:
            deviation = bearing_outliers(deviation, residual)
        return replace(problem.with_noise(deviation), discretisation=error)

    def error_share(self, order: float) -> float:
        """The error of the fine solver over its difference to the coarse one, if it falls with this power."""
        share = float(np.mean(np.array(self.fine.grid.spacing) / np.array(self.coarse.grid.spacing))) ** order
        return share / (1 - share)

    def distinct(self, difference: Values) -> Values:
        """What of a difference between predictions counts."""
        return difference

    def patterns(self, model: MaterialModel, parameters: Parameters, predicted: Values) -> ErrorPatterns | None:
        """Of the errors that the readings may have."""
        return Nuisance.of(self.nuisance, predicted)

    def log_constant(self) -> float:
        """log b of the best constant coefficient: u ≈ u₁/b, and what does not depend on b."""
        ones = np.ones(self.nodes.size)
        unit, half = (
            self.coarse.predicted(MaternField(self.nodes), size * ones) * self.measured for size in (0, log(2))
        )
        fixed, unit = (2 * half - unit, 2 * (unit - half)) if self.outline_given else (0.0, unit)
        if "level" in self.nuisance:
            unit = unit - self.measured * (np.sum(unit, axis=0) / np.maximum(np.sum(self.measured, axis=0), 1))
        own, across = float(np.sum(unit**2)), float(np.sum(unit * (self.values - fixed)))
        if not own > 1e-12 * float(np.sum(self.values**2)):
            outline = self.outline_given
            raise PairsError(
                expected="loads that reach a sensor" + (", a density or a flux among them" if outline else ""),
                got="given values only: b is then known up to a factor" if outline else "none",
                remedy="apply a known flow, or measure one" if outline else "check the loads",
            )  # fmt: skip
        return log(own / across if across > 0 else sqrt(own / float(np.sum(self.values**2))))

    def mean_gain_deviation(self, state: Fit) -> float:
        """Of the mean of the loads' gains, which no reading tells: that of independent gains as they are estimated."""
        system = self.fine.system
        if "gain" not in self.nuisance or system.nuisance is None:
            return 0.0
        place = [kind for kind in self.nuisance if kind != "outliers"].index("gain")
        assert isinstance(system.nuisance, Nuisance)
        gains = system.nuisance.estimated(system.weights * state.residual, system.weights)[place]
        return float(np.std(gains) / sqrt(len(gains)))

    @property
    def nuisance_dof(self) -> float:
        """Effective number of parameters of errors that have a pattern."""
        system = self.fine.system
        return 0.0 if system.nuisance is None else system.nuisance.dof(system.weights)

    def misfit(self, model: MaterialModel, parameters: Parameters) -> float:
        """Sum of squared residuals, without errors that have a pattern."""
        return float(np.sum(self.residual(model, parameters) ** 2))

    def residual(self, model: MaterialModel, parameters: Parameters) -> Values:
        """Readings without predictions, and without errors that have a pattern."""
        system = self.fine.system
        residual = np.where(self.measured, self.values - self.fine.predicted(model, parameters), 0.0)
        if system.nuisance is None:
            return residual
        explained = system.nuisance.explained(system.weights * residual, system.weights)
        return np.where(self.measured, residual - explained, 0.0)

    def minimised(
        self, model: MaterialModel, start: Parameters, *, steps: int, tolerance: float = 1e-4, coarse: bool = False
    ) -> Fit:
        """The nearest minimum, or so many steps towards it."""
        fine = self.coarse if coarse else self.fine
        return fit(model, start, coarse=self.coarse, fine=fine, steps=steps, tolerance=tolerance)

    def candidate(self, model: MaterialModel, start: Parameters, *, steps: int) -> Candidate:
        """The minimum with its curvature."""
        state = self.minimised(model, start, steps=steps)
        near = self.coarse.linearised(model, state.parameters)
        curvature = near.curvature(self.fine.system)
        precision = MarginalPrior.of(model, state.parameters, near.active).precision
        root = np.asarray(dense.cholesky(curvature + precision, lower=True, check_finite=False))
        effective_dof = len(curvature) - trace_of_quotient(precision, root) + self.nuisance_dof
        return Candidate(self, state, near, curvature, precision, effective_dof)


def _almost_exact(pairs: SensorPairs) -> bool:
    """Whether the stated noise is small: interfaces then need more points than cells of the solver."""
    if pairs.noise is None:
        return False
    readings = pairs.readings[pairs.readings.isfinite()]
    return bool(torch.as_tensor(pairs.noise).median() < COARSE * readings.square().mean().sqrt())


def _system(pairs: SensorPairs) -> tuple[SensorSystem, Values, Values]:
    """Readings and loads; deviations of 1 and 0, until they are known."""
    readings = pairs.readings.T.numpy().astype(np.float64)
    measured = np.isfinite(readings)
    if not np.any(readings[measured]):
        raise PairsError(expected="readings other than 0", got="zeros", remedy="check the readings")
    whitening = None
    if pairs.covariance is not None:
        root = np.linalg.cholesky(pairs.covariance.numpy())
        whitening = np.linalg.inv(root)
        readings = whitening @ readings
    values, loads = np.where(measured, readings, 0.0), pairs.loads[:, 0].numpy().astype(np.float64)
    system = SensorSystem(
        values=values, weights=measured.astype(float), whitening=whitening, grid=pairs.grid, loads=loads,
        sensors=pairs.sensors, specimen=pairs.specimen, outline=pairs.outline,
    )  # fmt: skip
    return system, np.ones(values.shape), np.zeros(values.shape)


def resampled(grid: Grid, factor: float) -> Grid:
    """The same box with about `factor` times as many intervals."""
    return replace(grid, axes=tuple(axis.resampled(max(8, round(axis.intervals * factor))) for axis in grid.axes))

"""Posterior of a fit to sensors: Cov(θ) = (JᵀwJ + R)⁻¹, carried to responses and to log b by their derivatives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as dense
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.context.sensors import Sensors
from nipde.discretisation.domain import OutlineData, load_moments, right_side
from nipde.discretisation.interpolation import Interpolation, multilinear
from nipde.discretisation.link_solver import Inverse
from nipde.discretisation.load_case import LoadCase
from nipde.estimators.inverse.candidate import Candidate
from nipde.estimators.inverse.fitted_state import Fit
from nipde.estimators.inverse.layers import Layers
from nipde.estimators.inverse.level_sets import LevelSetPhases
from nipde.estimators.inverse.output_error import LinkSolver
from nipde.estimators.inverse.varying_phases import VaryingPhases
from nipde.grid import Grid

Loads = Float[np.ndarray, "pair *space"]
#: Sensors that candidate loads are ranked by, at most.
DESIGN_SENSORS = 40


@dataclass(frozen=True, eq=False)
class SensorPosterior:
    """On the nodes of the data's grid."""

    best: Candidate
    grid: Grid
    interpolation: Interpolation
    #: Deviation of the errors of solver and model, as a share of a response's root mean square.
    relative_error: float
    #: Deviations times this: √χ² where that is above 1.
    widened: float = 1.0
    #: Fits of other models that explain the readings, too: their distance is part of the deviation.
    others: tuple[Fit, ...] = ()
    #: Deviation of a gain that all loads have in common, where gains are unknown.
    common_gain: float = 0.0

    def response_deviation(self, loads: Loads, outline: Sequence[LoadCase] = ()) -> Loads:
        """Of responses at unknown nodes; 0 where they are given."""
        solver = self.best.near.solver
        assert isinstance(solver, LinkSolver)
        domain = solver.domain
        inner = self.grid.unknown if domain.cells is None else domain.cells.shape.holds_nodes(self.grid)
        at = Sensors.at(np.stack([x[inner] for x in self.grid.coordinates], -1))
        deviation = np.zeros((len(loads), self.grid.size))
        deviation[:, np.flatnonzero(inner)] = self.reading_deviation(loads, at.matrix, outline)
        return deviation.reshape(loads.shape)

    def reading_deviation(
        self, loads: Loads, matrix: Callable[[Grid], sparse.csr_array], outline: Sequence[LoadCase] = ()
    ) -> Float[np.ndarray, "pair sensor"]:
        """Of what sensors would read without noise; `matrix` is theirs on a grid."""
        near, solver = self.best.near, self.best.near.solver
        assert isinstance(solver, LinkSolver)
        domain, data = solver.domain, OutlineData.of(outline, solver.domain)
        known = solver.system.known
        moments = load_moments(loads, self.grid, domain, self.interpolation, split=False, known=known)
        given = 0.0 if data is None else data.given

        def solved(fit: Fit) -> tuple[Inverse, Float[np.ndarray, "unknown pair"]]:
            conductances = solver.conductances(fit.model, fit.parameters)
            factor = solver.factor(conductances)
            return factor, factor.solve(right_side(moments, data, solver.difference, conductances))

        factor, responses = solved(self.best.fit)
        drops = solver.difference @ responses - given
        at = matrix(solver.grid)
        nodes = at @ domain.to_nodes
        values = nodes @ responses + at @ (domain.from_given @ np.broadcast_to(given, drops.shape))
        green = solver.difference @ factor.solve(nodes.T.toarray())
        changes = near.changes[:, near.active]
        variance = np.zeros((len(loads), len(values)))
        for number, drop in enumerate(drops.T):
            rows = changes.T @ (green * drop[:, None])
            response = values[:, number]
            errors = self.relative_error**2 * np.mean(response**2) + (self.common_gain * response) ** 2
            variance[number] = self._summed(rows) + errors
        for other in self.others:
            variance += (nodes @ (responses - solved(other)[1])).T ** 2
        return self.widened * np.sqrt(variance)

    def reading_gains(self, candidates: Loads, queries: Loads) -> Float[np.ndarray, " candidate"]:
        """Share of the variance of the queries' readings that reading each candidate would take away.

        At some of the sensors, with the noise of the readings: tr of C_qc (C_cc + σ²)⁻¹ C_cq over tr of C_qq.
        """
        solver, problem = self.best.near.solver, self.best.problem
        assert isinstance(solver, LinkSolver)
        conductances = solver.conductances(self.best.fit.model, self.best.fit.parameters)
        factor, known = solver.factor(conductances), solver.system.known
        read = solver.sensors[:: -(-solver.sensors.shape[0] // DESIGN_SENSORS)]
        green = solver.difference @ factor.solve(read.T.toarray())
        changes = self.best.near.changes[:, self.best.near.active]

        def whitened(loads: Loads) -> Float[np.ndarray, "active reading"]:
            moments = load_moments(loads, self.grid, solver.domain, self.interpolation, split=False, known=known)
            drops = solver.difference @ factor.solve(right_side(moments, None, solver.difference, conductances))
            columns = np.hstack([changes.T @ (green * drop[:, None]) for drop in drops.T])
            return np.asarray(dense.solve_triangular(self._root, columns, lower=True, check_finite=False))

        of_queries, noise = whitened(queries), float(np.median(problem.deviation[problem.measured]))
        gains = []
        for own in np.split(whitened(candidates), len(candidates), axis=1):
            root = np.linalg.cholesky(own.T @ own + noise**2 * np.eye(own.shape[1]))
            gains.append(np.sum(dense.solve_triangular(root, own.T @ of_queries, lower=True) ** 2))
        return np.array(gains) / max(float(np.sum(of_queries**2)), 1e-300)

    def log_deviation(self) -> Float[np.ndarray, "*space"]:
        """Of log b, with the distance of other models that explain the readings."""
        points = np.stack([x.ravel() for x in self.grid.coordinates], -1)
        return self.log_deviation_at(points).reshape(self.grid.shape)

    def log_deviation_at(self, points: Float[np.ndarray, "point axis"]) -> Float[np.ndarray, " point"]:
        """The same at any points."""
        model, parameters = self.best.fit.model, self.best.fit.parameters
        return self.deviation_beside(
            model.log_variance(parameters, multilinear(model.grid, points), self._variance), points
        )

    def deviation_beside(
        self, variance: Float[np.ndarray, " point"], points: Float[np.ndarray, "point axis"]
    ) -> Float[np.ndarray, " point"]:
        """Deviation of log b, from its variance for this model, with errors of solver and model and other models."""
        variance = self.widened**2 * variance + self.relative_error**2 + self.common_gain**2
        for other in self.others:
            variance += self.difference(other, points) ** 2
        return np.sqrt(variance)

    def difference(self, other: Fit, points: Float[np.ndarray, "point axis"]) -> Float[np.ndarray, " point"]:
        """Of log b of another fit to that of the best."""
        own = self.best.fit
        return other.model.at(other.parameters, points) - own.model.at(own.parameters, points)

    def identifiable(self) -> Float[np.ndarray, "*space"]:
        """1 - posterior over prior variance of log b, the prior's that of the model or of the material itself."""
        points = np.stack([x.ravel() for x in self.grid.coordinates], -1)
        return self.identifiable_at(points).reshape(self.grid.shape)

    def identifiable_at(self, points: Float[np.ndarray, "point axis"]) -> Float[np.ndarray, " point"]:
        """The same at any points."""
        model, parameters = self.best.fit.model, self.best.fit.parameters
        prior = max(float(np.var(model.at_nodes(parameters))), getattr(model, "deviation", 0.0) ** 2, 1e-12)
        return np.clip(1 - self.log_deviation_at(points) ** 2 / prior, 0, 1)

    def _variance(self, rows: sparse.csr_array) -> Float[np.ndarray, " row"]:
        return self._summed(rows[:, self.best.near.active].T.toarray())

    def _summed(self, columns: Float[np.ndarray, "active column"]) -> Float[np.ndarray, " column"]:
        """Variance of every column's product with the parameters, with what the solver's error does to it."""
        spread = dense.solve_triangular(self._root, columns, lower=True, check_finite=False)
        return np.sum(spread**2, axis=0) + (self._shift @ columns) ** 2

    @cached_property
    def _shift(self) -> Float[np.ndarray, " active"]:
        """How far the solver's error at interfaces moves the parameters: (JᵀwJ + R)⁻¹ Jᵀw of it."""
        near, system = self.best.near, self.best.problem.fine.system
        if not (
            isinstance(self.best.fit.model, LevelSetPhases | Layers | VaryingPhases)
            and isinstance(near.solver, LinkSolver)
        ):
            return np.zeros(len(near.active))  # bands of solids are calibrated without it
        moved = near.gradient(system.weighted(self.best.solver_error))[near.active]
        return np.asarray(dense.cho_solve((self._root, True), moved, check_finite=False))

    @cached_property
    def _root(self) -> Float[np.ndarray, "active active"]:
        """Lower Cholesky factor of JᵀwJ + R."""
        return np.asarray(dense.cholesky(self.best.curvature + self.best.precision, lower=True))

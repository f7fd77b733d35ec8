"""Posterior of a fit to sensors: Cov(θ) = (JᵀwJ + R)⁻¹, carried to responses and to log b by their derivatives."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as dense
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.sparse.linalg import SuperLU
from scipy.stats import norm

from nipde.context.sensors import Sensors
from nipde.discretisation.interpolation import Interpolation, moments_on, multilinear
from nipde.estimators.inverse.material_models import Phases
from nipde.estimators.inverse.output_error import Fit
from nipde.grid import Grid

if TYPE_CHECKING:
    from nipde.estimators.inverse.sensor_inversion import Candidate

Loads = Float[np.ndarray, "pair *space"]


@dataclass(frozen=True, eq=False)
class SensorPosterior:
    """On the nodes of the data's grid."""

    best: "Candidate"
    grid: Grid
    interpolation: Interpolation
    #: Deviation of the solver's error.
    discretisation: float
    #: Deviations times this: √χ² where that is above 1.
    widened: float = 1.0
    #: Fits of other models that explain the readings, too: their distance is part of the deviation.
    others: tuple[Fit, ...] = ()

    def response_deviation(self, loads: Loads) -> Loads:
        """Of responses at unknown nodes; 0 where they are given."""
        near, solver = self.best.near, self.best.near.solver
        moments = moments_on(loads, self.grid, to=solver.grid, kind=self.interpolation, split=False)
        unknown = solver.links.unknown
        difference = solver.links.difference[:, unknown].tocsr()
        right = moments.reshape(len(loads), -1)[:, unknown].T
        responses = self._factor.solve(right)
        drops = difference @ responses
        nodes = Sensors.at_nodes(self.grid).matrix(solver.grid)[:, unknown]
        green = difference @ self._factor.solve(nodes.T.toarray())
        changes = near.changes[:, near.active]
        variance = np.zeros((len(loads), self.grid.size))
        inner = np.flatnonzero(self.grid.unknown.ravel())
        for number, drop in enumerate(drops.T):
            rows = changes.T @ (green * drop[:, None])
            variance[number, inner] = self._summed(rows) + self.discretisation**2
        for other in self.others:
            apart = responses - solver.factor(other.model, other.parameters).solve(right)
            variance[:, inner] += (nodes @ apart).T ** 2
        return self.widened * np.sqrt(variance).reshape(loads.shape)

    def log_deviation(self) -> Float[np.ndarray, "*space"]:
        """Of log b, with the distance of other models that explain the readings."""
        variance = self._own_log_deviation() ** 2
        points = np.stack([x.ravel() for x in self.grid.coordinates], -1)
        own = self.best.fit.model.at(self.best.fit.parameters, points)
        for other in self.others:
            variance += (other.model.at(other.parameters, points) - own).reshape(self.grid.shape) ** 2
        return np.sqrt(variance)

    def _own_log_deviation(self) -> Float[np.ndarray, "*space"]:
        """Where an interface may pass, the height of its step is in it."""
        model, parameters = self.best.fit.model, self.best.fit.parameters
        at = multilinear(model.grid, np.stack([x.ravel() for x in self.grid.coordinates], -1))
        _, derivative = model.log_coefficient(parameters, at)
        if not isinstance(model, Phases):
            return self.widened * np.sqrt(self._variance(derivative)).reshape(self.grid.shape)
        sets, levels = model.parts(parameters)
        size = model.grid.size
        kept = sparse.diags_array((np.arange(len(parameters)) >= model.interfaces * size).astype(float))
        variance = self._variance((derivative @ kept).tocsr())
        for number, (level_set, height) in enumerate(zip(sets, levels[1:], strict=True)):
            before, after = number * size, len(parameters) - (number + 1) * size
            rows = sparse.hstack([sparse.csr_array((at.shape[0], width)) if width else at
                                  for width in (before, 0, after)], format="csr")  # fmt: skip
            share = norm.cdf(at @ level_set / np.sqrt(self._variance(rows) + model.width**2))
            variance += height**2 * share * (1 - share)
        return self.widened * np.sqrt(variance).reshape(self.grid.shape)

    def identifiable(self) -> Float[np.ndarray, "*space"]:
        """1 - posterior over prior variance of log b, the prior's that of the model or of the material itself."""
        model, parameters = self.best.fit.model, self.best.fit.parameters
        prior = max(float(np.var(model.at_nodes(parameters))), getattr(model, "deviation", 0.0) ** 2, 1e-12)
        return np.clip(1 - self.log_deviation() ** 2 / prior, 0, 1)

    def _variance(self, rows: sparse.csr_array) -> Float[np.ndarray, " row"]:
        return self._summed(rows[:, self.best.near.active].T.toarray())

    def _summed(self, columns: Float[np.ndarray, "active column"]) -> Float[np.ndarray, " column"]:
        """Variance of every column's product with the parameters."""
        return np.sum(dense.solve_triangular(self._root, columns, lower=True, check_finite=False) ** 2, axis=0)

    @cached_property
    def _root(self) -> Float[np.ndarray, "active active"]:
        """Lower Cholesky factor of JᵀwJ + R."""
        return np.asarray(dense.cholesky(self.best.curvature + self.best.precision, lower=True))

    @cached_property
    def _factor(self) -> SuperLU:
        return self.best.near.solver.factor(self.best.fit.model, self.best.fit.parameters)

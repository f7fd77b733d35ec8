"""Posterior of a fitted smooth law on a grid as fine as one likes: the same prior, readings and estimate, low rank.

The posterior of `SensorInversion` is dense over the nodes of its material: 41² of them, and some thousand at most. Here
log b is carried to a finer grid, linearised there, and its covariance is known by products. `log_deviation` includes
what that posterior adds to its own: √χ² where it is above 1, errors of solver and model, and other models that explain
the readings. Samples and deviations of means and of responses include √χ² only.
"""

from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

import numpy as np
from jaxtyping import Float

from nipde.context.sensors import Sensors
from nipde.discretisation.domain import load_moments
from nipde.errors import KernelError
from nipde.estimators.inverse.inverse_problem import resampled
from nipde.estimators.inverse.linearised_readings import Linearised
from nipde.estimators.inverse.low_rank_posterior import SMALLEST, Fields, LowRankPosterior
from nipde.estimators.inverse.material_models import MaternField
from nipde.estimators.inverse.matern_covariance import MaternCovariance
from nipde.estimators.inverse.output_error import LinkSolver
from nipde.estimators.inverse.reading_jacobian import JacobianByGreens, jacobian_of
from nipde.estimators.inverse.sensor_posterior import SensorPosterior
from nipde.grid import Grid
from nipde.kernels.refined import RefinedLaw

#: Points around a link, per axis, of the grid that the material was fitted on; finer grids need fewer.
PER_AXIS = 3


@dataclass(frozen=True, eq=False)
class PosteriorAtSize:
    """Of log b at the nodes of `grid`."""

    fitted: SensorPosterior
    near: Linearised
    low_rank: LowRankPosterior
    #: log b.
    estimate: Float[np.ndarray, "*space"]
    #: rank, the eigenvalues left out (an estimate of their sum), and the number of solves.
    summary: dict[str, Any]

    @property
    def grid(self) -> Grid:
        """Nodes of the unknowns."""
        return self.low_rank.prior.grid

    def log_deviation(self) -> Float[np.ndarray, "*space"]:
        """Standard deviation of log b at every node."""
        points = np.stack([x.ravel() for x in self.grid.coordinates], -1)
        return self.fitted.deviation_beside(self.low_rank.variance.ravel(), points).reshape(self.grid.shape)

    def samples(self, count: int, *, seed: int) -> Fields:
        """Draws of log b."""
        return self.estimate + self.fitted.widened * self.low_rank.samples(count, seed=seed)

    def mean_deviation(self, weights: Fields) -> Float[np.ndarray, " column"]:
        """Of means of log b, weighted by functions at the nodes: 1 in a region and 0 elsewhere, say."""
        volumes = weights * self.grid.weights
        means = volumes / volumes.sum(axis=tuple(range(1, volumes.ndim)), keepdims=True)
        return self.fitted.widened * self.low_rank.deviation_of(means)

    def response_deviation(
        self, loads: Float[np.ndarray, "pair *space"], *, at: Sensors
    ) -> Float[np.ndarray, "pair sensor"]:
        """Of responses to loads on the grid of the data, anywhere: one solve per load and one per sensor."""
        solver = self.near.solver
        assert isinstance(solver, LinkSolver)
        moments = load_moments(
            loads, self.fitted.grid, solver.domain, self.fitted.interpolation, split=False, known=solver.system.known
        )
        there = solver.reading(at)
        near = replace(self.near, solver=there, drops=there.difference @ self.near.factor.solve(moments))
        jacobian, variances = JacobianByGreens(near), np.empty((len(loads), len(at)))
        for pair, sensor in np.ndindex(*variances.shape):
            unit = np.zeros((1, len(at), len(loads)))
            unit[0, sensor, pair] = 1.0
            functional = jacobian.vjp(unit).reshape(1, *self.grid.shape)
            variances[pair, sensor] = self.low_rank.deviation_of(functional)[0]
        return self.fitted.widened * variances


def posterior_at_size(
    law: RefinedLaw, *, intervals: int, smallest: float = SMALLEST, seed: int = 0
) -> PosteriorAtSize:  # fmt: skip
    """Of a smooth law from `SensorInversion`, on a grid with so many intervals (geometric mean over the axes)."""
    fitted = law.posterior
    if not (isinstance(fitted, SensorPosterior) and isinstance(fitted.best.fit.model, MaternField)):
        raise KernelError(
            expected="a smooth law of SensorInversion", got=law.summary.get("model", type(fitted).__name__),
            remedy="fit with piecewise_constant=False; phases have few unknowns, and their posterior is exact",
        )  # fmt: skip
    problem = fitted.best.problem
    before = prod(axis.intervals for axis in problem.nodes.axes) ** (1 / problem.nodes.dimension)
    nodes = resampled(problem.nodes, intervals / before)
    moved = fitted.best.fit.moved(to=nodes)
    assert isinstance(moved.model, MaternField)
    system = problem.fine.system
    per_axis = max(1, ceil(PER_AXIS * before / intervals))
    solver = LinkSolver(nodes, system, nodes=nodes, per_axis=per_axis, interpolation=fitted.interpolation)
    near = solver.linearised(moved.model, moved.parameters)
    jacobian = jacobian_of(near)
    low_rank = LowRankPosterior.of(jacobian, system, MaternCovariance(moved.model), smallest=smallest, seed=seed)
    summary = {
        "unknowns": nodes.size, "rank": low_rank.rank, "left_out": low_rank.pairs.left_out,
        "solves": jacobian.solves + near.drops.shape[1], "products": low_rank.pairs.products,
    }  # fmt: skip
    return PosteriorAtSize(fitted, near, low_rank, moved.parameters.reshape(nodes.shape), summary)

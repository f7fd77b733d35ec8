"""Posterior of log b at 41² to 1001² unknowns: low rank against exact, between grids, and what it costs.

One problem on every grid: a log-normal b (a fixed sum of waves, so the same function everywhere), ten loads at the
nodes of 41², sensors anywhere, noise of 1 % of the readings, and one Matérn prior. A Laplace approximation depends on
the state and not on the values that were read, so nothing is fitted here; `posterior-coverage` judges fits.

`tolerances`: at 41², by the eigenvalue up to which directions are left out, against the dense inverse. `grids`: every
grid in a process of its own, its cost, and the deviation at the nodes of 41², and of means over 8 × 8 patches, against
those on the others; at 10⁵ unknowns also against the formula with a matrix over all readings. Times are those of the
processor. A grid that is finished leaves a file: an interrupted run goes on.
"""

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg as dense

from benchmarks.peak_memory import status
from benchmarks.resumed import resumed
from benchmarks.timing import exponent, in_fresh_process
from nipde.context.sensors import Sensors
from nipde.estimators.inverse.linearised_readings import Linearised
from nipde.estimators.inverse.low_rank_posterior import SMALLEST, LowRankPosterior
from nipde.estimators.inverse.material_models import MaternField
from nipde.estimators.inverse.matern_covariance import MaternCovariance
from nipde.estimators.inverse.output_error import LinkSolver, SensorSystem
from nipde.estimators.inverse.reading_jacobian import ReadingJacobian, jacobian_of
from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField

SEED = 5077
#: Nodes per axis of the loads and of the coarsest grid, and of all grids.
COARSE, GRIDS, EXACT = 41, (41, 81, 161, 321, 1001), 321
SENSORS, PAIRS, NOISE, DEVIATION = 64, 10, 0.01, 0.7
TOLERANCES = (1.0, 0.1, 0.01)


@dataclass(frozen=True, eq=False)
class Problem:
    """Derivatives at the state, readings with their weights, and the prior."""

    near: Linearised
    system: SensorSystem
    prior: MaternCovariance

    @classmethod
    def on(cls, nodes: int) -> "Problem":
        """A grid of so many nodes per axis."""
        data, grid, rng = Grid.uniform(COARSE), Grid.uniform(nodes), np.random.default_rng(SEED)
        loads = GaussianField(1.0, waves=8, rms=1.0).sample(data, rng=rng, count=PAIRS)
        sensors = Sensors.at(rng.uniform(0.05, 0.95, (SENSORS, 2)))
        log = 0.5 * GaussianField(3.0, rms=1.0).sample(grid, rng=rng, count=1).ravel()
        none = np.zeros((SENSORS, PAIRS))
        system = SensorSystem(grid=data, loads=loads, sensors=sensors, values=none, weights=none)
        field = MaternField(grid, deviation=DEVIATION)
        near = LinkSolver(grid, system, nodes=grid, per_axis=1).linearised(field, log)
        noise = NOISE * float(np.sqrt(np.mean(near.predicted**2)))
        return cls(near, replace(system, weights=np.full(none.shape, noise**-2)), MaternCovariance(field))


def measure(*, quick: bool) -> dict[str, Any]:
    """All grids; `quick` ends at 10⁵ unknowns."""
    grids = GRIDS[: 1 + GRIDS.index(EXACT)] if quick else GRIDS
    measured = [resumed("posterior", str(nodes), partial(in_fresh_process, grid_row, nodes)) for nodes in grids]
    rows, coarse = [row for row, *_ in measured], {row["nodes"]: np.array(field) for row, field, _ in measured}
    means = {row["nodes"]: np.array(means) for row, _, means in measured}
    own, consistent = exact_small(), exact_small(prior_of=EXACT)
    return {
        "sensors": SENSORS, "pairs": PAIRS, "noise": NOISE, "prior_deviation": DEVIATION, "smallest": SMALLEST,
        "tolerances": tolerances(own), "grids": rows,
        "exponent": exponent([row["unknowns"] for row in rows[1:]], [row["seconds"] for row in rows[1:]]),
        "between_grids": [
            {"nodes": nodes, "against": grids[-1], **differences(field, coarse[grids[-1]]),
             "means": differences(means[nodes], means[grids[-1]])}
            for nodes, field in coarse.items() if nodes != grids[-1]
        ],
        "against_exact_coarse": {
            "nodes": EXACT, "own_prior": differences(coarse[EXACT].ravel(), own),
            "same_prior": differences(coarse[EXACT].ravel(), consistent),
        },
    }  # fmt: skip


def grid_row(nodes: int) -> tuple[dict[str, Any], list[list[float]], list[float]]:
    """Cost on one grid, and deviations at the nodes of the coarse one and of means over patches."""
    clock = [time.process_time()]
    problem = Problem.on(nodes)
    clock.append(time.process_time())
    jacobian = jacobian_of(problem.near)
    clock.append(time.process_time())
    posterior = LowRankPosterior.of(jacobian, problem.system, problem.prior)
    clock.append(time.process_time())
    deviation = posterior.deviation()
    clock.append(time.process_time())
    posterior.samples(1, seed=0)
    clock.append(time.process_time())
    parts = dict(zip(("factor", "greens", "eigenpairs", "deviation", "sample"), np.diff(clock), strict=True))
    row = {
        "nodes": nodes, "unknowns": nodes**2, "rank": posterior.rank, "products": posterior.pairs.products,
        "solves": jacobian.solves + PAIRS, "left_out": posterior.pairs.left_out,
        "seconds": clock[-1] - clock[0], "parts": {name: round(float(value), 2) for name, value in parts.items()},
        "peak_bytes": status("VmHWM"), "largest": float(deviation.max()), "least": float(deviation.min()),
    }  # fmt: skip
    step = (nodes - 1) // (COARSE - 1)
    means = [float(posterior.deviation_of(hat[None])[0]) for hat in hats(problem.prior.grid)]
    if nodes == EXACT:
        row["exact"] = differences(deviation, exact_large(problem, jacobian))
    return row, deviation[::step, ::step].tolist(), means


def exact_large(problem: Problem, jacobian: ReadingJacobian) -> np.ndarray:
    """Deviation by C - C Jᵀ (J C Jᵀ + Γ)⁻¹ J C at every node, all readings in one dense matrix."""
    prior = problem.prior
    count, space = SENSORS * PAIRS, prior.grid.shape
    rows = np.empty((count, prior.grid.size))
    for first in range(0, count, 16):
        units = np.eye(count)[first : first + 16].reshape(-1, SENSORS, PAIRS) * np.sqrt(problem.system.weights)
        rows[first : first + 16] = prior.root_transposed(jacobian.vjp(units).reshape(-1, *space)).reshape(
            len(units), -1
        )
    root = dense.cholesky(np.eye(count) + rows @ rows.T, lower=True)
    rows = dense.solve_triangular(root, rows, lower=True, overwrite_b=True)
    variance = prior.variance()
    for row in rows:
        variance -= prior.root(row.reshape(1, *space))[0] ** 2
    return np.sqrt(variance)


def tolerances(exact: np.ndarray) -> list[dict[str, Any]]:
    """Rank, products and differences at 41², by tolerance."""
    problem, rows = Problem.on(COARSE), []
    for smallest in TOLERANCES:
        posterior = LowRankPosterior.of(
            jacobian_of(problem.near), problem.system, problem.prior, smallest=smallest, seed=SEED
        )
        found = {"smallest": smallest, "rank": posterior.rank, "products": posterior.pairs.products}
        rows.append({**found, **differences(posterior.deviation().ravel(), exact)})
    return rows


def exact_small(prior_of: int | None = None) -> np.ndarray:
    """Deviation at 41² by dense inverses; with its own prior, or with that of a finer grid at its nodes."""
    problem = Problem.on(COARSE)
    if prior_of is None:
        precision = problem.prior.field.quadratic(np.zeros(COARSE**2))[0].toarray()
        return np.sqrt(np.diag(np.linalg.inv(problem.near.curvature(problem.system) + precision)))
    covariance = restricted_covariance(MaternCovariance(MaternField(Grid.uniform(prior_of), deviation=DEVIATION)))
    rows = problem.near.jacobian.reshape(COARSE**2, -1) * np.sqrt(problem.system.weights.ravel())
    across = covariance @ rows
    inner = np.eye(rows.shape[1]) + rows.T @ across
    return np.sqrt(np.diag(covariance) - np.einsum("ij,ji->i", across, np.linalg.solve(inner, across.T)))


def restricted_covariance(prior: MaternCovariance) -> np.ndarray:
    """C between the nodes of 41², of a prior on a finer grid; three quarters of it are reflections."""
    step, half, last = (prior.grid.shape[0] - 1) // (COARSE - 1), COARSE // 2 + 1, COARSE - 1
    whole = np.empty((COARSE,) * 4)
    for x, y in np.ndindex(half, half):
        unit = np.zeros((1, *prior.grid.shape))
        unit[0, step * x, step * y] = 1.0
        field = prior.root(prior.root_transposed(unit))[0, ::step, ::step]
        whole[x, y], whole[last - x, y] = field, field[::-1]
        whole[x, last - y], whole[last - x, last - y] = field[:, ::-1], field[::-1, ::-1]
    return whole.reshape(COARSE**2, -1)


def hats(grid: Grid) -> np.ndarray:
    """Weights of means over 8 × 8 patches: products of hat functions as wide as two patches."""
    centres = (np.arange(8) + 0.5) / 8
    along = [np.maximum(1 - 8 * np.abs(axis.coordinates - centres[:, None]), 0) * axis.weights for axis in grid.axes]
    weights = np.einsum("ix,jy->ijxy", *along).reshape(-1, *grid.shape)
    return weights / weights.sum(axis=(1, 2), keepdims=True)


def differences(found: np.ndarray, expected: np.ndarray) -> dict[str, float]:
    """Of deviations, as shares of the expected ones."""
    apart = found / expected - 1
    low, middle, most = (float(np.quantile(np.abs(apart), share)) for share in (0.5, 0.95, 1.0))
    return {"median": low, "of_95": middle, "largest_difference": most, "lowest": float(apart.min())}

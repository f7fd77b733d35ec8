"""Tests of residuals, without a unit: are they of the stated size, white over sensors, without a pattern, normal?

Each is a z-score: about normal if the law and the statement of the noise are right, large if not. Errors of solver and
model up to a share of the responses are tolerated: no discretisation is free of them, and bands hold them.

- `misfit`: residuals are larger than the noise.
- `whiteness`: neighbouring sensors agree. `pattern`: a sensor is off in the same way in all pairs.
- `gain`, `offset`: the residuals of a pair are in proportion to its response, or off by one number.
- `tails`: single readings far off. `proportion`: residuals grow with the response.
"""

from math import log, sqrt

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree
from scipy.stats import norm

from nipde.estimators.inverse.candidate import Candidate

Values = Float[np.ndarray, "sensor pair"]
#: Neighbours of a sensor whose residuals are multiplied with its own.
NEIGHBOURS = 4
#: Errors of solver and model that are tolerated, as a share of the responses' root mean square; log χ² may be off by
#: so much without a cause.
TOLERATED, ALLOWED = 1e-3, 0.03
#: In single readings the solver's error is larger by this: it gathers along interfaces.
SINGLE = 3.0
#: Distances, in spacings of the sensors, up to which residuals are compared; from so many sensors.
LAGS, LAGS_OF = 25, 800


def residual_scores(best: Candidate) -> dict[str, float]:
    """Of a fit, by name; 0 where there are too few readings for a test, or where its error is integrated out."""
    state, problem, measured = best.fit, best.problem, best.problem.measured
    residual = problem.residual(state.model, state.parameters) / problem.deviation
    expected = np.where(measured, problem.values / problem.deviation - residual, 0.0)
    ones = np.where(measured, 1 / problem.deviation, 0.0)
    tolerated = (TOLERATED * problem.size * ones) ** 2
    share = float(tolerated[measured].mean())
    excess = log(max(state.chi_square, 1e-9) / (best.expected + share))
    errors = tolerated + (TOLERATED * expected) ** 2
    shifted = "offset" in problem.nuisance or "level" in problem.nuisance
    alone, single = residual / np.sqrt(1 + errors), residual / np.sqrt(1 + SINGLE**2 * errors)
    return {
        "misfit": excess / sqrt(2 / problem.count + ALLOWED**2),
        "whiteness": whiteness(residual, measured, problem.places, correlation=share),
        "pattern": spread(alone.sum(1) / np.sqrt(np.maximum(measured.sum(1), 1)), measured.sum(1) > 1),
        "gain": 0.0 if "gain" in problem.nuisance else along(residual, expected, size=TOLERATED),
        "offset": 0.0 if shifted else along(residual, ones, size=TOLERATED * problem.size),
        "tails": 0.0 if "outliers" in problem.nuisance else tails(single[measured]),
        "proportion": proportion(single[measured], expected[measured]),
    }


def whiteness(
    residual: Values, measured: Values, points: Float[np.ndarray, "sensor axis"], *, correlation: float = 0.0
) -> float:
    """Products of residuals of neighbours, which have this mean at most if errors are independent."""
    if len(points) <= NEIGHBOURS:
        return 0.0
    near = np.asarray(cKDTree(points).query(points, k=NEIGHBOURS + 1)[1])[:, 1:]
    links = np.unique(np.sort(np.stack([np.repeat(np.arange(len(points)), NEIGHBOURS), near.ravel()], 1), 1), axis=0)
    both = measured[links[:, 0]] & measured[links[:, 1]]
    products = (residual[links[:, 0]] * residual[links[:, 1]])[both]
    return float(np.sum(products - correlation) / np.sqrt(max(np.sum(products**2), 1.0)))


def correlation_sum(residual: Values, measured: Values, points: Float[np.ndarray, "sensor axis"]) -> float:
    """Σ ρ over all sensors around one, by distance until it is no longer positive: the variance of a mean over n
    residuals is larger by it than 1/n. 1 for independent ones.
    """
    shown = np.flatnonzero(measured.all(axis=1))
    chosen = np.random.default_rng(0).permutation(shown)[:LAGS_OF]
    each, others = cKDTree(points[chosen]), cKDTree(points[shown])
    spacing = float(np.median(np.asarray(others.query(points[chosen], k=2)[0])[:, 1]))
    size, total = np.sqrt(np.mean(residual[shown] ** 2)), 1.0
    sizes, scaled = residual[chosen] / size, residual[shown] / size
    for lag in range(1, LAGS):
        near = each.sparse_distance_matrix(others, (lag + 0.5) * spacing, output_type="coo_matrix")
        pairs = np.stack([near.row, near.col], 1)[near.data > (lag - 0.5) * spacing]
        if not len(pairs):
            break
        correlation = float(np.mean(sizes[pairs[:, 0]] * scaled[pairs[:, 1]]))
        if correlation <= 0:
            break
        total += correlation * len(pairs) / len(chosen)
    return total


def along(residual: Values, pattern: Values, *, size: float = 0.0) -> float:
    """How large a pattern is in every pair's residuals, together; up to `size` of it is tolerated."""
    lengths = np.linalg.norm(pattern, axis=0)
    shares = np.sum(residual * pattern, axis=0) / np.maximum(lengths, 1e-300)
    return spread(shares / np.sqrt(1 + (size * lengths) ** 2), lengths > 0)


def spread(sizes: Float[np.ndarray, " size"], counts: Float[np.ndarray, " size"]) -> float:
    """Whether numbers with variance 1 have it: Wilson and Hilferty's normal score of their sum of squares."""
    kept = sizes[counts]
    if not len(kept):
        return 0.0
    part = 2 / (9 * len(kept))
    return float((np.mean(kept**2) ** (1 / 3) - (1 - part)) / np.sqrt(part))


def tails(residual: Float[np.ndarray, " reading"]) -> float:
    """Of the largest residual: the normal score of its probability among so many."""
    log_share = min(np.log(2 * len(residual)) + float(norm.logsf(np.abs(residual).max())), np.log(0.5))
    return float(norm.isf(np.exp(max(log_share, -700.0))))


def proportion(residual: Float[np.ndarray, " reading"], expected: Float[np.ndarray, " reading"]) -> float:
    """Correlation of squared residuals with the size of what was expected."""
    sizes = np.abs(expected) - np.abs(expected).mean()
    squares = residual**2 - np.mean(residual**2)
    scale = np.sqrt(np.sum(sizes**2) * np.mean(squares**2))
    return float(np.sum(sizes * squares) / scale) if scale > 0 else 0.0

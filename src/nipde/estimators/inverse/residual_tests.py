"""Tests of residuals, without a unit: are they of the stated size, white over sensors, without a pattern, normal?

Each is a z-score: about normal if the law and the statement of the noise are right, large if not.

- `whiteness`: neighbouring sensors agree. `pattern`: a sensor is off in the same way in all pairs.
- `gain`, `offset`: the residuals of a pair are in proportion to its response, or off by one number.
- `tails`: single readings far off. `proportion`: residuals grow with the response.
"""

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree
from scipy.stats import norm

from nipde.estimators.inverse.inverse_problem import InverseProblem
from nipde.estimators.inverse.output_error import Fit

Values = Float[np.ndarray, "sensor pair"]
#: Neighbours of a sensor whose residuals are multiplied with its own.
NEIGHBOURS = 4


def residual_scores(state: Fit, problem: InverseProblem) -> dict[str, float]:
    """Of a fit, by name; 0 where there are too few readings for a test."""
    measured = problem.measured
    residual = problem.residual(state.model, state.parameters) / problem.deviation
    expected = problem.values / problem.deviation - residual
    usual = np.where(measured, expected, 0.0)
    ones = np.where(measured, 1 / problem.deviation, 0.0)
    return {
        "whiteness": whiteness(residual, measured, problem.pairs.sensors.points),
        "pattern": spread(residual.sum(1) / np.sqrt(np.maximum(measured.sum(1), 1)), measured.sum(1) > 1),
        "gain": 0.0 if "gain" in problem.nuisance else along(residual, usual),
        "offset": 0.0 if "offset" in problem.nuisance else along(residual, ones),
        "tails": 0.0 if "outliers" in problem.nuisance else tails(residual[measured]),
        "proportion": proportion(residual[measured], usual[measured]),
    }


def whiteness(residual: Values, measured: Values, points: Float[np.ndarray, "sensor axis"]) -> float:
    """Products of residuals of neighbours, which have mean 0 if errors are independent."""
    if len(points) <= NEIGHBOURS:
        return 0.0
    near = np.asarray(cKDTree(points).query(points, k=NEIGHBOURS + 1)[1])[:, 1:]
    links = np.unique(np.sort(np.stack([np.repeat(np.arange(len(points)), NEIGHBOURS), near.ravel()], 1), 1), axis=0)
    both = measured[links[:, 0]] & measured[links[:, 1]]
    products = (residual[links[:, 0]] * residual[links[:, 1]])[both]
    return float(products.sum() / np.sqrt(max(np.sum(products**2), 1.0)))


def along(residual: Values, pattern: Values) -> float:
    """Sizes of a pattern in every pair's residuals, together."""
    lengths = np.linalg.norm(pattern, axis=0)
    sizes = np.sum(residual * pattern, axis=0) / np.maximum(lengths, 1e-300)
    return spread(sizes, lengths > 0)


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

"""Segmentation into phases: thresholds on log b, and the probability that a node is on its side of them."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.stats import norm

from nipde.discovery.discovery import Phases
from nipde.errors import KernelError, needing

#: Bins of the histogram for the first thresholds of more than two phases, and iterations that refine Otsu's.
BINS, ITERATIONS = 64, 20
#: Thresholding methods by their names in scikit-image; only Otsu's gives more than one threshold.
METHODS = ("otsu", "li", "isodata", "minimum", "triangle")


def phases_of(
    values: Float[ndarray, "*space"],
    *,
    deviation: Float[ndarray, "*space"],
    among: Bool[ndarray, "*space"],
    count: int = 2,
    method: str = "otsu",
) -> Phases:
    """`count` phases of b > 0; thresholds come from the nodes `among`, `deviation` is that of log b.

    A coefficient without contrast is one phase, whatever the `count`.
    """
    log = np.log(values)
    cuts = thresholds(log[among], count=count, method=method)
    labels = np.searchsorted(cuts, log)
    ends = np.array([-np.inf, *cuts, np.inf])
    width = np.maximum(deviation, np.finfo(float).tiny)
    probability = norm.cdf((ends[labels + 1] - log) / width) - norm.cdf((ends[labels] - log) / width)
    medians = tuple(float(np.exp(np.median(log[among & (labels == phase)]))) for phase in range(len(cuts) + 1))
    return Phases(method, tuple(np.exp(cuts).tolist()), labels, medians, probability)


def thresholds(log: Float[ndarray, " node"], *, count: int, method: str) -> Float[ndarray, " cut"]:
    """Increasing thresholds on log b; none where all values agree to 0.1 %."""
    check_method(count, method)
    finite = log[np.isfinite(log)]
    if count == 1 or not finite.size or np.ptp(finite) < 1e-3:
        return np.zeros(0)
    filters = _filters()
    if count > 2:
        # Fewer distinct values than phases: one phase each.
        distinct = int(np.count_nonzero(np.histogram(finite, BINS)[0]))
        cuts = np.asarray(filters.threshold_multiotsu(finite, classes=min(count, distinct), nbins=BINS))
    else:
        cuts = np.array([float(getattr(filters, f"threshold_{method}")(finite))])
    return _between_means(finite, cuts) if method == "otsu" else cuts


def check_method(count: int, method: str) -> None:
    """Raise unless the method can give so many phases."""
    if count < 1 or method not in METHODS or (count > 2 and method != "otsu"):
        raise KernelError(
            expected=f"1 or more phases by a method among {', '.join(METHODS)} (otsu for more than 2)",
            got=f"{count} by {method}", remedy="use otsu",
        )  # fmt: skip


def _between_means(log: Float[ndarray, " node"], cuts: Float[ndarray, " cut"]) -> Float[ndarray, " cut"]:
    """Otsu's thresholds of the values themselves, not of a histogram: each midway between two phase means."""
    for _ in range(ITERATIONS):
        labels = np.searchsorted(cuts, log)
        means = np.array([log[labels == phase].mean() for phase in np.unique(labels)])
        cuts = (means[1:] + means[:-1]) / 2
    return cuts


def agreement(
    labels: Int[ndarray, "*space"], truth: Int[ndarray, "*space"], *, among: Bool[ndarray, "*space"]
) -> float:
    """Share of the nodes `among` with the right phase."""
    return float(np.mean(labels[among] == truth[among]))


def _filters() -> Any:
    with needing("scikit-image", extra="report"):
        from skimage import filters
    return filters

"""The coefficient with its band, b · exp(± c · deviation(x)), and its segmentation into phases by thresholds on log b.

c is the calibrated factor of the weights, or the quantile of a normal distribution times √χ² of the misfit. The
probability of a phase is that of log b on its side of the thresholds.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.stats import norm

from nipde.discovery.discovery import Material, Phases
from nipde.errors import KernelError, needing
from nipde.kernels.base import Predictor

Field = Float[ndarray, "*space"]
#: c of a normal distribution by level, for weights without a calibration.
NORMAL = {0.5: 0.674, 0.8: 1.282, 0.9: 1.645, 0.95: 1.960}
#: Bins of the histogram for the first thresholds, and iterations that refine them.
BINS, ITERATIONS = 64, 20
#: Phases at most: the search for the first thresholds takes ten times longer with each.
MOST_PHASES = 5


def material_of(
    kernel: Predictor, *, level: float = 0.9, unit: str = "", quantity: str = "coefficient"
) -> tuple[Material, Field]:
    """The coefficient of `kernel.posterior` with its band; and the deviation of log b behind the band."""
    check_options(level=level)
    bands, posterior = kernel.bands, kernel.posterior
    if posterior is None:
        raise no_coefficient("a kernel without posterior")
    factor, widening, calibrated = NORMAL[level], posterior.widening, False
    if bands is not None and bands.material is not None:
        factor, calibrated = float(bands.material[bands.levels.index(level)]), True
        widening = posterior.widening if bands.widened else 1.0
    values, deviation, identifiable = (
        field.detach().double().cpu().numpy()
        for field in (posterior.coefficient, posterior.deviation(), posterior.identifiable())
    )
    width = np.exp(factor * widening * deviation)
    material = Material(values, values / width, values * width, level, calibrated, unit, identifiable, quantity)
    return material, factor / NORMAL[level] * widening * deviation


def no_coefficient(got: str) -> KernelError:
    """What is said where an estimator has responses only."""
    return KernelError(
        expected="weights that infer a coefficient", got=got, remedy="use output error, or weights such as darcy"
    )


def inside_only(material: Material, inside: Bool[ndarray, "*space"]) -> Material:
    """NaN outside of a specimen: there is no material."""
    values, low, high, identifiable = (
        np.where(inside, field, np.nan)
        for field in (material.values, material.low, material.high, material.identifiable)
    )
    return replace(material, values=values, low=low, high=high, identifiable=identifiable)


def phases_of(values: Field, *, deviation: Field, among: Bool[ndarray, "*space"], count: int = 2) -> Phases:
    """`count` phases of b > 0 by Otsu's method on the nodes `among`; `deviation` is that of log b. NaN stays NaN.

    A coefficient without contrast is one phase, whatever the `count`.
    """
    check_options(phases=count)
    log = np.log(values)
    cuts = _thresholds(log[among], count)
    labels = np.searchsorted(cuts, log)
    ends = np.array([-np.inf, *cuts, np.inf])
    width = np.maximum(deviation, np.finfo(float).tiny)
    probability = norm.cdf((ends[labels + 1] - log) / width) - norm.cdf((ends[labels] - log) / width)
    medians = tuple(float(np.exp(np.median(log[among & (labels == phase)]))) for phase in range(len(cuts) + 1))
    labels = np.where(np.isfinite(log), labels, np.nan) if np.isnan(log).any() else labels
    return Phases("otsu", tuple(np.exp(cuts).tolist()), labels, medians, probability)


def check_options(*, level: float = 0.9, phases: int = 2) -> None:
    """Raise unless there are bands of this level, and so many phases."""
    if level not in NORMAL:
        raise KernelError(expected=f"a level among {', '.join(map(str, NORMAL))}", got=level, remedy="use one of them")
    if not 1 <= phases <= MOST_PHASES:
        raise KernelError(expected=f"1 to {MOST_PHASES} phases", got=phases, remedy="2 is usual")


def _thresholds(log: Float[ndarray, " node"], count: int) -> Float[ndarray, " cut"]:
    """Increasing thresholds, each midway between two phase means; none where all values agree to 0.1 %."""
    finite = log[np.isfinite(log)]
    if count == 1 or not finite.size or np.ptp(finite) < 1e-3:
        return np.zeros(0)
    with needing("scikit-image", extra="report"):
        from skimage.filters import threshold_multiotsu
    # Fewer distinct values than phases: one phase each.
    distinct = int(np.count_nonzero(np.histogram(finite, BINS)[0]))
    cuts = np.asarray(threshold_multiotsu(finite, classes=min(count, distinct), nbins=BINS))
    for _ in range(ITERATIONS):
        labels = np.searchsorted(cuts, finite)
        means = np.array([finite[labels == phase].mean() for phase in np.unique(labels)])
        cuts = (means[1:] + means[:-1]) / 2
    return cuts

"""Whether held-out readings are as far from their predictions as noise and bands allow.

    Σ (r² - σ²)  against  Σ s²,   r: reading less prediction, σ: deviation of the noise, s: that of the prediction

Errors of predictions are those of one material, so their size is uncertain even where the deviation is right: twice the
variance is allowed. Of the systems in `results/reference-standard.json` whose bands hold 80 % of the responses none has
more.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch

from nipde.context.sensor_pairs import SensorPairs
from nipde.kernels.refined import RefinedKernel

#: Variance that is allowed, over that of the posterior, and deviations of the noise beyond it.
ALLOWED, DEVIATIONS = 2.0, 3.0
#: Sensors and pairs that are compared at most.
SENSORS, PAIRS = 100, 10
#: Level whose factor makes bands of deviations, and that factor for a normal distribution.
LEVEL, NORMAL = 0.9, 1.645
#: Of sums of squares over that of the readings, and of these: numbers stay finite if noise or deviation is 0.
ROUNDING, TINY = 1e-12, 1e-300


@dataclass(frozen=True)
class HeldOutCheck:
    """Of the readings of held-out pairs."""

    #: Mean square of reading less prediction, less that of the noise, over the mean variance of predictions.
    variance_ratio: float
    #: How far that is above what is allowed, in deviations of the noise.
    excess: float

    @property
    def fails(self) -> bool:
        """Whether readings are further off than noise and bands allow."""
        return not self.excess <= DEVIATIONS

    @property
    def reason(self) -> str:
        """Why the case is not covered, if it fails."""
        return (
            "held-out readings are off by more than noise and bands allow (error variance "
            f"{self.variance_ratio:.1f} times that of the bands)"
        )


def held_out_check(kernel: RefinedKernel, readings: SensorPairs) -> HeldOutCheck | None:
    """Of a fit that did not use these pairs; None where the noise is not stated, or readings have unknown errors."""
    law = kernel.laws[0]
    noise = readings.noise
    if readings.covariance is not None:
        noise = readings.covariance.diagonal().sqrt()
    if noise is None or law.summary.get("nuisance"):
        return None
    chosen = np.unique(np.linspace(0, len(readings.sensors) - 1, SENSORS).round().astype(int))
    pairs = np.unique(np.linspace(0, readings.count - 1, PAIRS).round().astype(int)).tolist()
    some = readings.take(pairs)
    loads = some.loads[:, 0].numpy()
    predicted = law.readings(loads, readings.sensors.matrix, some.outline)[:, chosen]
    deviation = law.posterior.reading_deviation(loads, lambda grid: readings.sensors.matrix(grid)[chosen], some.outline)
    deviation = deviation * float(law.bands.at(LEVEL)[0]) / NORMAL
    wide = torch.as_tensor(noise, dtype=torch.float64).broadcast_to(readings.readings.shape)[pairs].numpy()[:, chosen]
    measured = some.readings.numpy()[:, chosen]
    known = np.isfinite(measured)
    if not known.any():
        return None
    size = max(float(np.sum(measured[known] ** 2)), TINY)
    errors, noises, variances = (values[known] ** 2 / size for values in (measured - predicted, wide, deviation))
    chance = sqrt(float(np.sum(2 * noises**2 + 4 * ALLOWED * noises * variances)))
    beyond = float(np.sum(errors - noises - ALLOWED * variances))
    ratio = float(np.sum(errors - noises)) / max(float(np.sum(variances)), ROUNDING)
    return HeldOutCheck(ratio, beyond / max(chance, ROUNDING))

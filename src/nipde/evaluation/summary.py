"""Many systems in one number and how sure it is: a mean, and its 90 % interval by the bootstrap over systems.

Systems are drawn anew with replacement, as many as there are; the interval holds the middle 90 % of the means found.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

RESAMPLES = 2000
COVERAGE = 0.9


@dataclass(frozen=True)
class Mean:
    """A mean over systems, its interval, and the standard deviation of the systems themselves."""

    value: float
    low: float
    high: float
    spread: float

    def to_dict(self) -> dict[str, float]:
        """JSON form."""
        return {"mean": self.value, "low": self.low, "high": self.high, "spread": self.spread}


def mean(values: Sequence[float], *, seed: int = 0) -> Mean:
    """Over all systems."""
    return _summary(values, chosen=lambda rows: rows, seed=seed)


def worst_decile(values: Sequence[float], *, seed: int = 0) -> Mean:
    """Over the tenth of the systems with the largest values, at least one."""
    count = max(1, len(values) // 10)
    return _summary(values, chosen=lambda rows: np.sort(rows, axis=-1)[..., -count:], seed=seed)


def _summary(values: Sequence[float], *, chosen: Callable[[np.ndarray], np.ndarray], seed: int) -> Mean:
    systems: Float[np.ndarray, " system"] = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(len(systems), size=(RESAMPLES, len(systems)))
    low, high = np.quantile(chosen(systems[drawn]).mean(-1), [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    kept = chosen(systems)
    return Mean(float(kept.mean()), float(low), float(high), float(kept.std()))

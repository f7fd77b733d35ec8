"""The record of an evaluation; a mean over systems has a 90 % interval by the bootstrap over systems.

Systems are resampled with replacement, as many as there are; the interval holds the middle 90 % of the means.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

RESAMPLES = 2000
COVERAGE = 0.9


@dataclass(frozen=True)
class Mean:
    """A mean over systems, its interval, and the standard deviation of the systems themselves."""

    mean: float
    low: float
    high: float
    spread: float


@dataclass(frozen=True)
class Evaluation:
    """Errors of an estimator over systems; a measure that does not apply is None."""

    held_out: Mean
    in_context: Mean
    held_out_interior: Mean | None
    held_out_edge: Mean | None
    kernel: Mean | None
    microstructure: Mean | None
    phase_accuracy: Mean | None
    phase_accuracy_inside: Mean | None
    phase_accuracy_edge: Mean | None
    #: Held-out error of the tenth of the systems where it is largest.
    worst_decile: Mean
    #: Systems whose kernel is near no law.
    microstructure_failed: int | None
    systems: int
    pairs: int
    #: Noise of responses and loads, as shares of their rms.
    noise: float
    load_noise: float
    queries: int
    loads: str
    part: str
    seed: int
    seconds_per_system: float
    #: Digest of the archive.
    archive: str
    #: Numbers of the systems, and their held-out and in-context errors.
    per_system: dict[str, list[float]]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


def mean(values: Sequence[float], *, seed: int = 0) -> Mean:
    """Over all systems."""
    return _summary(values, selected=lambda rows: rows, seed=seed)


def worst_decile(values: Sequence[float], *, seed: int = 0) -> Mean:
    """Over the tenth of the systems with the largest values, at least one."""
    count = max(1, len(values) // 10)
    return _summary(values, selected=lambda rows: np.sort(rows, axis=-1)[..., -count:], seed=seed)


def _summary(values: Sequence[float], *, selected: Callable[[np.ndarray], np.ndarray], seed: int) -> Mean:
    systems: Float[np.ndarray, " system"] = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(len(systems), size=(RESAMPLES, len(systems)))
    low, high = np.quantile(selected(systems[drawn]).mean(-1), [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    kept = selected(systems)
    return Mean(float(kept.mean()), float(low), float(high), float(kept.std()))

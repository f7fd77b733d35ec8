"""The result of `discover`: kernel, coefficient field with bands, phases, held-out predictions, baselines, loads."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from nipde.discovery.coverage import Coverage, coverage_of
from nipde.discovery.held_out_check import HeldOutCheck
from nipde.errors import NipdeError
from nipde.kernels.base import Kernel
from nipde.measurements.measurement import Measurement

#: From this much on, a node counts as identifiable.
IDENTIFIABLE = 0.5
#: From this probability on, the phase of a node counts as certain.
CERTAIN = 0.95


@dataclass(frozen=True, eq=False)
class Material:
    """The coefficient b of -∇·(b∇u) = f, in load · length² / response, with a band."""

    values: Float[ndarray, "*space"]
    low: Float[ndarray, "*space"]
    high: Float[ndarray, "*space"]
    #: Share of nodes whose true value lies in the band, if `calibrated`: measured on systems with a known coefficient.
    level: float
    calibrated: bool
    unit: str
    #: From 0, where the pairs do not determine the coefficient, to 1, where they do.
    identifiable: Float[ndarray, "*space"]
    #: The user's own name of the coefficient, such as transmissivity.
    quantity: str = "coefficient"


@dataclass(frozen=True, eq=False)
class Phases:
    """The coefficient segmented by thresholds."""

    method: str
    thresholds: tuple[float, ...]
    #: 0, 1, …, from low to high coefficient.
    labels: Float[ndarray, "*space"]
    #: Median coefficient of every phase.
    medians: tuple[float, ...]
    #: Probability that a node belongs to its phase.
    probability: Float[ndarray, "*space"]

    @property
    def uncertain(self) -> Bool[ndarray, "*space"]:
        """Where another phase has a probability above 5 %, mostly along interfaces."""
        return np.asarray(self.probability) < CERTAIN


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Pairs that an estimate did not use, and its predictions of their responses."""

    indices: tuple[int, ...]
    loads: Float[ndarray, "pair *space"]
    measured: Float[ndarray, "pair *space"]
    predicted: Float[ndarray, "pair *space"]
    #: True where the response was measured.
    mask: Bool[ndarray, "pair *space"]
    #: Relative errors over the measured nodes.
    errors: Float[ndarray, " pair"]
    #: Whether noise and bands allow errors of this size; None where neither is known.
    check: HeldOutCheck | None = None


@dataclass(frozen=True, eq=False)
class Baseline:
    """Another estimator on the same pairs; NaN where it has no such number."""

    name: str
    values: Float[ndarray, "*space"]
    held_out_error: float
    seconds: float


@dataclass(frozen=True, eq=False)
class RecommendedLoads:
    """Loads to apply next, best first."""

    names: tuple[str, ...]
    #: Share of the remaining variance of predictions that each would remove.
    gains: Float[ndarray, " load"]
    loads: Float[ndarray, "load *space"]


@dataclass(frozen=True, eq=False)
class Discovery:
    """All results for one system."""

    measurement: Measurement
    #: Name of the estimator or its weights.
    estimator: str
    kernel: Kernel
    material: Material
    phases: Phases
    held_out: HeldOut | None
    baselines: tuple[Baseline, ...]
    recommended_loads: RecommendedLoads
    #: Versions, digests of files and weights, seconds.
    provenance: dict[str, object]

    @property
    def coverage(self) -> Coverage:
        """Whether bands and tests were measured on systems like this one, and held-out readings do not object."""
        coverage, check = coverage_of(self.kernel), self.held_out and self.held_out.check
        return Coverage((*coverage.reasons, check.reason)) if check and check.fails else coverage

    def save(self, folder: str | Path, *, dense: bool = False) -> Path:
        """Write fields, kernel, predictor, summary and report page, all or none; with `dense` the whole matrix."""
        from nipde.report.files import save

        return save(self, folder, dense=dense)


def check_text(*texts: str) -> None:
    """Raise unless all texts can be written as UTF-8."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            near = ascii(text[max(0, error.start - 40) : error.end + 40])
            raise NipdeError(expected="text in UTF-8", got=near, remedy="write it in other characters") from None

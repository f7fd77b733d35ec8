"""What was found inside: the result of `discover`, everything a page, a summary or a person wants to know."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from nipde.kernels.conditioned import ConditionedKernel
from nipde.measurements.measurement import Measurement

#: Of nodes where the pairs fix less than this much of b, nothing is said.
UNSEEN = 0.5


@dataclass(frozen=True, eq=False)
class Material:
    """The coefficient b of the law, in load · length² / response, with a band."""

    values: Float[ndarray, "*space"]
    low: Float[ndarray, "*space"]
    high: Float[ndarray, "*space"]
    #: Share of nodes whose true value lies in the band, where `calibrated` says that this was tried on other systems.
    level: float
    calibrated: bool
    unit: str
    #: 0 where the pairs say nothing about b, 1 where they fix it.
    identifiable: Float[ndarray, "*space"]


@dataclass(frozen=True, eq=False)
class Phases:
    """b cut at thresholds; what is between two is one phase."""

    method: str
    thresholds: tuple[float, ...]
    #: 0, 1, …, from low to high b.
    labels: Float[ndarray, "*space"]
    #: Median b of every phase.
    levels: tuple[float, ...]
    #: Probability that a node belongs to the phase it was given to.
    probability: Float[ndarray, "*space"]

    @property
    def uncertain(self) -> Bool[ndarray, "*space"]:
        """Where another phase has more than 5 %: mostly along the boundary."""
        return np.asarray(self.probability) < 0.95


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Pairs that were kept from a second estimate, and what it answered."""

    indices: tuple[int, ...]
    loads: Float[ndarray, "pair *space"]
    measured: Float[ndarray, "pair *space"]
    predicted: Float[ndarray, "pair *space"]
    #: True where the response was measured.
    mask: Bool[ndarray, "pair *space"]
    #: Relative errors over what was measured.
    errors: Float[ndarray, " pair"]


@dataclass(frozen=True, eq=False)
class Rival:
    """A classical method on the same pairs; NaN where it has no such number."""

    name: str
    values: Float[ndarray, "*space"]
    held_out_error: float
    seconds: float


@dataclass(frozen=True, eq=False)
class NextLoads:
    """Loads worth applying next, best first."""

    names: tuple[str, ...]
    #: Share of what is not yet known of further answers that each would remove.
    gains: Float[ndarray, " load"]
    loads: Float[ndarray, "load *space"]


@dataclass(frozen=True, eq=False)
class Discovery:
    """All of it, for one system."""

    measurement: Measurement
    weights: str
    kernel: ConditionedKernel
    material: Material
    phases: Phases
    held_out: HeldOut | None
    rivals: tuple[Rival, ...]
    next_loads: NextLoads
    #: One sentence per finding, the most important first, in plain language.
    verdict: tuple[str, ...]
    #: Versions, commands, digests of files and weights, seconds.
    provenance: dict[str, object]

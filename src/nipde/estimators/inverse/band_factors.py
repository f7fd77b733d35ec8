"""Factors of bands by stratum, measured on reference data: half width of a band over the posterior's deviation.

A stratum is what is known of a case before its truth: model, sensors, noise. `band_factors.json` is written by
`python -m benchmarks band-factors` from systems that are in no other table. What lies outside of the strata is not
covered: bands there are those of the posterior alone.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import torch
from jaxtyping import Float
from torch import Tensor

LEVELS = (0.5, 0.8, 0.9, 0.95)
#: Of the calibration systems: pairs, sensors at least, and noise as a share of the readings at most.
FEWEST_PAIRS, FEWEST_SENSORS, MOST_NOISE = 5, 20, 0.06
#: Below so many sensors they are few; noise is low below this share of the readings, and high for phases above that.
FEW, LOW, HIGH = 60, 0.003, 0.02
#: Calibration systems on shapes have at least this noise, pairs and sensors.
LEAST_NOISE, PAIRS_ON_SHAPES, SENSORS_ON_SHAPES = 0.0009, 20, 25
#: Calibration specimens that are plane solids: readings at least, and the range of their noise.
READINGS_OF_SOLIDS, NOISE_OF_SOLIDS = 180, (0.003, 0.05)
#: Of models; others are phases.
KINDS = {"smooth": "smooth", "graded": "smooth", "layers": "layers", "2 varying phases": "varying phases"}
Factors = Float[Tensor, " level"]


@dataclass(frozen=True)
class Case:
    """What is known of a fit before its truth."""

    model: str
    pairs: int
    sensors: int
    #: As a share of the readings' root mean square.
    noise: float
    #: Whether the specimen has an outline of its own.
    shape: bool = False
    #: Number of axes.
    dimension: int = 2

    @property
    def stratum(self) -> str:
        """Its name."""
        model = KINDS.get(self.model, "phases")
        sensors = "few" if self.sensors < FEW else "many"
        if self.shape:
            return f"{model}, {sensors} sensors, on a shape"
        if model in ("layers", "varying phases"):
            return f"{model}, {sensors} sensors"
        high = model == "phases" and self.noise >= HIGH
        return f"{model}, {sensors} sensors, {'low' if self.noise < LOW else 'high' if high else 'usual'} noise"

    @property
    def outside(self) -> tuple[str, ...]:
        """Why it is in no stratum; nothing if it is in one."""
        reasons, where = [], " on a specimen with an outline" if self.shape else ""
        pairs, sensors = (PAIRS_ON_SHAPES, SENSORS_ON_SHAPES) if self.shape else (FEWEST_PAIRS, FEWEST_SENSORS)
        if self.pairs < pairs:
            reasons.append(f"fewer than {pairs} pairs{where}")
        if self.sensors < sensors:
            reasons.append(f"fewer than {sensors} sensors{where}")
        if not self.noise <= MOST_NOISE:
            reasons.append(f"noise above {100 * MOST_NOISE:g} % of the readings")
        if self.shape and self.noise < LEAST_NOISE:
            reasons.append(f"noise below 0.1 % of the readings{where}")
        if self.dimension > 2:
            reasons.append("three axes: bands of output error are calibrated in the plane")
        if self.stratum not in _table():
            reasons.append("bands of output error are not calibrated for such cases yet")
        return tuple(reasons)


@dataclass(frozen=True)
class SolidCase:
    """The same of a plane solid; readings are components of displacements."""

    model: str
    readings: int
    #: As a share of the displacements' root mean square.
    noise: float

    @property
    def stratum(self) -> str:
        """Its name."""
        kinds = {"homogeneous": "one value", "smooth": "smooth", "2 phases": "phases", "3 phases": "phases"}
        return f"{kinds.get(self.model, self.model)}, solid"

    @property
    def outside(self) -> tuple[str, ...]:
        """Why it is in no stratum; nothing if it is in one."""
        least, most = NOISE_OF_SOLIDS
        reasons = []
        if self.readings < READINGS_OF_SOLIDS:
            reasons.append(f"fewer than {READINGS_OF_SOLIDS} readings of displacements")
        if not least <= self.noise <= most:
            reasons.append(f"noise not within {100 * least:g} to {100 * most:g} % of the displacements")
        if self.stratum not in _table():
            reasons.append(f"no solids of this kind, {self.model}, were calibrated")
        return tuple(reasons)


def solid_factors(case: SolidCase) -> dict[float, float] | None:
    """Of log E by level; None outside of the strata."""
    return None if case.outside else dict(zip(LEVELS, _table()[case.stratum]["material"], strict=True))


def factors_of(case: Case) -> tuple[Factors, Factors] | None:
    """Of responses and of log b, by level; None outside of the strata."""
    if case.outside:
        return None
    stratum = _table()[case.stratum]
    return torch.tensor(stratum["response"]).double(), torch.tensor(stratum["material"]).double()


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, list[float]]]:
    return dict(json.loads(files("nipde.estimators.inverse").joinpath("band_factors.json").read_text())["strata"])

"""Tests of one plane solid: loads, and the displacements that a camera saw at points."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from nipde.discretisation.parts import Specimen
from nipde.discretisation.solid_load import SolidLoad
from nipde.errors import PairsError, ShapeError

#: What ν may be where it is not known: mean and standard deviation.
UNKNOWN_POISSON = (0.3, 0.1)
#: "motion": the camera has moved between the tests. "traction": it varies along its part, by a tenth. "support": what
#: is clamped or rests on a roller slips, by a tenth of the displacements. "outliers": single points may be far off.
Uncertain = Literal["motion", "traction", "support", "outliers"]


@dataclass(frozen=True, eq=False)
class SolidTests:
    """One specimen in consistent units, such as mm and N; a displacement that is missing is NaN.

    `noise` is the standard deviation of a displacement, one number or one per reading; None if unknown. `covariance`
    is that of the errors at all points, for a noise of 1 in both components: image correlation has neighbours in
    common. `poisson` is None if it is to be found. `uncertain` names what may be off beside the noise, see `Uncertain`.
    """

    specimen: Specimen
    loads: tuple[SolidLoad, ...]
    points: Float[np.ndarray, "point 2"]
    readings: Float[np.ndarray, "pair component point"]
    noise: Any = None
    covariance: Float[np.ndarray, "point point"] | None = None
    poisson: float | None = None
    plane: Literal["stress", "strain"] = "stress"
    uncertain: tuple[Uncertain, ...] = ()
    #: Names and units for what is shown.
    labels: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_arrays(
        cls, specimen: Specimen, loads: Sequence[SolidLoad], points: Any, displacements: Any, **more: Any
    ) -> "SolidTests":
        """`points` (point, 2) and `displacements` (test, 2, point)."""
        as_float = [np.asarray(values, dtype=np.float64) for values in (points, displacements)]
        return cls(specimen, tuple(loads), as_float[0], as_float[1], **more)

    def __post_init__(self) -> None:
        wanted = (len(self.loads), 2, len(self.points))
        if self.points.ndim != 2 or self.points.shape[1] != 2 or self.readings.shape != wanted:
            raise ShapeError(
                "displacements do not fit", expected=f"(test, 2, point) = {wanted}", got=self.readings.shape,
                remedy="give x and y displacements of every point for each test",
            )  # fmt: skip
        if not np.isfinite(self.readings).any() or not np.isfinite(self.points).all():
            raise PairsError(expected="measured displacements at known points", got="none", remedy="check the file")
        outside = ~self.specimen.shape.covers(self.points)
        if outside.any():
            raise PairsError(
                expected="points inside the specimen", got=f"{outside.sum()} of {len(outside)} outside",
                remedy="leave them out, or check the units and the origin of the outline",
            )  # fmt: skip
        known = {part: self.specimen.condition(part) for part in self.specimen.shape.parts}
        for load in self.loads:
            load.check(known)
        if self.poisson is not None and not -1 < self.poisson < 0.5:
            raise PairsError(expected="-1 < Poisson's ratio < 0.5", got=self.poisson, remedy="check it")
        if self.plane not in ("stress", "strain"):
            raise PairsError(expected="plane stress or strain", got=repr(self.plane), remedy="choose one")
        if unknown := set(self.uncertain) - set(get_args(Uncertain)):
            raise PairsError(
                expected=f"among {', '.join(get_args(Uncertain))}", got=", ".join(sorted(unknown)), remedy="choose"
            )
        if self.noise is not None:
            noise = np.asarray(self.noise, dtype=np.float64)
            fits = noise.ndim <= 3 and all(a in (1, b) for a, b in zip(noise.shape[::-1], wanted[::-1], strict=False))
            if not fits or not np.all((noise > 0) & np.isfinite(noise)):
                raise PairsError(
                    expected=f"noise > 0, one number or {wanted}", got=f"shape {noise.shape}, from {noise.min():g}",
                    remedy="give its standard deviation, or None if it is not known",
                )  # fmt: skip
        if self.covariance is not None:
            self._check_covariance(self.covariance)

    def _check_covariance(self, covariance: Float[np.ndarray, "point point"]) -> None:
        if not np.isfinite(self.readings).all():
            raise PairsError(
                expected="every reading, with a covariance", got="gaps", remedy="leave out points with gaps"
            )
        if np.ndim(self.noise):
            raise PairsError(expected="one noise, with a covariance", got="several", remedy="put them into it")
        if covariance.shape != (len(self.points),) * 2 or np.linalg.eigvalsh(covariance)[0] <= 0:
            raise PairsError(
                expected=f"a positive definite covariance of {len(self.points)} points", got=covariance.shape,
                remedy="add a share of the noise to its diagonal",
            )  # fmt: skip

    @property
    def count(self) -> int:
        """Number of tests."""
        return len(self.loads)

    @property
    def origin(self) -> Float[np.ndarray, " axis"]:
        """Lower left corner of the box around the specimen."""
        return np.array(self.specimen.shape.region.bounds[:2])

    @property
    def has_force(self) -> bool:
        """Whether a force is known: without one, moduli are ratios."""
        return any(load.has_force for load in self.loads)


def subset_correlation(points: Float[np.ndarray, "point 2"], *, subset: float) -> Float[np.ndarray, "point point"]:
    """Of errors of image correlation: the share of its square subset that a point has in common with another."""
    apart = np.abs(points[:, None] - points[None])
    shares = np.clip(1 - apart / subset, 0, 1).prod(axis=-1)
    return np.asarray(shares + 1e-6 * np.eye(len(points)))

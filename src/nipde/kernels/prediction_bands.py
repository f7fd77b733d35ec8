"""Prediction bands from errors on other systems, and an outlier test for pairs that are unlike theirs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nipde.errors import KernelError

#: Why bands may not hold. Systems of most weights are solved on the grid that they compute on; no specimen is.
SAME_DISCRETISATION = (
    "the weights were calibrated on data of nipde's own solver, on the same grid; on a specimen their bands hold less"
)
NO_CALIBRATION = "the weights are not calibrated for pairs like these: gaps, noisy loads, or weights of your own"


@dataclass(frozen=True, eq=False)
class OutlierTest:
    """Whether pairs look like those of calibration: how far every number of their signature lies from the usual."""

    #: Signed distances by name, in usual deviations.
    scores: dict[str, Float[Tensor, "*batch"]]
    #: Largest distance that raises no outlier_test.
    threshold: float

    @property
    def is_outlier(self) -> Bool[Tensor, "*batch"]:
        """Whether a score is further out than the threshold, or not a number."""
        return ~(torch.stack(list(self.scores.values())).abs().amax(0) <= self.threshold)

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """All scores changed."""
        return replace(self, scores={name: change(score) for name, score in self.scores.items()})


@dataclass(frozen=True, eq=False)
class PredictionBands:
    """What errors on other systems say of this kernel's."""

    #: Shares of true values that a band may hold.
    levels: tuple[float, ...]
    #: Half width of every band over `spread`: inside, and next to Dirichlet sides.
    factors: Float[Tensor, "*batch level 2"]
    outlier_test: OutlierTest
    #: Half width of bands on log b over its deviation; None where no material is inferred, or its truth was not known.
    material: Float[Tensor, "*batch level"] | None = None
    #: Whether those factors are for a deviation that was widened by the misfit.
    widened: bool = False
    #: Why the calibration systems do not cover the kernel, as far as the calibration knows.
    not_covered: tuple[str, ...] = ()

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Factors and scores changed."""
        material = None if self.material is None else change(self.material)
        return replace(
            self, factors=change(self.factors), outlier_test=self.outlier_test.map(change), material=material
        )

    def at(self, level: float) -> Float[Tensor, "*batch 2"]:
        """The factors of a level."""
        if level not in self.levels:
            raise KernelError(
                "no band of this level", expected=f"one of {', '.join(map(str, self.levels))}", got=level,
                remedy="choose one, or calibrate for others",
            )  # fmt: skip
        return self.factors[..., self.levels.index(level), :]

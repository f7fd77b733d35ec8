"""Whether to believe a kernel: bands from errors on other systems, and an alarm where pairs are unlike theirs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nipde.errors import KernelError

#: What it usually means that a number of the signature is lower, or higher, than those of calibration.
MEANINGS = {
    "stiffness": (
        "responses far larger for their loads: other units, or a softer material",
        "responses far smaller for their loads: other units, or a stiffer material",
    ),
    "misfit": (
        "responses explained unusually well: a simpler medium, or less noise than said",
        "responses that the law does not explain: swapped axes, another law, or more noise than said",
    ),
    "contrast": ("a material more even than any seen", "phases further apart than any seen"),
}


@dataclass(frozen=True, eq=False)
class Alarm:
    """Whether pairs look like those of calibration: how far every number of their signature lies from the usual."""

    #: Signed distances by name, in usual deviations.
    scores: dict[str, Float[Tensor, "*batch"]]
    #: Largest distance that raises no alarm.
    threshold: float

    @property
    def raised(self) -> Bool[Tensor, "*batch"]:
        """Whether a score is further out than the threshold, or not a number."""
        return ~(torch.stack(list(self.scores.values())).abs().amax(0) <= self.threshold)

    def reasons(self, system: int | tuple[int, ...] = ()) -> str:
        """One sentence for people: which numbers of a system are unusual, how far, and what that usually means."""
        if self.raised[system].ndim:
            raise KernelError(
                expected="one system", got=f"a batch {tuple(self.raised.shape)}", remedy="give its number"
            )
        found = {name: float(values[system]) for name, values in self.scores.items()}
        outside = {name: score for name, score in found.items() if not abs(score) <= self.threshold}
        if not outside:
            name = max(found, key=lambda name: abs(found[name]))
            return f"Nothing unusual: {name} is furthest out, {_distance(found[name])}, within {self.threshold:.1f}."
        parts = [
            f"{name} {_distance(score)}, beyond {self.threshold:.1f} ({MEANINGS[name][int(score > 0)]})"
            for name, score in sorted(outside.items(), key=lambda entry: -abs(entry[1]))
        ]
        return f"Unlike calibration: {'; '.join(parts)}."

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """All scores changed."""
        return replace(self, scores={name: change(score) for name, score in self.scores.items()})


@dataclass(frozen=True, eq=False)
class Trust:
    """What errors on other systems say of this kernel's."""

    #: Shares of true values that a band may hold.
    levels: tuple[float, ...]
    #: Half width of every band over `spread`: inside, and next to clamped sides.
    factors: Float[Tensor, "*batch level 2"]
    alarm: Alarm
    #: Half width of bands on log b over its deviation; None where no material is inferred, or its truth was not known.
    material: Float[Tensor, "*batch level"] | None = None

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Factors and scores changed."""
        material = None if self.material is None else change(self.material)
        return replace(self, factors=change(self.factors), alarm=self.alarm.map(change), material=material)

    def at(self, level: float) -> Float[Tensor, "*batch 2"]:
        """The factors of a level."""
        if level not in self.levels:
            raise KernelError(
                "no band of this level", expected=f"one of {', '.join(map(str, self.levels))}", got=level,
                remedy="choose one, or calibrate for others",
            )  # fmt: skip
        return self.factors[..., self.levels.index(level), :]


def _distance(score: float) -> str:
    if math.isnan(score):
        return "not a number"
    return f"{abs(score):.1f} usual deviations {'above' if score > 0 else 'below'} the median"

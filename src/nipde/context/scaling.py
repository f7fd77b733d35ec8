"""Units in and out: fields are divided by their own root mean square, the kernel is multiplied back. Never a shift.

rms² = mean over pairs and components of ∫ f² dx / volume, taken from the context alone: changing the unit of a load
or a response changes nothing an estimator sees.
"""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.grid import Grid


@dataclass(frozen=True, eq=False)
class Scaling:
    """Root mean square of the loads and of the responses of every system."""

    load: Float[Tensor, "*batch"]
    response: Float[Tensor, "*batch"]

    @classmethod
    def of(cls, pairs: Pairs) -> Self:
        """The context's own; masked nodes do not count."""
        found = {}
        for name, mask in (("loads", None), ("responses", pairs.mask)):
            rms = _rms(getattr(pairs, name), pairs.grid, mask)
            if not bool((rms > 0).all()):
                raise PairsError(f"all {name} of a system are zero", expected="at least one other", got="zeros")
            found[name] = rms
        return cls(found["loads"], found["responses"])

    def normalised(self, pairs: Pairs) -> Pairs:
        """Pairs of unit root mean square."""
        return pairs.scaled(load=1 / self.load, response=1 / self.response)

    @property
    def kernel(self) -> Float[Tensor, "*batch"]:
        """What a kernel of normalised pairs is multiplied by to act on physical ones."""
        return self.response / self.load


def _rms(field: Tensor, grid: Grid, mask: Tensor | None) -> Float[Tensor, "*batch"]:
    axes = tuple(range(-grid.dimension - 2, 0))
    weights = torch.tensor(grid.weights, dtype=field.dtype, device=field.device).expand_as(field)
    if mask is not None:
        weights = weights * mask
        field = torch.where(mask, field, 0)
    return ((field * field * weights).sum(axes) / weights.sum(axes)) ** 0.5

"""Units in and out: fields are divided by their own root mean square, the kernel is multiplied back. Never a shift.

rms² = mean over pairs and components of ∫ f² dx / volume, taken from the context alone: changing the unit of a load
or a response changes nothing an estimator sees.
"""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.constants import quadrature
from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.grid import Grid
from nipde.spectral.full_precision import full_precision


@dataclass(frozen=True, eq=False)
class Scaling:
    """Root mean square of the loads and of the responses of every system."""

    load: Float[Tensor, "*batch"]
    response: Float[Tensor, "*batch"]

    @classmethod
    def of(cls, pairs: Pairs) -> Self:
        """The context's own; masked nodes do not count."""
        fields = {"loads": (pairs.loads, None), "responses": (pairs.responses, pairs.mask)}
        with full_precision(pairs.loads):
            found = {name: _root_mean_square(field, pairs.grid, mask) for name, (field, mask) in fields.items()}
            both = torch.stack(list(found.values()))
            # One question for both: an accelerator is waited for once.
            if torch.compiler.is_compiling() or bool((torch.isfinite(both) & (both > 0)).all()):
                return cls(*found.values())
            # Squares of float32 leave its range at 1e±19.
            found = {
                name: _root_mean_square(field.double(), pairs.grid, mask).to(field)
                for name, (field, mask) in fields.items()
            }
        for name, rms in found.items():
            if bool((rms == 0).any()):  # NaN is for others to name
                raise PairsError(f"all {name} of a system are zero", expected="at least one other", got="zeros")
        return cls(*found.values())

    def normalised(self, pairs: Pairs) -> Pairs:
        """Pairs of unit root mean square."""
        return pairs.scaled(load=1 / self.load, response=1 / self.response)

    @property
    def kernel(self) -> Float[Tensor, "*batch"]:
        """What a kernel of normalised pairs is multiplied by to act on physical ones."""
        return self.response / self.load


def _root_mean_square(field: Tensor, grid: Grid, mask: Tensor | None) -> Float[Tensor, "*batch"]:
    weights = quadrature(grid, like=field).flatten()  # a product with them is one pass; a broadcast would be two
    squares = field * field
    measured = field.new_full((), grid.volume)
    if mask is not None:
        squares = torch.where(mask, squares, 0)
        measured = (mask.expand_as(field).flatten(-grid.dimension).to(field) @ weights).mean((-2, -1))
    return ((squares.flatten(-grid.dimension) @ weights).mean((-2, -1)) / measured).sqrt()

"""What a law adds that is not linear in the load: u = K_θ (f + g), g a pointwise function of f, K_θ f and its slopes.

If A(u) = f is the law and K_θ = A'(0)⁻¹, then u = K_θ (f - r(u)) with r = A - A'(0) of second order: a local function
of u where A is a balance of stresses. One such step is taken from u = K_θ f. The order of pairs does not matter to it.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from nipde.estimators.conditioning.invariants import slopes_of
from nipde.grid import Grid
from nipde.kernels.fluxes import fluxes_of

#: Slopes, responses over lengths and loads over stiffness are multiplied by these before the network sees them.
SCALES = (10.0, 50.0, 1.0)
#: Numbers between the layers.
HIDDEN = 32


class QueryHead(nn.Module):
    """`fields` numbers per node tell it about the place; zero at the start."""

    def __init__(self, dimension: int, *, components: tuple[int, int], fields: int) -> None:
        super().__init__()
        out, into = components
        self.place = nn.Linear(fields, HIDDEN)
        self.inner = nn.Linear(out * (dimension + 1) + into, HIDDEN, bias=False)
        self.middle = nn.Linear(HIDDEN, HIDDEN)
        self.outer = nn.Linear(HIDDEN, (dimension + 1) * into, bias=False)
        nn.init.zeros_(self.outer.weight)

    def forward(
        self,
        grid: Grid,
        loads: Float[Tensor, "system query component *space"],
        answers: Float[Tensor, "system query component *space"],
        fields: Float[Tensor, "system field *space"],
        *,
        level: Float[Tensor, " system"],
        size: float,
    ) -> Float[Tensor, "system query component *space"]:
        """Loads to add, in the unit of loads; `level` is the stiffness on this grid, `size` the length of its box."""
        fluxes, into = fluxes_of(grid, answers), loads.shape[2]
        axes = (..., *(None,) * (grid.dimension + 2))
        unit = level[axes] * size
        seen = [SCALES[0] * slope / size for slope in slopes_of(fluxes, answers)]
        seen += [SCALES[1] * answers / size, SCALES[2] * loads / unit]
        rest = self.place(fields.movedim(1, -1)).unsqueeze(1)
        told = rest + self.inner(torch.cat(seen, 2).movedim(2, -1))
        # At rest nothing is added, whatever the network holds.
        found = self.outer(self._deep(told) - self._deep(rest)).movedim(-1, 2) * fluxes.free
        plain, stresses = found[:, :, :into], found[:, :, into:].unflatten(2, (grid.dimension, into))
        pushed = torch.stack([slopes_of(fluxes, stresses[:, :, axis])[axis] for axis in range(grid.dimension)]).sum(0)
        return (plain + 0.1 * pushed) * fluxes.free * unit

    def _deep(self, told: Tensor) -> Tensor:
        return gelu(self.middle(gelu(told)))

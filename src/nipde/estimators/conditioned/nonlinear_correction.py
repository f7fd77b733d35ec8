"""What a law adds that is not linear in the load: u = K_θ (f + g), g a pointwise function of f, K_θ f and its slopes.

If A(u) = f is the law and K_θ = A'(0)⁻¹, then u = K_θ (f - r(u)) with r = A - A'(0) of second order: a local function
of u where A is a balance of stresses. One such step is taken from u = K_θ f. The order of pairs does not matter to it.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from nipde.context.pairs import Pairs
from nipde.discretisation.tensor_links import tensor_links
from nipde.estimators.conditioned.gated_prior import GatedPrior
from nipde.estimators.conditioned.prior import PriorEstimate
from nipde.estimators.conditioned.whitening import Whitened
from nipde.grid import Grid
from nipde.kernels.nonlinear import NonlinearlyCorrectedKernel

#: Fields of a prior that the correction takes.
FIELDS = 8
#: Slopes, responses over lengths and loads over stiffness are multiplied by these before the network sees them.
SCALES = (10.0, 50.0, 1.0)
#: Numbers between the layers.
HIDDEN = 32


@dataclass(frozen=True, eq=False)
class CorrectedGatedPrior:
    """A gated prior and its nonlinear correction."""

    prior: GatedPrior
    head: "NonlinearCorrection"
    linear: bool = field(default=False, init=False)
    piecewise_constant: bool | None = field(default=None, init=False)

    def __call__(self, whitened: Whitened, pairs: Pairs) -> PriorEstimate:
        """The correction depends on the size of the box: strains have no unit."""
        kernel, fields = self.prior.with_fields(whitened)
        stiffness = whitened.stiffness_scale.to(whitened.loads)
        size = float(pairs.grid.volume) ** (1 / pairs.grid.dimension)

        def correction(loads: Tensor, responses: Tensor) -> Tensor:
            return self.head(whitened.grid, loads, responses, fields, stiffness=stiffness, size=size)

        return PriorEstimate(kernel, nonlinear=NonlinearlyCorrectedKernel(whitened.grid, kernel, correction))


class NonlinearCorrection(nn.Module):
    """A pointwise network of slopes, responses, loads and `FIELDS` fields of the prior; zero at the start."""

    def __init__(self, dimension: int, *, components: tuple[int, int]) -> None:
        super().__init__()
        out, into = components
        self.place = nn.Linear(FIELDS, HIDDEN)
        self.inner = nn.Linear(out * (dimension + 1) + into, HIDDEN, bias=False)
        self.middle = nn.Linear(HIDDEN, HIDDEN)
        self.outer = nn.Linear(HIDDEN, (dimension + 1) * into, bias=False)
        nn.init.zeros_(self.outer.weight)

    def forward(
        self,
        grid: Grid,
        loads: Float[Tensor, "system query component *space"],
        responses: Float[Tensor, "system query component *space"],
        fields: Float[Tensor, "system field *space"],
        *,
        stiffness: Float[Tensor, " system"],
        size: float,
    ) -> Float[Tensor, "system query component *space"]:
        """Loads to add, in the unit of loads; `stiffness` that of the whitened pairs, `size` the length of its box."""
        links, into = tensor_links(grid, responses), loads.shape[2]
        axes = (..., *(None,) * (grid.dimension + 2))
        unit = stiffness[axes] * size
        inputs = [SCALES[0] * slope / size for slope in links.slopes(responses)]
        inputs += [SCALES[1] * responses / size, SCALES[2] * loads / unit]
        rest = self.place(fields.movedim(1, -1)).unsqueeze(1)
        hidden = rest + self.inner(torch.cat(inputs, 2).movedim(2, -1))
        # At rest nothing is added, whatever the network holds.
        outputs = self.outer(self._deep(hidden) - self._deep(rest)).movedim(-1, 2) * links.is_unknown
        plain, stresses = outputs[:, :, :into], outputs[:, :, into:].unflatten(2, (grid.dimension, into))
        pushed = torch.stack([links.slopes(stresses[:, :, axis])[axis] for axis in range(grid.dimension)]).sum(0)
        return (plain + 0.1 * pushed) * links.is_unknown * unit

    def _deep(self, hidden: Tensor) -> Tensor:
        return gelu(self.middle(gelu(hidden)))

"""u = ∫ K f dy + u₀: a kernel and an offset. Not linear in the load unless u₀ = 0, and it says so."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from nipde.kernels.nonlinear import NonlinearPredictor


@dataclass(frozen=True, eq=False)
class AffinePredictor(NonlinearPredictor):
    """`kernel` is the linear part, `offset` the response to no load at all."""

    offset: Float[Tensor, "*batch_component_space"]

    def predict(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> Tensor:
        """Integrate, then add the offset."""
        return self.kernel.predict(loads) + self.offset.unsqueeze(-self.grid.dimension - 2)

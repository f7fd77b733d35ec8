"""u = ∫ K f dy + u₀: a kernel and an offset. Not linear in the load unless u₀ = 0, and it says so."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from nipde.kernels.base import Kernel, Predictor


@dataclass(frozen=True, eq=False)
class AffinePredictor(Predictor):
    """`kernel` is the linear part, `offset` the response to no load at all."""

    kernel: Kernel
    offset: Float[Tensor, "*batch_component_space"]

    @property
    def linear(self) -> bool:
        """No."""
        return False

    @property
    def components(self) -> tuple[int, int]:
        """Those of the kernel."""
        return self.kernel.components

    def predict(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> Tensor:
        """Integrate, then add the offset."""
        return self.kernel.predict(loads) + self.offset.unsqueeze(-self.grid.dimension - 2)

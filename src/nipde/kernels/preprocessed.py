"""u = K φ(f): a kernel that acts on a changed load. Not linear in f unless φ is, and it says so."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from nipde.kernels.nonlinear import NonlinearPredictor


@dataclass(frozen=True, eq=False)
class PreprocessedPredictor(NonlinearPredictor):
    """`change` sees loads divided by `unit`, one number per system; `kernel` is the linear part behind it."""

    change: Callable[[Tensor], Tensor]
    unit: Float[Tensor, "*batch"]

    def predict(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> Tensor:
        """Change the load, then integrate."""
        unit = self.unit[(..., *(None,) * (self.grid.dimension + 2))]
        return self.kernel.predict(self.change(loads / unit) * unit)

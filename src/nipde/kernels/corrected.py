"""Answers that are not linear in the load, corrected by what the pairs say of them: u = N(f) + Σ_j l_j ∫ r_j f."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from jaxtyping import Bool, Float
from torch import Tensor

from nipde.kernels.base import Predictor
from nipde.kernels.gated import GatedKernel
from nipde.kernels.low_rank import LowRankKernel
from nipde.kernels.nonlinear import NonlinearPredictor


@dataclass(frozen=True, eq=False)
class HeadedPredictor(NonlinearPredictor):
    """u = K (f + g(f, K f)) for the systems along one axis, g from a network; `kernel` is K."""

    kernel: GatedKernel
    head: Callable[[Tensor, Tensor], Tensor]
    #: Systems whose head is silent: their answers are those of the kernel.
    linear_only: Bool[Tensor, " system"] | None = None

    def without(self, systems: Bool[Tensor, " system"]) -> Self:
        """The same, the head of some systems silenced."""
        return replace(self, linear_only=systems)

    def predict(self, loads: Float[Tensor, "system pair component *space"]) -> Tensor:
        """Answer, see what the law adds to such an answer, answer again."""
        loads = loads.to(self.kernel.left)
        added = self.head(loads, self.kernel.predict(loads))
        if self.linear_only is not None:
            added = added.masked_fill(self.linear_only[(..., *(None,) * (self.grid.dimension + 2))], 0.0)
        return self.kernel.predict(loads + added)


@dataclass(frozen=True, eq=False)
class CorrectedPredictor(NonlinearPredictor):
    """`alone` answers without the correction; `kernel` is the linear part of `alone`, and the correction."""

    alone: Predictor
    correction: LowRankKernel
    #: Axes of the systems; `alone` has them along one.
    batch: tuple[int, ...]

    def predict(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> Tensor:
        """Both together."""
        return self.predict_with_prior(loads)[0]

    def predict_with_prior(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> tuple[Tensor, Tensor]:
        """The answer, and the one without the correction."""
        space = self.grid.dimension + 2
        flat = loads.expand(*self.batch, *loads.shape[-space:]).reshape(-1, *loads.shape[-space:])
        alone = self.alone.predict(flat)
        alone = alone.reshape(*self.batch, *alone.shape[1:])
        return alone + self.correction.predict(loads), alone

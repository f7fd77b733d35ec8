"""Predictors that stand around a kernel and are not linear in the load.

affine    u = K f + u₀            preprocessed    u = K φ(f)
nonlinear correction    u = K (f + g(f, K f))     corrected    u = N(f) + Σ_j l_j ∫ r_j f
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from jaxtyping import Bool, Float
from torch import Tensor

from nipde.grid import Grid
from nipde.kernels.base import Fields, Kernel, Predictor
from nipde.kernels.conditioned import ConditionedKernel
from nipde.kernels.gated import GatedKernel
from nipde.kernels.matrix_free import MatrixFreeKernel
from nipde.physics.elastic import ElasticBody


@dataclass(frozen=True, eq=False)
class NonlinearPredictor(Predictor, ABC):
    """`kernel` is the linear part."""

    kernel: Kernel

    @property
    def linear(self) -> bool:
        """No: there is no K with u = ∫ K f."""
        return False

    @property
    def linear_part(self) -> Kernel:
        """The kernel."""
        return self.kernel

    @property
    def components(self) -> tuple[int, int]:
        """Those of the kernel."""
        return self.kernel.components


@dataclass(frozen=True, eq=False)
class AffinePredictor(NonlinearPredictor):
    """`offset` is the response to no load at all."""

    offset: Float[Tensor, "*batch_component_space"]

    def predict(self, loads: Fields) -> Fields:
        """Integrate, then add the offset."""
        return self.kernel.predict(loads) + self.offset.unsqueeze(-self.grid.dimension - 2)


@dataclass(frozen=True, eq=False)
class PreprocessedPredictor(NonlinearPredictor):
    """`change` takes loads divided by `unit`, one number per system."""

    change: Callable[[Tensor], Tensor]
    unit: Float[Tensor, "*batch"]

    def predict(self, loads: Fields) -> Fields:
        """Change the load, then integrate."""
        unit = self.unit[(..., *(None,) * (self.grid.dimension + 2))]
        return self.kernel.predict(self.change(loads / unit) * unit)


class NonlinearPrior(NonlinearPredictor, ABC):
    """A predictor that is to be conditioned on pairs, and may turn out to explain them badly; systems on one axis."""

    kernel: MatrixFreeKernel

    @abstractmethod
    def attempt(self, loads: Float[Tensor, "system pair component *space"]) -> Tensor:
        """Responses to loads; NaN where there is none."""

    @abstractmethod
    def without(self, systems: Bool[Tensor, " system"]) -> Self:
        """The same, some systems without their nonlinear part."""


@dataclass(frozen=True, eq=False)
class NonlinearlyCorrectedKernel(NonlinearPrior):
    """u = K (f + g(f, K f)) for systems along one axis, g from a network."""

    kernel: GatedKernel
    correction: Callable[[Tensor, Tensor], Tensor]
    #: Systems without a correction.
    linear_only: Bool[Tensor, " system"] | None = None

    def without(self, systems: Bool[Tensor, " system"]) -> Self:
        """The same, some systems without their correction."""
        return replace(self, linear_only=systems)

    def attempt(self, loads: Float[Tensor, "system pair component *space"]) -> Tensor:
        """The network has a response to every load."""
        return self.predict(loads)

    def predict(self, loads: Float[Tensor, "system pair component *space"]) -> Tensor:
        """The linear response, the correction of the load at that response, the response to the corrected load."""
        loads = loads.to(self.kernel.left)
        if self.linear_only is not None and bool(self.linear_only.all()):
            return self.kernel.predict(loads)
        added = self.correction(loads, self.kernel.predict(loads))
        if self.linear_only is not None:
            added = added.masked_fill(self.linear_only[(..., *(None,) * (self.grid.dimension + 2))], 0.0)
        return self.kernel.predict(loads + added)


@dataclass(frozen=True, eq=False)
class CorrectedPredictor(NonlinearPredictor):
    """`alone` predicts without the correction of `kernel`, whose prior is the linear part of `alone`."""

    kernel: ConditionedKernel
    #: Its systems stand along one axis.
    alone: NonlinearPrior

    @property
    def body(self) -> ElasticBody | None:
        """That of `alone`."""
        return self.alone.body

    def predict(self, loads: Fields) -> Fields:
        """Both together."""
        return self.predict_with_prior(loads)[0]

    def predict_with_prior(self, loads: Fields) -> tuple[Tensor, Tensor]:
        """The responses, and those without the correction."""
        space, batch = self.grid.dimension + 2, self.kernel.batch
        flat = loads.expand(*batch, *loads.shape[-space:]).reshape(-1, *loads.shape[-space:])
        alone = self.alone.predict(flat)
        alone = alone.reshape(*batch, *alone.shape[1:])
        return alone + self.kernel.correction.predict(loads), alone

    def with_batch(self, batch: tuple[int, ...]) -> Self:
        """The same systems, their axes folded otherwise."""
        return replace(self, kernel=self.kernel.with_batch(batch))

    def stretched(self, to: Grid) -> Self:
        """The same responses to the same loads on a similar box."""
        return replace(self, grid=to, kernel=self.kernel.stretched(to))

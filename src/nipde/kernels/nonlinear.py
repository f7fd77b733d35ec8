"""Predictors that stand around a kernel and are not linear in the load: they say so, and show the kernel inside."""

from abc import ABC
from dataclasses import dataclass

from nipde.kernels.base import Kernel, Predictor


@dataclass(frozen=True, eq=False)
class NonlinearPredictor(Predictor, ABC):
    """`kernel` is the linear part."""

    kernel: Kernel

    @property
    def linear(self) -> bool:
        """No: there is no K with u = ∫ K f."""
        return False

    @property
    def components(self) -> tuple[int, int]:
        """Those of the kernel."""
        return self.kernel.components

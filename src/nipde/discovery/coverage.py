"""Whether a case is covered: bands and tests were measured on systems like it. If not, why."""

from dataclasses import dataclass

from nipde.kernels.base import Kernel
from nipde.kernels.prediction_bands import NO_CALIBRATION


@dataclass(frozen=True)
class Coverage:
    """Reasons why a case is not covered; none if it is."""

    reasons: tuple[str, ...] = ()

    @property
    def covered(self) -> bool:
        """Whether bands are known to hold for pairs like these."""
        return not self.reasons


def coverage_of(kernel: Kernel) -> Coverage:
    """By the kernel's own account of its calibration, its outlier test and the sides of its domain."""
    reasons = list(getattr(kernel, "not_calibrated", (NO_CALIBRATION,)))
    test = kernel.outlier_test
    if test is not None and bool(test.is_outlier.any()):
        reasons.append("the pairs are unlike those of the calibration systems, or the law does not explain them")
    if not all(axis.boundary.essential for axis in kernel.grid.axes):
        reasons.append("not all sides are Dirichlet boundaries, as in all calibration systems")
    return Coverage(tuple(reasons))

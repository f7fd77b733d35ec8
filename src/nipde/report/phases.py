"""Whether a coefficient is reported as phases, where the fit compared a smooth material with phases."""

from typing import Any

from nipde.discovery.discovery import Discovery
from nipde.kernels.base import Kernel
from nipde.kernels.refined import SMOOTH, RefinedKernel


def fit_summary(kernel: Kernel) -> dict[str, Any] | None:
    """How a fit by output error went; None for other kernels."""
    return kernel.laws[0].summary if isinstance(kernel, RefinedKernel) else None


def prefers_phases(discovery: Discovery) -> bool:
    """Whether the coefficient is reported as phases; not where a smooth material, or many layers, explain it better."""
    summary = fit_summary(discovery.kernel)
    several = summary is None or summary.get("layers", {}).get("phases") != 1
    return summary is None or (summary["model"] not in SMOOTH and several)

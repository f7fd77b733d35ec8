"""A system before its first load: nothing is known, and what is not known of two loads has fᵀΣg in common.

Σ and λ are the model's and do not depend on the system: loads can be chosen before there is a specimen.
"""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nipde.context.pairs import Pairs
from nipde.discovery.candidates import as_loads
from nipde.errors import KernelError
from nipde.estimators.conditioning.wavenumber import inverse_square
from nipde.grid import Grid
from nipde.kernels.conditioned import ConditionedKernel
from nipde.spectral.transform import transform


@dataclass(frozen=True, eq=False)
class Untouched:
    """Asked like a `ConditionedKernel` without pairs."""

    grid: Grid
    #: σ(k), the multipliers of Σ.
    metric: Float[Tensor, "*mode"]
    #: λ, the noise of a response in units of fᵀΣf.
    noise: Float[Tensor, ""]

    @classmethod
    def by(cls, model: nn.Module, loads: Float[Tensor, "pair component *space"], *, grid: Grid, noise: float) -> Self:
        """As a ConditionedNIPS sees it; `noise` is the sensor's, a share of the rms of responses to these loads."""
        like = next(model.parameters())
        loads = as_loads(grid, loads).to(like)
        # Stiffness cancels in λ, so that of the simplest medium will do: -Δu = f.
        waves = transform(grid)
        responses = waves.synthesis(waves.analysis(loads) * inverse_square(grid, loads))
        level = noise * float(responses.square().mean().sqrt())
        with torch.no_grad():
            kernel = model(Pairs(grid, loads, responses, noise=level))
        if not isinstance(kernel, ConditionedKernel) or kernel.seen is None:
            raise KernelError(
                expected="a model that conditions", got=type(model).__name__, remedy="use ConditionedNIPS"
            )
        return cls(grid, kernel.seen.metric, kernel.seen.noise)

    def covariance(self, first: Tensor, second: Tensor) -> Float[Tensor, "first second"]:
        """FᵀΣG."""
        waves, root = transform(self.grid), self.metric.sqrt()
        rough = [(waves.analysis(loads.to(root)) * root).flatten(1) for loads in (first, second)]
        return rough[0] @ rough[1].mT

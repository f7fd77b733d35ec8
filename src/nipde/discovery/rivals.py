"""Classical inversion of the same pairs, the law known: what a network has to be measured against."""

import time

import numpy as np
import torch

from nipde.context.pairs import Pairs
from nipde.discovery.discovery import Rival
from nipde.discovery.held_out import answered
from nipde.errors import NipdeError
from nipde.estimators.adjoint import AdjointGaussNewton
from nipde.estimators.inversion.regularisers import TotalVariation

#: Darcy's law by the adjoint method, for smooth materials and for sharp phases.
RIVALS = {
    "Tikhonov": AdjointGaussNewton(),
    "total variation": AdjointGaussNewton(regulariser=TotalVariation()),
}


def rival(name: str, context: Pairs, queries: Pairs | None) -> Rival:
    """One of `RIVALS` on the context, judged on the queries; a fit that fails is a field of NaN."""
    begun = time.perf_counter()
    exact = context.to(dtype=torch.float64)
    try:
        kernel = RIVALS[name](exact)
    except (NipdeError, ArithmeticError, np.linalg.LinAlgError):
        nothing = np.full(context.grid.shape, np.nan)
        return Rival(name, nothing, np.nan, time.perf_counter() - begun)
    seconds = time.perf_counter() - begun
    error = np.nan if queries is None else float(answered(kernel, queries.to(dtype=torch.float64), ()).errors.mean())
    assert kernel.coefficient is not None
    return Rival(name, kernel.coefficient.numpy(), error, seconds)

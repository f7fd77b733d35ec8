"""Ridge regression K = U (F W Fᵀ + λ I)⁻¹ F, λ a fixed share of the mean load energy."""

from dataclasses import dataclass

import torch

from nipde.context.pairs import Pairs
from nipde.kernels.low_rank import LowRankKernel


@dataclass(frozen=True)
class ShareRidge:
    """`share` of the mean energy of the loads."""

    share: float = 1e-3

    def __call__(self, pairs: Pairs) -> LowRankKernel:
        """One kernel per system, in the precision of the pairs."""
        pairs.refuse_mask("ShareRidge")
        grid, flat = pairs.grid, -pairs.grid.dimension - 1
        loads = pairs.loads.double().flatten(flat)
        weights = loads.new_tensor(grid.weights).flatten().repeat(pairs.components[1])
        gram = (loads * weights) @ loads.mT
        penalty = self.share * gram.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
        right = torch.linalg.solve(gram + penalty * torch.eye(pairs.count).to(gram), loads)
        return LowRankKernel(grid, pairs.responses, right.unflatten(-1, pairs.loads.shape[flat:]).to(pairs.loads))

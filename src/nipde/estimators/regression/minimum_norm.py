"""The smallest kernel that reproduces the context: min ∫∫ K² dx dy with K W F = U, hence K = U (FᵀWF)⁺ Fᵀ.

What no load has probed, it sets to zero. It scores 0 on the pairs it was given, whatever the law.
"""

from dataclasses import dataclass

import torch

from nipde.context.pairs import Pairs
from nipde.estimators.regression.matrices import columns, fields, row_weights
from nipde.kernels.low_rank import LowRankKernel


@dataclass(frozen=True)
class MinimumNorm:
    """Load directions whose singular value is below `cutoff` times the largest count as not probed.

    None is the rounding of the data: their precision times the longer side of F.
    """

    cutoff: float | None = None

    def __call__(self, pairs: Pairs) -> LowRankKernel:
        """From W^½ F = P s Qᵀ: the left fields are U Q / s, the right ones W^-½ P, orthonormal in L²."""
        pairs.refuse_mask("MinimumNorm")
        grid = pairs.grid
        loads, responses = columns(pairs.loads, grid=grid), columns(pairs.responses, grid=grid)
        root = row_weights(loads, grid=grid)[:, None] ** 0.5
        directions, values, mixing = torch.linalg.svd(root * loads, full_matrices=False)
        cutoff = torch.finfo(pairs.loads.dtype).eps * max(loads.shape[-2:]) if self.cutoff is None else self.cutoff
        probed = values > cutoff * values[..., :1]
        inverse = probed / torch.where(probed, values, 1)
        left = responses @ mixing.mT * inverse[..., None, :]
        return LowRankKernel(
            grid, fields(left, grid=grid, like=pairs.loads), fields(directions / root, grid=grid, like=pairs.loads)
        )

"""The paper's scaling, for reproduction only: (f - mean) / std with statistics of the whole training set.

It shifts as well as scales, so the predictor u = std_u K((f - mean_f) / std_f) + mean_u is affine in the load, not
linear, and depends on the units and the training set. `Scaling` is what nipde uses.
"""

from dataclasses import dataclass
from typing import Self

import torch

from nipde.context.pairs import Pairs


@dataclass(frozen=True)
class Standardisation:
    """Global mean and standard deviation of loads and responses."""

    load_mean: float
    load_std: float
    response_mean: float
    response_std: float

    @classmethod
    def of(cls, pairs: Pairs) -> Self:
        """Over all systems, pairs and nodes of the training set."""
        numbers = [
            float(found) for field in (pairs.loads, pairs.responses) for found in (field.mean(), torch.std(field))
        ]
        return cls(*numbers)

    def standardised(self, pairs: Pairs) -> Pairs:
        """Pairs of zero mean and unit standard deviation over the training set."""
        return Pairs(
            pairs.grid,
            (pairs.loads - self.load_mean) / self.load_std,
            (pairs.responses - self.response_mean) / self.response_std,
            pairs.mask,
            None if pairs.noise is None else pairs.noise / self.response_std,
        )

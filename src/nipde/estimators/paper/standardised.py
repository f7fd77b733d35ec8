"""A paper model behind the paper's scaling, for reproduction only: (f - mean) / std over the whole training set.

It shifts as well as scales, so the predictor u = std_u K((f - mean_f) / std_f) + mean_u is affine in the load, not
linear, and depends on the units and the training set. nipde itself uses `context.scaling`.
"""

from dataclasses import dataclass, replace
from typing import Self

from nipde.context.pairs import Pairs
from nipde.estimators.paper.token_model import TokenModel
from nipde.kernels.nonlinear import AffinePredictor


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
        fields = (pairs.loads, pairs.responses)
        return cls(*(float(value) for field in fields for value in (field.mean(), field.std())))

    def standardised(self, pairs: Pairs) -> Pairs:
        """Pairs of zero mean and unit standard deviation over the training set; noise is scaled only."""
        scaled = pairs.scaled(load=1 / self.load_std, response=1 / self.response_std)
        loads = (pairs.loads - self.load_mean) / self.load_std
        return replace(scaled, loads=loads, responses=(pairs.responses - self.response_mean) / self.response_std)


@dataclass(frozen=True)
class Standardised:
    """`model` sees (f - mean) / std of the training set instead of the context's own root mean square."""

    model: TokenModel
    statistics: Standardisation

    def __call__(self, pairs: Pairs) -> AffinePredictor:
        """u = std_u K((f - mean_f) / std_f) + mean_u, in physical units."""
        known = self.statistics
        kernel = self.model.kernel_of(known.standardised(pairs)) * (known.response_std / known.load_std)
        shift = known.load_mean * kernel.row_integral()
        return AffinePredictor(pairs.grid, kernel, known.response_mean - shift)

"""A paper model behind the paper's global mean/std scaling: reproduction only, its predictor is affine in the load."""

from dataclasses import dataclass

from nipde.context.pairs import Pairs
from nipde.context.standardisation import Standardisation
from nipde.estimators.token_model import TokenModel
from nipde.kernels.affine import AffinePredictor


@dataclass(frozen=True)
class Standardised:
    """`model` sees (f - mean) / std of the training set instead of the context's own root mean square."""

    model: TokenModel
    statistics: Standardisation

    def __call__(self, pairs: Pairs) -> AffinePredictor:
        """u = std_u K((f - mean_f) / std_f) + mean_u, in physical units."""
        known = self.statistics
        kernel = self.model.kernel_of(known.standardised(pairs)) * (known.response_std / known.load_std)
        answer = known.load_mean * kernel.row_integral()
        return AffinePredictor(pairs.grid, kernel, known.response_mean - answer)

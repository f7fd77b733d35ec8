"""Classical inversion of the same pairs with the law known: baselines for `discover`."""

from nipde.estimators.base import Estimator
from nipde.estimators.inverse.adjoint import AdjointGaussNewton
from nipde.estimators.inverse.regularisers import TotalVariation

#: Darcy's law by the adjoint method, for smooth and for piecewise-constant coefficients.
BASELINES: dict[str, Estimator] = {
    "Tikhonov": AdjointGaussNewton(),
    "total variation": AdjointGaussNewton(regulariser=TotalVariation()),
}

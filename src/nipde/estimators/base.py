"""One contract: an estimator maps Pairs to a Kernel, in one pass, in physical units."""

from typing import Protocol

from nipde.context.pairs import Pairs
from nipde.kernels.base import Predictor


class Estimator(Protocol):
    """Anything that turns pairs into something that answers loads; a Kernel unless its docstring says otherwise."""

    def __call__(self, pairs: Pairs) -> Predictor:
        """The kernel of the system that made the pairs; batch axes of the pairs are batch axes of the kernel."""

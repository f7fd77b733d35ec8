"""What an estimator sees: pairs of loads and responses, and their units."""

from nipde.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"Pairs": "pairs", "Sampler": "sampling", "with_white_noise": "noise"})

"""Kernels: linear operators on a grid, (K f)(x) = ∫ K(x, y) f(y) dy; no N × N matrix unless asked for."""

from nipde.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "ConditionedKernel": "conditioned",
        "DenseKernel": "dense",
        "Kernel": "base",
        "LawKernel": "law",
        "LowRankKernel": "low_rank",
    },
)

"""Hidden field and load in, response out: float64 solvers that everything else is measured against."""

from nipde.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "AdvectionDiffusion": "advection",
        "CellwiseBody": "bodies",
        "Darcy": "darcy",
        "GaussianField": "random_fields",
        "NeoHookean": "bodies",
        "TwoPhase": "random_fields",
        "TwoSegmentTissue": "bodies",
    },
)

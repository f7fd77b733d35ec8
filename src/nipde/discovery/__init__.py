"""Material identification and design of loads: reads kernels, whatever estimator they come from."""

from nipde.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"Discovery": "discovery", "wave_loads": "candidates"})

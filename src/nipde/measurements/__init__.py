"""People's own files to Pairs: parsed in a child process, units never guessed, gaps masked, the reading said aloud."""

from nipde.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__, {"Measurement": "measurement", "sample": "samples", "sample_truth": "samples"}
)

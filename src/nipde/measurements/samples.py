"""A measurement that comes with the package: a membrane -∇·(b∇w) = q of two tensions b, pressed 20 times.

Deflections w come from finite elements eight times finer than their grid, with noise of 1 % of their root mean square,
and every twentieth is missing. b is kept in a file beside them, for comparison only.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from nipde.errors import MeasurementError

FOLDER = Path(__file__).with_name("samples")


def sample(name: str = "membrane") -> Path:
    """Path of a bundled measurement, to be read with `nipde.read`."""
    path = FOLDER / f"{name}.npz"
    if not path.is_file():
        known = sorted(one.stem for one in FOLDER.glob("*.npz") if not one.stem.endswith("_truth"))
        raise MeasurementError("sample", expected=f"one of {', '.join(known)}", got=repr(name), remedy="name one")
    return path


def sample_truth(name: str = "membrane", *, cells: bool = False) -> Float[np.ndarray, "*space"]:
    """The coefficient that a bundled measurement was made with, in the unit `Units.coefficient` of its reading.

    At the nodes, or in the cells of the finer mesh.
    """
    with np.load(sample(name).with_name(f"{name}_truth.npz"), allow_pickle=False) as stored:
        return np.asarray(stored["cells" if cells else "b"], dtype=np.float64)

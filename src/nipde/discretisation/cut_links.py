"""Links of a specimen's cells, and what these hold of its outline."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float, Int

from nipde.discretisation.links import OnLinks


@dataclass(frozen=True, eq=False)
class Pieces:
    """What every cell holds of the parts of the outline that are not Dirichlet."""

    cell: Int[np.ndarray, " piece"]
    part: tuple[str, ...]
    #: An area over three axes.
    length: Float[np.ndarray, " piece"]
    middle: Float[np.ndarray, "piece axis"]
    #: Unit vectors out of the specimen.
    normal: Float[np.ndarray, "piece axis"]


@dataclass(frozen=True, eq=False)
class CutLinks:
    """From a cell to another one, or to the outline: `second` is then -1 - the number of the part."""

    first: Int[np.ndarray, " link"]
    second: Int[np.ndarray, " link"]
    area: OnLinks
    length: OnLinks
    contact: OnLinks
    #: From the first cell's node along the link, and across its face: one direction, or two over three axes.
    along: Float[np.ndarray, "link axis"]
    across: Float[np.ndarray, "link direction axis"]

    @classmethod
    def joined(cls, links: Iterable["CutLinks"]) -> "CutLinks":
        """One after the other."""
        each = [[getattr(one, field.name) for field in fields(cls)] for one in links]
        return cls(*(np.concatenate(arrays) for arrays in zip(*each, strict=True)))

"""Pairs at points, before they reach a grid."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float


@dataclass(frozen=True, eq=False)
class PointData:
    """Pairs measured at the same points, as one file or one part of a long table holds them."""

    points: Float[np.ndarray, "point axis"]
    response: Float[np.ndarray, "pair component point"]
    valid: Bool[np.ndarray, "pair component point"]
    load: Float[np.ndarray, "pair component point"] | None = None

    def at(self, points: Bool[np.ndarray, " point"]) -> "PointData":
        """At some of the points."""
        load = None if self.load is None else self.load[..., points]
        return PointData(self.points[points], self.response[..., points], self.valid[..., points], load)

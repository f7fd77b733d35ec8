"""A specimen with the same outline at every height: a core, a block, a plate with a hole that is not thin.

Heights are along the third axis. Parts are those of the outline, and the two ends, "back" and "front".
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from jaxtyping import Bool, Float
from shapely.geometry.base import BaseGeometry

from nipde.errors import GridError
from nipde.grid import Grid
from nipde.shape import ON, Points, Shape

#: Parts at the lower and the upper end.
BACK, FRONT = ENDS = "back", "front"


@dataclass(frozen=True, eq=False)
class Prism(Shape):
    """A plane shape between two heights."""

    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not -np.inf < self.low < self.high < np.inf:
            raise GridError(
                expected="two heights, the lower one first", got=(self.low, self.high), remedy="give low < high"
            )
        if taken := set(ENDS) & set(self.base.parts):
            raise GridError(
                expected="an outline without the parts back and front", got=", ".join(sorted(taken)),
                remedy="name them otherwise: these are the ends",
            )  # fmt: skip

    @classmethod
    def over(cls, base: Shape, *, low: float, high: float) -> Self:
        """Of a plane shape."""
        return cls(base.rings, base.sides, float(low), float(high))

    @cached_property
    def base(self) -> Shape:
        """The plane shape."""
        return Shape(self.rings, self.sides)

    @cached_property
    def parts(self) -> dict[str, BaseGeometry]:
        """Lines of the outline by name, and the ends."""
        return {**self.base.parts, **dict.fromkeys(ENDS, self.region)}

    @property
    def scale(self) -> float:
        """A length of the specimen's size."""
        return float((self.region.area * (self.high - self.low)) ** (1 / 3))

    def contains(self, points: Points) -> Bool[np.ndarray, " point"]:
        """Whether points lie inside."""
        return super().contains(points) & (points[:, 2] > self.low) & (points[:, 2] < self.high)

    def covers(self, points: Points) -> Bool[np.ndarray, " point"]:
        """Whether points lie inside or on the surface, to rounding."""
        points = np.asarray(points)
        return super().covers(points[:, :2]) & self._between(points[:, 2])

    def holds_nodes(self, grid: Grid) -> Bool[np.ndarray, "*space"]:
        """Whether nodes of a grid lie inside or on the surface."""
        plane = self.base.holds_nodes(Grid(grid.axes[:2]))
        return np.logical_and.outer(plane, self._between(grid.axes[2].coordinates))

    def transformed(
        self, *, scale: tuple[float, ...] = (1.0, 1.0, 1.0), shift: tuple[float, ...] = (0.0, 0.0, 0.0)
    ) -> Self:
        """In other units of length, or measured from another origin."""
        base = self.base.transformed(scale=scale[:2], shift=shift[:2])
        low, high = (height * scale[2] + shift[2] for height in (self.low, self.high))
        return self.over(base, low=low, high=high)

    def _between(self, heights: Float[np.ndarray, " point"]) -> Bool[np.ndarray, " point"]:
        slack = ON * self.scale
        return (heights >= self.low - slack) & (heights <= self.high + slack)

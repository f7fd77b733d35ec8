"""Fibres of a body in two segments: the line through its centre that separates them, and the direction in each.

    max over θ of |Σ_one side k exp(2iα)| + |Σ_other side k exp(2iα)|

Fibres along α and α + π are the same; the directions are those of the two sums.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.physics.bodies import CellwiseBody

#: Number of lines, half a degree apart.
LINES = 360


@dataclass(frozen=True)
class Segments:
    """Angles in radians from the x axis, all modulo π; the first where -sin θ (x - x₀) + cos θ (y - y₀) >= 0."""

    angles: tuple[float, float]
    line: float


def two_segments(body: CellwiseBody) -> Segments:
    """The two segments that fit the fibres of a body best."""
    points = body.mesh.points.mean(1)
    x, y = (points[:, axis] - body.grid.axes[axis].length / 2 for axis in (0, 1))
    moment = body.fibre_moment.reshape(-1)
    lines = np.arange(LINES) * np.pi / LINES
    first = (-np.sin(lines)[:, None] * x + np.cos(lines)[:, None] * y >= 0).astype(float)
    sums = np.stack([first @ moment, (1 - first) @ moment])
    # Of lines that separate equally well, the middle one: the grid does not resolve them.
    total = np.abs(sums).sum(0)
    best = _middle(total >= total.max() * (1 - 1e-6))
    one, other = (float(np.angle(value) / 2 % np.pi) for value in sums[:, best])
    return Segments((one, other), float(lines[best]))


def angle_between(first: float, second: float) -> float:
    """Between two directions, 0 to π/2."""
    apart = abs(first - second) % np.pi
    return float(min(apart, np.pi - apart))


def _middle(mask: Float[np.ndarray, " line"]) -> int:
    """The middle of the true entries of a mask along a circle."""
    circle = np.exp(2j * np.pi * np.arange(len(mask)) / len(mask))
    centre = np.angle(circle[mask].sum()) / (2 * np.pi) * len(mask)
    return round(float(centre)) % len(mask)

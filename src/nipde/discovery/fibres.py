"""Fibres of a body in two segments: the line through its centre beyond which they run otherwise, and both directions.

    max over θ of |Σ_one side k exp(2iα)| + |Σ_other side k exp(2iα)|

Fibres along α and α + π are the same; directions are those of the two sums.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.physics.cellwise import CellwiseBody

#: Lines tried, half a degree apart.
LINES = 360


@dataclass(frozen=True)
class Segments:
    """Angles in radians from the x axis, all modulo π; the first where -sin θ (x - x₀) + cos θ (y - y₀) >= 0."""

    angles: tuple[float, float]
    line: float


def two_segments(body: CellwiseBody) -> Segments:
    """The segments that explain the fibres of a body best."""
    points = body.mesh.points.mean(1)
    x, y = (points[:, axis] - body.grid.axes[axis].length / 2 for axis in (0, 1))
    moment = body.fibre_moment.reshape(-1)
    lines = np.arange(LINES) * np.pi / LINES
    first = (-np.sin(lines)[:, None] * x + np.cos(lines)[:, None] * y >= 0).astype(float)
    sums = np.stack([first @ moment, (1 - first) @ moment])
    # Of lines that separate equally well, the middle one: the grid tells them no better.
    total = np.abs(sums).sum(0)
    best = _middle(total >= total.max() * (1 - 1e-6))
    one, other = (float(np.angle(value) / 2 % np.pi) for value in sums[:, best])
    return Segments((one, other), float(lines[best]))


def angle_between(first: float, second: float) -> float:
    """Between two directions, 0 to π/2."""
    apart = abs(first - second) % np.pi
    return float(min(apart, np.pi - apart))


def _middle(chosen: Float[np.ndarray, " line"]) -> int:
    """Of the places of a circle that are true, one in their middle."""
    turns = np.exp(2j * np.pi * np.arange(len(chosen)) / len(chosen))
    centre = np.angle(turns[chosen].sum()) / (2 * np.pi) * len(chosen)
    return round(float(centre)) % len(chosen)

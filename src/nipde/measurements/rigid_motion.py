"""Rigid motion of a specimen, by least squares over measured points: what a camera sees and no load explains.

In the plane: u = t - θ y, v = s + θ x, θ small. Of one component: w = a + b x + c y.
"""

import numpy as np
from jaxtyping import Bool, Float

from nipde.errors import MeasurementError
from nipde.grid import AXES, Grid


def remove_rigid_motion(
    responses: Float[np.ndarray, "pair component *space"],
    mask: Bool[np.ndarray, "pair component *space"],
    grid: Grid,
) -> tuple[Float[np.ndarray, "pair component *space"], Float[np.ndarray, "pair motion"]]:
    """Responses without it, 0 where nothing was measured; and its numbers, positions from the first node."""
    components = responses.shape[1]
    motions = _motions(grid, components)
    cleaned, numbers = np.zeros_like(responses), []
    for pair, (values, there) in enumerate(zip(responses, mask, strict=True)):
        columns = motions[:, there].T
        if len(columns) < 2 * len(motions):
            raise MeasurementError(
                f"rigid motion of pair {pair + 1}", expected=f"at least {2 * len(motions)} measured values",
                got=len(columns), remedy="leave rigid_motion off",
            )  # fmt: skip
        found = np.linalg.lstsq(columns, values[there], rcond=None)[0]
        cleaned[pair][there] = values[there] - columns @ found
        numbers.append(found)
    return cleaned, np.array(numbers)


def motion_names(grid: Grid, components: int) -> tuple[str, ...]:
    """What the numbers of a motion are."""
    axes = AXES[: grid.dimension]
    if components == 1:
        return ("shift", *(f"slope along {axis}" for axis in axes))
    turns = [f"{a}{b}" for place, a in enumerate(axes) for b in axes[place + 1 :]]
    return (*(f"shift along {axis}" for axis in axes), *(f"rotation {turn}" for turn in turns))


def _motions(grid: Grid, components: int) -> Float[np.ndarray, "motion component *space"]:
    x, one = grid.coordinates, np.ones(grid.shape)
    if components == 1:
        return np.stack([one, *x])[:, None]
    if components != grid.dimension:
        raise MeasurementError(
            "rigid motion", expected=f"1 or {grid.dimension} components", got=components,
            remedy="leave rigid_motion off",
        )  # fmt: skip
    motions = []
    for axis in range(grid.dimension):
        shift = np.zeros((components, *grid.shape))
        shift[axis] = one
        motions.append(shift)
    for a in range(grid.dimension):
        for b in range(a + 1, grid.dimension):
            turn = np.zeros((components, *grid.shape))
            turn[a], turn[b] = -x[b], x[a]
            motions.append(turn)
    return np.stack(motions)

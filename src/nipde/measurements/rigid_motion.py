"""Rigid motion of a specimen, by least squares over measured points: what a camera sees and no load explains.

In the plane: u = t - θ y, v = s + θ x, θ small. Of one component: w = a + b x + c y.
"""

from dataclasses import replace
from itertools import combinations

import numpy as np
from jaxtyping import Float

from nipde.errors import MeasurementError
from nipde.grid import AXES, Grid
from nipde.measurements.gridding import Gridded
from nipde.measurements.measurement import Note
from nipde.measurements.units import Units


def remove_rigid_motion(data: Gridded, units: Units) -> tuple[Gridded, list[Note]]:
    """Responses without it, 0 where nothing was measured; the note says how large it was."""
    motions = rigid_motions(data.grid, data.response.shape[1])
    fields = np.stack(list(motions.values()))
    amounts = fit(data, fields)
    rest = data.response - np.tensordot(amounts, fields, axes=1)
    sizes = zip(motions, np.abs(amounts).max(axis=0), strict=True)
    largest = ", ".join(f"{name} {size:.3g}" for name, size in sizes)
    text = f"Rigid motion removed; at most {largest} (in {units.response}, per {units.length})."
    return replace(data, response=np.where(data.mask, rest, 0.0)), [Note("reading", text)]


def fit(data: Gridded, fields: Float[np.ndarray, "motion component *space"]) -> Float[np.ndarray, "pair motion"]:
    """How much of each motion is in each response, by least squares over measured nodes."""
    amounts = []
    for pair, (values, mask) in enumerate(zip(data.response, data.mask, strict=True), start=1):
        if (count := int(mask.sum())) < 2 * len(fields):
            raise MeasurementError(
                f"rigid motion of pair {pair}", expected=f"at least {2 * len(fields)} measured values", got=count,
                remedy="leave rigid_motion off",
            )  # fmt: skip
        amounts.append(np.linalg.lstsq(fields[:, mask].T, values[mask], rcond=None)[0])
    return np.array(amounts)


def rigid_motions(grid: Grid, components: int) -> dict[str, Float[np.ndarray, "component *space"]]:
    """Fields of unit motions by name, positions from the first node."""
    x, one = grid.coordinates, np.ones(grid.shape)
    if components == 1:
        return {
            "shift": one[None],
            **{f"slope along {axis}": along[None] for axis, along in zip(AXES, x, strict=False)},
        }
    if components != grid.dimension:
        raise MeasurementError(
            "rigid motion", expected=f"1 or {grid.dimension} components", got=components,
            remedy="leave rigid_motion off",
        )  # fmt: skip
    motions = {f"shift along {AXES[a]}": np.zeros((components, *grid.shape)) for a in range(components)}
    for a, shift in enumerate(motions.values()):
        shift[a] = one
    for a, b in combinations(range(components), 2):
        rotation = np.zeros((components, *grid.shape))
        rotation[a], rotation[b] = -x[b], x[a]
        motions[f"rotation {AXES[a]}{AXES[b]}"] = rotation
    return motions

"""A field of three axes as three planes through a node, x-y, x-z and y-z, on one colour scale."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from nipde.grid import AXES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

#: Axes along and up each plane.
PLANES = ((0, 1), (0, 2), (1, 2))


def draw_planes(
    places: Sequence["Axes"], field: Float[ndarray, "x y z"], positions: Sequence[Float[ndarray, " node"]], *,
    at: tuple[int, ...], unit: str = "", scale: dict[str, Any],
) -> "QuadMesh":  # fmt: skip
    """Draw into three places, and return what a colour bar needs; `scale` are colour map and limits, for all alike.

    `unit` is that of the positions, with what stands before it.
    """
    for place, (along, upwards) in zip(places, PLANES, strict=True):
        (across,) = {0, 1, 2} - {along, upwards}
        plane = np.take(field, at[across], axis=across)
        mesh = place.pcolormesh(
            positions[along], positions[upwards], plane.T, shading="nearest", rasterized=True, **scale
        )
        place.set_title(f"{AXES[across]} = {positions[across][at[across]]:.4g}{unit}", fontsize=9)
        place.set(xlabel=AXES[along], ylabel=AXES[upwards], aspect="equal")
    return mesh

"""Two axes or three, where the description does not say: three if some (x, y) of a file has more than one z."""

from dataclasses import replace
from itertools import permutations

import numpy as np

from nipde.errors import MeasurementError
from nipde.grid import AXES
from nipde.measurements.description import Description
from nipde.measurements.measurement import Note
from nipde.measurements.name import CAMERAS
from nipde.measurements.parse import Raw


def with_axes_of(raw: Raw, description: Description) -> tuple[Description, list[Note]]:
    """The description with coordinates x, y, z if the file has a third axis; as it is where axes are stated.

    Cameras see a surface, whose height is no axis.
    """
    names = [next((name for name in (axis, axis.upper()) if name in raw.arrays), "") for axis in AXES]
    notes, taken = [], {*description.response, *description.load}
    if raw.format not in CAMERAS and not description.axes_stated and all(names) and not taken & set(names):
        x, y, z = (raw.arrays[name] for name in names)
        if _are_vectors(x, y, z, raw) or _fill_space(x, y, z, raw.arrays.get(description.pair)):
            description = replace(description, coordinates=tuple(names))
        elif z.shape == x.shape and np.nanmax(z) > np.nanmin(z):
            text = "no two points differ in z alone: left out. If it is an axis: coordinates = "
            notes = [Note("warning", text + '["x", "y", "z"].', (raw.path.name, names[2]))]
    if description.outline is not None and description.dimension == 1:
        raise MeasurementError("outline", expected="two axes or three", got="one", remedy="leave out the outline")
    return description, notes


def _are_vectors(x: np.ndarray, y: np.ndarray, z: np.ndarray, raw: Raw) -> bool:
    """Whether some array runs over them; without an axis of pairs in the order x, y, z or back."""
    if any(one.size != max(one.shape) for one in (x, y, z)):
        return False
    sizes = x.size, y.size, z.size
    orders: dict[int, list[tuple[int, ...]]] = {3: [sizes, sizes[::-1]], 4: list(permutations(sizes))}
    return any(array.shape[-3:] in orders.get(min(array.ndim, 4), []) for array in raw.arrays.values())


def _fill_space(x: np.ndarray, y: np.ndarray, z: np.ndarray, pair: np.ndarray | None) -> bool:
    """Whether some points of a pair share x and y, but not z."""
    if not x.shape == y.shape == z.shape:
        return False
    number = pair if pair is not None and pair.shape == x.shape else np.zeros(x.shape)
    points = np.stack([one.ravel() for one in (number, x, y, z)], axis=1)
    points = points[np.isfinite(points).all(axis=1)]
    return len(np.unique(points, axis=0)) > len(np.unique(points[:, :3], axis=0))

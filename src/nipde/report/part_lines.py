"""How parts of an outline are drawn: lines by their condition, labels, data; and colours of what is measured."""

from typing import Any

import numpy as np
import shapely
from jaxtyping import Float
from shapely.geometry.base import BaseGeometry

from nipde.measurements.measurement import Measurement
from nipde.shape import Shape

#: Line of a part by its condition: colour and width.
LINES = {"Dirichlet": ("#0b3c8c", 3.0), "Robin": ("#b35900", 3.0), "Neumann": ("#666666", 1.4)}


def data_of(measurement: Measurement, part: str, pair: int) -> str:
    """What acts on a part in one test, with what stands before it; empty if nothing is said of it."""
    readings = measurement.readings
    case = readings.outline[pair] if readings is not None and readings.outline else None
    given = None if case is None else case.fluxes.get(part, case.values.get(part))
    return "" if given is None else ": varies" if callable(given) else f": {given:.4g}"


def signed_colours(values: Float[np.ndarray, " value"]) -> dict[str, Any]:
    """Colour map and limits: around 0 where both signs occur."""
    from cmcrameri import cm

    limit = float(np.abs(values).max(initial=0.0))
    around = bool(values.size) and float(values.min()) < 0
    return {"cmap": cm.vik if around else cm.batlow, "vmin": -limit if around else 0.0, "vmax": limit}


def label_position(shape: Shape, line: BaseGeometry) -> tuple[np.ndarray, bool]:
    """Position of a part's label, outside at its middle or in a hole; and whether it is written vertically."""
    if line.is_ring and not line.equals(shape.region.exterior):
        return np.array(line.centroid.coords[0]), False
    longest = max(shapely.get_parts(line), key=shapely.length)
    ends = shapely.get_coordinates(shapely.line_interpolate_point([longest] * 3, [0.495, 0.5, 0.505], normalized=True))
    along = ends[2] - ends[0]
    normal = np.array([along[1], -along[0]]) / np.linalg.norm(along)
    step = 0.075 * shape.scale
    outside = -normal if shape.contains((ends[1] + 0.2 * step * normal)[None])[0] else normal
    return ends[1] + step * outside, bool(abs(outside[0]) > abs(outside[1]))

"""Readings at scattered points, as sensors: what `gridding` interpolates to nodes for estimators that need a field."""

from collections.abc import Sequence

import numpy as np
import torch

from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import Specimen
from nipde.errors import MeasurementError
from nipde.measurements.gridding import Gridded
from nipde.measurements.point_data import PointData


def readings_at_points(
    data: Sequence[PointData], pairs: Pairs, gridded: Gridded, specimen: Specimen | None = None,
    outline: tuple[LoadCase, ...] = (),
) -> SensorPairs | None:  # fmt: skip
    """What was measured at scattered points inside the box, one component; None where points are nodes of a box."""
    if specimen is None and (not gridded.interpolated or pairs.components != (1, 1)):
        return None
    if pairs.components != (1, 1):
        raise MeasurementError(
            "outline", expected="one component of load and response", got=pairs.components,
            remedy="leave out the outline: vectors are measured on a box so far",
        )  # fmt: skip
    points = np.concatenate([one.points for one in data])
    places, number_of = np.unique(points, axis=0, return_inverse=True)
    readings = np.full((pairs.count, len(places)), np.nan)
    first, seen = 0, 0
    for one in data:
        mine = number_of.ravel()[seen : seen + len(one.points)]
        values = np.where(one.valid[:, 0], one.response[:, 0], np.nan)
        readings[first : first + len(values), mine] = values
        first, seen = first + len(values), seen + len(one.points)
    places = places - gridded.origin
    ends = np.array([axis.length for axis in gridded.grid.axes])
    inside = np.all((places >= -1e-9 * ends) & (places <= ends * (1 + 1e-9)), axis=1) & np.isfinite(readings).any(0)
    if specimen is not None:
        inside &= specimen.shape.covers(places)
    sensors = Sensors.at(np.clip(places[inside], 0, ends))
    level = None if pairs.noise is None else float(pairs.noise)
    return SensorPairs(
        pairs.grid, pairs.loads, sensors, torch.as_tensor(readings[:, inside]), level, specimen=specimen,
        outline=outline,
    )  # fmt: skip

"""A measurement of a prism as it was understood, seen along z, y and x: parts by their condition, and readings."""

from typing import TYPE_CHECKING

import numpy as np
import shapely

from nipde.discretisation.parts import Specimen
from nipde.grid import AXES
from nipde.measurements.measurement import Measurement
from nipde.prism import ENDS, Prism
from nipde.report.numbers import unit_text
from nipde.report.part_lines import LINES, data_of, label_position, signed_colours
from nipde.report.plane_figure import PLANES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def prism_figure(measurement: Measurement, specimen: Specimen, pair: int) -> "Figure":
    """Three views; readings lie at all depths."""
    from matplotlib import pyplot

    readings, prism, origin = measurement.readings, specimen.shape, np.array(measurement.origin)
    assert readings is not None  # a specimen has them
    assert isinstance(prism, Prism)
    low, high = np.array(prism.region.bounds).reshape(2, 2)
    ends = np.array([[*low, prism.low], [*high, prism.high]]) + origin
    values = readings.readings[pair].numpy()
    known = np.isfinite(values)
    scale = signed_colours(values[known])
    points = np.asarray(readings.sensors.points)[known] + origin
    figure, places = pyplot.subplots(1, 3, figsize=(13.0, 5.2), layout="constrained")
    for place, (along, up) in zip(places, PLANES, strict=True):
        if up == 1:
            _draw_outline(place, measurement, specimen, pair)
        else:
            _draw_side(place, measurement, specimen, ends[:, [along, up]], pair)
        drawn = place.scatter(points[:, along], points[:, up], c=values[known], s=26, zorder=5, **scale)
        length = unit_text(measurement.units.length, " in ")
        (depth,) = {0, 1, 2} - {along, up}
        place.set(aspect="equal", xlabel=f"{AXES[along]}{length}", ylabel=f"{AXES[up]}{length}")
        place.set_title(f"view along {AXES[depth]}", fontsize=9)
        place.margins(0.2)
    unit = unit_text(measurement.units.response, " in ")
    figure.colorbar(drawn, ax=list(places), shrink=0.8, label=f"Response of pair {pair + 1}{unit}")
    load = "a load inside" if bool(measurement.pairs.loads[pair].any()) else "no load inside"
    figure.suptitle(f"As understood: {len(points)} readings; pair {pair + 1} has {load}", fontsize=11)
    return figure


def _draw_outline(place: "Axes", measurement: Measurement, specimen: Specimen, pair: int) -> None:
    """Its parts, with their names outside."""
    assert isinstance(specimen.shape, Prism)
    base, origin, drawn = specimen.shape.base, np.array(measurement.origin[:2]), set()
    for part, line in base.parts.items():
        kind = specimen.condition(part).name
        colour, width = LINES[kind]
        for piece in shapely.get_parts(line):
            at = shapely.get_coordinates(piece) + origin
            place.plot(*at.T, color=colour, linewidth=width, zorder=4, label=None if kind in drawn else kind)
            drawn.add(kind)
        (x, y), _ = label_position(base, line)
        off = (x - base.region.centroid.x) / base.scale
        side = "center" if abs(off) < 0.15 else "left" if off > 0 else "right"
        text, at_part = f"{part}{data_of(measurement, part, pair)}", (x + origin[0], y + origin[1])
        place.annotate(text, at_part, ha=side, va="center", fontsize=8, color=colour, zorder=6)


def _draw_side(place: "Axes", measurement: Measurement, specimen: Specimen, ends: np.ndarray, pair: int) -> None:
    """The two ends in colour, the sides thin."""
    (left, low), (right, high) = ends
    for side in (left, right):
        place.plot([side, side], [low, high], color=LINES["Neumann"][0], linewidth=0.8)
    for part, height, where in zip(ENDS, (low, high), ("top", "bottom"), strict=True):
        kind = specimen.condition(part).name
        colour, width = LINES[kind]
        place.plot([left, right], [height, height], color=colour, linewidth=width, zorder=4)
        step = (0.03 if where == "bottom" else -0.03) * (high - low)
        text = f"{part}, {kind}{data_of(measurement, part, pair)}"
        place.annotate(text, ((left + right) / 2, height + step), ha="center", va=where, fontsize=8, color=colour)

"""A measurement as it was understood: outline and parts, where responses were read, load and response of a pair.

Of a box, load and response on planes through the largest response; of a prism, three views.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from nipde.context.sensors import Sensors
from nipde.discretisation.interpolation import isolated
from nipde.discretisation.parts import DirichletPart, Specimen
from nipde.errors import ShapeError, needing
from nipde.grid import AXES
from nipde.measurements.measurement import Measurement
from nipde.report.numbers import unit_text
from nipde.report.part_lines import LINES, data_of, label_position, signed_colours
from nipde.report.plane_figure import PLANES, draw_planes
from nipde.report.prism_figure import prism_figure
from nipde.shape import Shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def measurement_figure(measurement: Measurement, *, pair: int = 0) -> "Figure":
    """Three panels in the coordinates of the files; of three axes, three planes each of load and response."""
    grid = measurement.pairs.grid
    if grid.dimension == 1:
        raise ShapeError(expected="two axes or three", got="one", remedy="read the notes instead")
    with needing("matplotlib", extra="report"):
        from matplotlib import pyplot
    if grid.dimension == 3:
        specimen = measurement.specimen
        return _box_figure(measurement, pair) if specimen is None else prism_figure(measurement, specimen, pair)
    x, y = grid.axes
    size = (14.0, float(np.clip(2.0 + 3.6 * y.length / x.length, 3.6, 8.0)))
    figure, places = pyplot.subplots(1, 3, figsize=size, layout="constrained", sharex=True, sharey=True)
    specimen = measurement.specimen or _box(measurement)
    _draw_specimen(places[0], measurement, specimen)
    units = measurement.units
    names = (f"Load of pair {pair + 1}{unit_text(units.load, ' in ')}",
             f"Response of pair {pair + 1}{unit_text(units.response, ' in ')}")  # fmt: skip
    _draw_load(places[1], measurement, specimen, pair)
    _draw_response(places[2], measurement, pair)
    for place, name in zip(places, ("As understood", *names), strict=True):
        place.set_title(name, fontsize=11)
        place.set(aspect="equal", xlabel=f"x{unit_text(units.length, ' in ')}")
        for ring in specimen.shape.rings:
            closed = np.vstack([ring, ring[:1]]) + measurement.origin
            place.plot(*closed.T, color="#666666", linewidth=0.8, zorder=3)
    places[0].set_ylabel(f"y{unit_text(units.length, ' in ')}")
    return figure


def _box_figure(measurement: Measurement, pair: int) -> "Figure":
    """Sides by their boundary, gaps blank."""
    from matplotlib import pyplot

    pairs, units = measurement.pairs, measurement.units
    response = _measured_response(measurement, pair)
    load = pairs.loads[pair, 0].double().cpu().numpy()
    peak = np.unravel_index(int(np.nanargmax(np.abs(response))), response.shape)
    figure, rows = pyplot.subplots(2, 3, figsize=(12.0, 7.2), layout="constrained")
    positions, length = list(measurement.positions.values()), unit_text(units.length)
    for places, name, field, unit in zip(
        rows, ("Load", "Response"), (load, response), (units.load, units.response), strict=True
    ):
        scale = signed_colours(field[np.isfinite(field)])
        mesh = draw_planes(places, field, positions, at=tuple(map(int, peak)), unit=length, scale=scale)
        figure.colorbar(mesh, ax=list(places), shrink=0.8, label=f"{name} of pair {pair + 1}{unit_text(unit, ' in ')}")
        for place, axes in zip(places, PLANES, strict=True):
            for axis, sides in zip(axes, (("left", "right"), ("bottom", "top")), strict=True):
                kind = "Dirichlet" if pairs.grid.axes[axis].boundary.essential else "Neumann"
                place.spines[list(sides)].set(color=LINES[kind][0], linewidth=LINES[kind][1])
                set_name = place.set_xlabel if axis == axes[0] else place.set_ylabel
                set_name(f"{AXES[axis]}{unit_text(units.length, ' in ')}")
    share = 100 * float(np.mean(np.isfinite(response)))
    held = ", ".join(f"{name} {axis.boundary.name}" for name, axis in zip(AXES, pairs.grid.axes, strict=True))
    words = f"As understood: boundaries {held}; {share:.3g} % of the nodes measured."
    figure.suptitle(f"{words} Planes through the largest response", fontsize=11)
    return figure


def _measured_response(measurement: Measurement, pair: int) -> np.ndarray:
    """The response of a pair at the nodes; NaN where it was not measured."""
    pairs = measurement.pairs
    field = pairs.responses[pair, 0].double().cpu().numpy()
    return (
        field if pairs.mask is None else np.where(pairs.mask.expand_as(pairs.responses)[pair, 0].cpu(), field, np.nan)
    )


def _box(measurement: Measurement) -> Specimen:
    """Sides with the boundaries of the axes."""
    x, y = measurement.pairs.grid.axes
    held = {side: DirichletPart() for sides, axis in ((("left", "right"), x), (("bottom", "top"), y)) for side in sides
            if axis.boundary.essential}  # fmt: skip
    return Specimen(Shape.rectangle(x.length, y.length), held)


def _draw_specimen(place: "Axes", measurement: Measurement, specimen: Specimen) -> None:
    """Parts by colour, their names outside, and the data of the first test."""
    shape, drawn = specimen.shape, set()
    for part, line in shape.parts.items():
        kind = specimen.condition(part).name
        colour, width = LINES[kind]
        for piece in shapely.get_parts(line):
            at = shapely.get_coordinates(piece) + measurement.origin
            name = None if kind in drawn else kind
            place.plot(at[:, 0], at[:, 1], color=colour, linewidth=width, zorder=4, label=name)
            drawn.add(kind)
        data = data_of(measurement, part, 0)
        (x, y), vertical = label_position(shape, line)
        at_part = (x + measurement.origin[0], y + measurement.origin[1])
        style: dict[str, Any] = {
            "ha": "center",
            "va": "center",
            "fontsize": 8,
            "color": colour,
            "rotation": 90 * vertical,
        }
        place.annotate(f"{part}{data}", at_part, zorder=6, **style)
    points = _points(measurement)
    label = f"responses read here ({len(points)})"
    marks: dict[str, Any] = {
        "markersize": 3,
        "markerfacecolor": "white",
        "markeredgecolor": "black",
        "linestyle": "none",
    }
    place.plot(points[:, 0], points[:, 1], marker="o", zorder=5, label=label, **marks)
    place.margins(0.16)
    place.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=8, frameon=False)


def _draw_load(place: "Axes", measurement: Measurement, specimen: Specimen, pair: int) -> None:
    """A map, crosses where it acts at points, or a word where nothing acts inside."""
    grid, field = measurement.pairs.grid, measurement.pairs.loads[pair, 0].double().cpu().numpy()
    if not field.any():
        blank = {"facecolor": "white", "edgecolor": "none"}
        place.text(0.5, 0.5, "nothing acts inside", transform=place.transAxes, ha="center", va="center", bbox=blank)
        return
    if np.array_equal(isolated(field[None], grid)[0], field != 0):
        weights = np.abs(field * grid.weights)
        at = [float(np.sum(weights * x) / weights.sum()) + first
              for x, first in zip(grid.coordinates, measurement.origin, strict=True)]  # fmt: skip
        place.plot(*at, "x", color="#b3004b", markersize=11, markeredgewidth=2.5, zorder=5)
        total = float(np.sum(field * grid.weights))
        text = f"{total:.4g}{unit_text(measurement.units.total(2))}"
        place.annotate(text, (at[0], at[1]), (8, 8), textcoords="offset points")
        return
    shown = np.where(specimen.shape.holds_nodes(grid), field, np.nan)
    _coloured(place, measurement, shown)


def _draw_response(place: "Axes", measurement: Measurement, pair: int) -> None:
    readings = measurement.readings
    if readings is None:
        _coloured(place, measurement, _measured_response(measurement, pair))
        return
    values = readings.readings[pair].numpy()
    known = np.isfinite(values)
    x, y = _points(measurement)[known].T
    drawn = place.scatter(x, y, c=values[known], s=26, **signed_colours(values[known]))
    place.get_figure().colorbar(drawn, ax=place, shrink=0.8)  # type: ignore[union-attr]


def _coloured(place: "Axes", measurement: Measurement, field: np.ndarray) -> None:
    x, y = measurement.positions.values()
    scale = signed_colours(field[np.isfinite(field)])
    drawn = place.pcolormesh(x, y, field.T, shading="nearest", rasterized=True, **scale)
    place.get_figure().colorbar(drawn, ax=place, shrink=0.8)  # type: ignore[union-attr]


def _points(measurement: Measurement) -> np.ndarray:
    """Where responses were read, in the coordinates of the files."""
    readings, pairs = measurement.readings, measurement.pairs
    if readings is not None:
        return np.asarray(readings.sensors.points) + measurement.origin
    mask = None if pairs.mask is None else pairs.mask.expand_as(pairs.responses)[:, 0].any(0).cpu().numpy()
    return np.asarray(Sensors.at_nodes(pairs.grid, mask=mask).points) + measurement.origin

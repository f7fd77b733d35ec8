"""One system at a glance: hidden field, a load, its response; each with its name, unit and scale.

Of three axes, planes through the middle.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from nipde.discretisation.parts import DirichletPart, Specimen
from nipde.errors import needing
from nipde.grid import Grid
from nipde.report.plane_figure import draw_planes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Panel:
    """One field to draw: title, unit, values with a leading component axis."""

    title: str
    unit: str
    values: Float[np.ndarray, "component *space"]
    components: tuple[str, ...] = ("value",)


def system_figure(grid: Grid, panels: list[Panel], *, title: str, specimen: Specimen | None = None) -> "Figure":
    """Panels side by side; vector fields as arrows over their length, in three dimensions as their length.

    Of a specimen the outline is drawn, wider where the response is given. Values may be those of nodes or of cells.
    """
    with needing("matplotlib", extra="report"):
        from matplotlib import pyplot
    rows, columns = (len(panels), 3) if grid.dimension == 3 else (1, len(panels))
    size = (4.1 * columns, 3.9 if rows == 1 else 3.4 * rows)
    figure, axes = pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for number, panel in enumerate(panels):
        name = f"{panel.title}" + (f" [{panel.unit}]" if panel.unit != "1" else "")
        if grid.dimension == 3:
            _draw_box(list(axes[number]), grid, panel, name)
        else:
            (_draw_line if grid.dimension == 1 else _draw_map)(axes[0, number], grid, panel)
            axes[0, number].set_title(name, fontsize=11)
            if specimen is not None:
                _draw_outline(axes[0, number], specimen)
    figure.suptitle(title, fontsize=12)
    return figure


def _coloured(panel: Panel) -> tuple[np.ndarray, dict[str, Any], np.ndarray | None]:
    """Values to draw, their colours; and the values of phases, if there are but a few."""
    from cmcrameri import cm

    values = panel.values[0] if len(panel.values) == 1 else np.linalg.norm(panel.values, axis=0)
    known = values[np.isfinite(values)]  # NaN outside of a specimen
    levels, limit = np.unique(known), np.abs(known).max()
    if 2 <= len(levels) <= 4:  # a material of phases: one colour each, no scale in between
        scale = {"cmap": cm.batlow.resampled(len(levels)), "vmin": 0, "vmax": len(levels) - 1}
        return np.where(np.isfinite(values), np.searchsorted(levels, values), np.nan), scale, levels
    if known.min() < 0 < known.max():
        return values, {"cmap": cm.vik, "vmin": -limit, "vmax": limit}, None
    return values, {"cmap": cm.batlow, "vmin": known.min(), "vmax": known.max()}, None


def _draw_box(places: "list[Axes]", grid: Grid, panel: Panel, name: str) -> None:
    values, scale, phases = _coloured(panel)
    middle = tuple(nodes // 2 for nodes in grid.shape)
    image = draw_planes(places, values, [axis.coordinates for axis in grid.axes], at=middle, scale=scale)
    _bar(image, places, phases, name)


def _bar(image: "QuadMesh", places: "list[Axes]", phases: np.ndarray | None, name: str = "") -> None:
    figure = places[0].get_figure()
    assert figure is not None
    bar = figure.colorbar(image, ax=places, shrink=0.75, label=name)
    if phases is not None:
        steps = (np.arange(len(phases)) + 0.5) * (len(phases) - 1) / len(phases)
        bar.set_ticks(steps.tolist(), labels=[f"{level:g}" for level in phases])


def _draw_map(place: "Axes", grid: Grid, panel: Panel) -> None:
    values, scale, phases = _coloured(panel)
    x, y = (
        axis.coordinates if count == axis.nodes else (np.arange(count) + 0.5) * axis.length / count
        for axis, count in zip(grid.axes, values.shape, strict=True)
    )
    image = place.pcolormesh(x, y, values.T, shading="nearest", rasterized=True, **scale)
    if len(panel.values) == 2:
        step = max(1, grid.shape[0] // 16)
        thin = (slice(None, None, step),) * 2
        place.quiver(
            x[::step], y[::step], panel.values[0][thin].T, panel.values[1][thin].T,
            color="white", edgecolor="black", linewidth=0.4, width=0.006,
        )  # fmt: skip
    place.set(xlabel="x", ylabel="y", aspect="equal")
    _bar(image, [place], phases)


def _draw_outline(place: "Axes", specimen: Specimen) -> None:
    for name, line in specimen.shape.parts.items():
        given = isinstance(specimen.condition(name), DirichletPart)
        for piece in getattr(line, "geoms", [line]):
            place.plot(*piece.xy, color="black", linewidth=2.5 if given else 0.8)


def _draw_line(place: "Axes", grid: Grid, panel: Panel) -> None:
    for name, values in zip(panel.components, panel.values, strict=True):
        place.plot(grid.axes[0].coordinates, values, label=name)
    place.set_xlabel("x")
    if len(panel.values) > 1:
        place.legend()

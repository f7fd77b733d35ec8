"""One system at a glance: hidden field, a load, its response; each with its name, unit and scale."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from nipde.errors import ShapeError, needing
from nipde.grid import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Panel:
    """One field to draw: title, unit, values with a leading component axis."""

    title: str
    unit: str
    values: Float[np.ndarray, "component *space"]
    components: tuple[str, ...] = ("value",)


def system_figure(grid: Grid, panels: list[Panel], *, title: str) -> "Figure":
    """Panels side by side; vector fields as arrows over their length."""
    if grid.dimension == 3:
        raise ShapeError(expected="a 1D or 2D grid", got="3D", remedy="draw a slice of the fields")
    with needing("matplotlib", extra="report"):
        from matplotlib import pyplot
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(4.1 * len(panels), 3.9), layout="constrained", squeeze=False
    )
    for place, panel in zip(axes[0], panels, strict=True):
        (_draw_line if grid.dimension == 1 else _draw_map)(place, grid, panel)
        place.set_title(f"{panel.title}" + (f" [{panel.unit}]" if panel.unit != "1" else ""), fontsize=11)
    figure.suptitle(title, fontsize=12)
    return figure


def _draw_map(place: "Axes", grid: Grid, panel: Panel) -> None:
    from cmcrameri import cm

    x, y = (axis.coordinates for axis in grid.axes)
    values = panel.values[0] if len(panel.values) == 1 else np.linalg.norm(panel.values, axis=0)
    levels, limit = np.unique(values), np.abs(values).max()
    if phases := 2 <= len(levels) <= 4:  # a material of phases: one colour each, no scale in between
        values, scale = np.searchsorted(levels, values), {"cmap": cm.batlow.resampled(len(levels))}
    elif values.min() < 0 < values.max():
        scale = {"cmap": cm.vik, "vmin": -limit, "vmax": limit}
    else:
        scale = {"cmap": cm.batlow}
    image = place.pcolormesh(x, y, values.T, shading="nearest", rasterized=True, **scale)
    if len(panel.values) == 2:
        step = max(1, grid.shape[0] // 16)
        thin = (slice(None, None, step),) * 2
        place.quiver(
            x[::step], y[::step], panel.values[0][thin].T, panel.values[1][thin].T,
            color="white", edgecolor="black", linewidth=0.4, width=0.006,
        )  # fmt: skip
    place.set(xlabel="x", ylabel="y", aspect="equal")
    figure = place.get_figure()
    assert figure is not None
    bar = figure.colorbar(image, ax=place, shrink=0.75)
    if phases:
        steps = (np.arange(len(levels)) + 0.5) * (len(levels) - 1) / len(levels)
        bar.set_ticks(steps.tolist(), labels=[f"{level:g}" for level in levels])


def _draw_line(place: "Axes", grid: Grid, panel: Panel) -> None:
    for name, values in zip(panel.components, panel.values, strict=True):
        place.plot(grid.axes[0].coordinates, values, label=name)
    place.set_xlabel("x")
    if len(panel.values) > 1:
        place.legend()

"""The material on the page: coefficient, band, phases, and rows of the kernel."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from nipde.discovery.discovery import IDENTIFIABLE, Discovery, Phases
from nipde.report.numbers import number, percent, unit_symbol, unit_text
from nipde.report.page.colours import LAST, Colours, hex_colours
from nipde.report.page.figure import Figure, line
from nipde.report.page.view import Plot, View, rounded

#: Nodes per axis whose rows of the kernel a page holds, by dimension of the drawing.
ROWS = {1: 300, 2: 31}

Section = dict[str, Any]


def material_section(discovery: Discovery, view: View) -> tuple[Section, Section]:
    """The coefficient with its band, its identifiability, and its phases."""
    material, phases = discovery.material, discovery.phases
    values, low, high, identifiable, probability, labels = (
        view.shown(field)
        for field in (
            material.values, material.low, material.high, material.identifiable, phases.probability, phases.labels
        )
    )  # fmt: skip
    # Maps spend their colours on the values; lines have room for the band.
    lowest, highest = (low, high) if view.dimension == 1 else (values, values)
    ends = np.repeat([[np.nanmin(lowest)], [np.nanmax(highest)]], 3, axis=1)
    switched = Colours.of(np.stack([values, low, high]), table="batlow", low=ends[0], high=ends[1])
    plot, half = view.plot(), (high - low) / 2
    unidentified, uncertain = (
        view.cells(plot, mask) for mask in (identifiable < IDENTIFIABLE, view.shown(phases.uncertain))
    )
    band = line_area(view, plot, low, high, *ends[:, 0]) if view.dimension == 1 else ""
    unidentified_means = f"not identifiable (less than {100 * IDENTIFIABLE:g} %)"
    quantity = material.quantity
    figures = [
        Figure(
            view, switched, "coefficient", quantity.capitalize(), quantity, material.unit, area=band, follows=True,
            hatched=unidentified, hatched_means=unidentified_means,
        ),
        Figure(
            view, Colours.between(half, 0, float(np.nanmax(half))), "width", "Half-width of the band",
            f"half-width of the band of the {quantity}", material.unit, follows=True,
        ),
        Figure(
            view, Colours.between(identifiable, 0, 1), "identifiable", "Identifiability", "identifiability", "",
            ends=("0, not determined by the data", "1, determined"), follows=True,
            hatched=unidentified, hatched_means=unidentified_means,
        ),
        Figure(
            view, Colours.between(labels, 0, max(1, len(phases.medians) - 1)), "phases", "Phases", "phase", "",
            swatches=phase_swatches(phases, labels, material.unit), follows=True,
            hatched=uncertain, hatched_means="phase uncertain: another phase above 5 %",
        ),
    ]  # fmt: skip
    fields = {
        "values": values, "low": low, "high": high, "identifiable": identifiable, "probability": probability,
        "phase": labels,
    }  # fmt: skip
    data: Section = {name: rounded(field) for name, field in fields.items()}
    data |= {"unit": unit_text(material.unit), "switch": switched.to_json()}
    return {"figures": {figure.name: figure for figure in figures}}, data


def rows(discovery: Discovery, view: View) -> tuple[Section, Section]:
    """K(x, ·) for x and y on at most 31 × 31 nodes, one scale per row."""
    kernel, units = discovery.kernel, discovery.measurement.units
    grid = kernel.grid
    first, step, places = kept_nodes(view)
    values = rows_at(discovery, places)
    flat = values.reshape(len(values), -1)
    if values.min() < -0.05 * values.max():
        colours, remark = Colours.fitted(values), ""
    elif view.dimension == 1:
        colours, remark = Colours.of(values, table="batlow", low=flat.min(1), high=flat.max(1)), ""
    else:  # K rises without bound at x itself: the scale is that of all other points
        others = np.where(np.eye(len(flat), dtype=bool), 0.0, flat)
        colours = Colours.of(values, table="batlow", low=others.min(1), high=others.max(1))
        remark = "K is largest at x itself, which is left out of the scale. "
    if max(step) > 1:
        sizes = [" × ".join(map(str, shape)) for shape in (values.shape[1:], view.shape)]
        remark += f"This page keeps rows at {sizes[0]} of {sizes[1]} nodes; the nearest one is shown."
    start = tuple(nodes // 2 for nodes in view.shape)
    near = [min(len(p) - 1, int((s - f) / d + 0.5)) for p, s, f, d in zip(places, start, first, step, strict=True)]
    power = {1: "", 2: "²", 3: "³"}[grid.dimension]
    figure = Figure(
        view, colours, "row", "Row of the kernel, K(x, ·)", "response at x per load there",
        unit_symbol(f"{units.response} / ({units.load} · {units.length}{power})"), follows=True,
        shown=int(np.ravel_multi_index(near, values.shape[1:])), first=first, step=step,
    )  # fmt: skip
    data = {
        **colours.to_json(), "first": first, "step": step, "shape": values.shape[1:], "start": start,
        "unit": figure.unit, "largest": rounded(flat.max(1)), "all": rounded([colours.low.min(), colours.high.max()]),
    }  # fmt: skip
    return {"figure": figure, "remark": remark, "start": start}, data


def kept_nodes(view: View) -> tuple[tuple[int, ...], tuple[int, ...], list[range]]:
    """First node, step and all nodes per axis whose rows are kept; the margins are equal."""
    step = tuple(max(1, math.ceil((nodes - 1) / (ROWS[view.dimension] - 1))) for nodes in view.shape)
    first = tuple((nodes - 1) % stride // 2 for nodes, stride in zip(view.shape, step, strict=True))
    return first, step, [range(f, n, s) for f, n, s in zip(first, view.shape, step, strict=True)]


def rows_at(discovery: Discovery, places: list[range]) -> Float[ndarray, "row *kept"]:
    """K(x, y) for x and y at these nodes, in the middle slice in 3D."""
    kernel = discovery.kernel
    grid, like = kernel.grid, kernel.row_integral()
    middle = [[nodes // 2] for nodes in grid.shape[2:]]
    kept = np.arange(grid.size).reshape(grid.shape)[np.ix_(*places, *middle)].reshape(-1)
    # A row of K is the response of the transposed kernel to a point load.
    points = like.new_zeros(len(kept), grid.size)
    points[torch.arange(len(kept)), torch.from_numpy(kept)] = like.new_tensor(1 / grid.weights.reshape(-1)[kept])
    with torch.no_grad():
        responses = kernel.T.predict(points.view(-1, 1, *grid.shape)).flatten(1)
    return responses[:, kept].double().cpu().numpy().reshape(-1, *map(len, places))


def line_area(view: View, plot: Plot, low: ndarray, high: ndarray, bottom: float, top: float) -> str:
    """The band between two lines as a closed path."""
    sides = [np.clip((side - bottom) / max(top - bottom, 1e-300), 0, 1) for side in (low, high)]
    there, back = (line(view, plot, np.nan_to_num(side)) for side in sides)
    points = back.replace("M", "L").split("L")[1:]
    return there + "".join(f"L{point}" for point in reversed(points)) + "z"


def phase_swatches(phases: Phases, labels: ndarray, unit: str) -> tuple[tuple[str, str], ...]:
    """Colour and words of every phase."""
    last = max(1, len(phases.medians) - 1)
    return tuple(
        (
            hex_colours("batlow")[round(LAST * i / last)],
            f"phase {i + 1}: {number(median)}{unit_text(unit)}, {percent(float(np.mean(labels == i)))} of the nodes",
        )
        for i, median in enumerate(phases.medians)
    )

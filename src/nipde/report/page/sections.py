"""Sections of the page: pairs as they were read, the kernel, predictions of the held-out pairs."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray

from nipde.discovery.discovery import Discovery, HeldOut
from nipde.report.interior import measured_share
from nipde.report.numbers import number, percent, unit_symbol, unit_text
from nipde.report.page.colours import LAST, Colours
from nipde.report.page.figure import Figure
from nipde.report.page.view import Plot, View, peak, rounded, ticks_between

#: Pairs that a page holds; the rest would only make it heavy.
MOST = 12
#: Points of the scatter plot.
POINTS = 1500
#: Nodes per axis whose rows of the kernel a page holds, by dimension of the drawing.
ROWS = {1: 300, 2: 31}

Section = dict[str, Any]


def reading(discovery: Discovery, view: View) -> tuple[Section, Section]:
    """Pairs as they were read."""
    pairs, units = discovery.measurement.pairs, discovery.measurement.units
    selected = spread(pairs.count)
    loads, responses = (field[selected, 0].double().cpu().numpy() for field in (pairs.loads, pairs.responses))
    missing = 1 - measured_share(discovery)
    loads = view.inside(loads)
    if pairs.mask is not None:
        mask = pairs.mask.expand(pairs.responses.shape)
        responses = np.where(mask[selected, 0].cpu().numpy(), responses, np.nan)
    data: Section = {"numbers": [index + 1 for index in selected], "total": pairs.count}
    figures = []
    for name, fields, unit in (("load", loads, units.load), ("response", responses, units.response)):
        shown = view.shown(fields)
        colours = Colours.fitted(shown)
        nodes, which = [peak(field) for field in shown], " on these planes" if view.spatial else ""
        captions = [
            f"Largest {name}{which}: {number(field[node])}{unit_text(unit)} at {view.where(view.node(node))}."
            for field, node in zip(shown, nodes, strict=True)
        ]
        marks = [mark(view, colours, i, node) for i, node in enumerate(nodes)]
        figures.append(
            Figure(
                view, colours, name, f"{name.capitalize()} of pair {selected[0] + 1}", name, unit,
                caption=captions[0], marker=marks[0],
            )
        )  # fmt: skip
        data[name] = {**colours.to_json(), "captions": captions, "marks": marks, "unit": unit_text(unit)}
    fewer = len(selected) < pairs.count
    embedded = f"{len(selected)} of {pairs.count} pairs are in this page, equally spaced." if fewer else ""
    first = (0,) * len(view.coordinates)
    return {"figures": figures, "embedded": embedded, "missing": missing, "first": view.where(first)}, data


def held_out(discovery: Discovery, view: View) -> tuple[Section, Section]:
    """Measured, predicted and their difference, for pairs that the second estimate did not use."""
    kept, unit = discovery.held_out, discovery.measurement.units.response
    assert kept is not None
    selected = spread(len(kept.indices))
    measured = np.where(kept.mask, kept.measured, np.nan)[selected]
    predicted = np.asarray(kept.predicted, float)[selected]
    sides = view.shown(measured), view.shown(predicted)
    colours = {
        "measured": Colours.fitted(sides[0], like=sides[1]),
        "predicted": Colours.fitted(sides[1], like=sides[0]),
        "difference": Colours.fitted(sides[1] - sides[0]),
    }
    titles = {"measured": "Measured", "predicted": "Predicted", "difference": "Predicted − measured"}
    figures = [
        Figure(view, colours[name], name, title, "difference" if name == "difference" else "response", unit)
        for name, title in titles.items()
    ]
    errors = np.asarray(kept.errors, float)
    worst = int(np.argmax(np.nan_to_num(errors, nan=-1)))
    lines = [
        f"Pair {kept.indices[i] + 1}, held-out pair {i + 1} of {len(errors)}: relative error {percent(errors[i])}."
        for i in selected
    ]
    summary = (
        f"Mean relative error {percent(float(np.nanmean(errors)))}, median {percent(float(np.nanmedian(errors)))}, "
        f"worst {percent(float(errors[worst]))} (pair {kept.indices[worst] + 1})."
    )
    embedded = f"{len(selected)} of {len(errors)} held-out pairs are shown." if len(selected) < len(errors) else ""
    points = scatter(kept, unit)
    bars = [
        {
            "pair": kept.indices[i] + 1,
            "error": percent(errors[i]),
            "share": round(100 * float(np.nan_to_num(errors[i] / (errors[worst] or 1))), 1),
        }
        for i in selected
    ]
    section = {
        "figures": figures, "lines": lines, "summary": summary, "embedded": embedded, "scatter": points, "bars": bars
    }  # fmt: skip
    data = {**{name: part.to_json() for name, part in colours.items()}, "lines": lines, "unit": unit_text(unit)}
    return section, {**data, "scatter": points["frame"]}


def scatter(kept: HeldOut, unit: str) -> Section:
    """All held-out nodes as points on a common scale, a part of them where there are too many."""
    known = np.asarray(kept.mask, bool) & np.isfinite(kept.measured) & np.isfinite(kept.predicted)
    x, y = kept.measured[known], kept.predicted[known]
    low, high = (float(pick([pick(x), pick(y)])) for pick in (np.min, np.max)) if len(x) else (0.0, 1.0)
    high = high if high > low else low + 1
    left, top, size = 62.0, 12.0, 284.0
    ticks = [((tick - low) / (high - low), number(tick)) for tick in ticks_between(low, high, 4)]
    plot = Plot(
        360.0, top + size + 40, left, top, size, size,
        [(left + share * size, text) for share, text in ticks],
        [(top + (1 - share) * size, text) for share, text in ticks],
    )  # fmt: skip
    some = np.linspace(0, len(x) - 1, min(POINTS, len(x))).astype(int)
    places = zip((x[some] - low) / (high - low), (y[some] - low) / (high - low), strict=True)
    path = "".join(f"M{left + a * size:.1f} {top + (1 - b) * size:.1f}h0" for a, b in places)
    frame = {"box": [left, top, size, size], "low": low, "high": high}
    return {"plot": plot, "path": path, "unit": unit, "shown": len(some), "total": len(x), "frame": frame}


def spread(count: int) -> list[int]:
    """At most `MOST` numbers below `count`, equally spaced."""
    return [int(i) for i in np.unique(np.linspace(0, count - 1, min(MOST, count)).round())]


def mark(view: View, colours: Colours, number: int, node: tuple[int, ...]) -> tuple[float, float]:
    """Where a node of a figure is drawn, on the line in 1D."""
    share = float(colours.codes[number][node]) / LAST if view.dimension == 1 else 0.0
    return view.position(view.plot(), node, min(share, 1.0))


def rows(discovery: Discovery, view: View) -> tuple[Section, Section]:
    """K(x, ·) for x and y on at most 31 × 31 nodes, one scale per row."""
    kernel, units = discovery.kernel, discovery.measurement.units
    grid = kernel.grid
    first, step, places = kept_nodes(view)
    numbers = view.shown(np.arange(grid.size).reshape(grid.shape))[np.ix_(*places)]
    values = rows_at(discovery, numbers)
    flat = values.reshape(len(values), -1)
    drawn = np.where(np.isnan(numbers), np.nan, values) if view.spatial else view.inside(values, places)
    if values.min() < -0.05 * values.max():
        colours, remark = Colours.fitted(drawn), ""
    elif view.dimension == 1:
        colours, remark = Colours.of(drawn, table="batlow", low=flat.min(1), high=flat.max(1)), ""
    else:  # K rises without bound at x itself: the scale is that of all other points
        others = np.where(numbers.reshape(-1, 1) == numbers.reshape(-1), 0.0, flat)
        colours = Colours.of(drawn, table="batlow", low=others.min(1), high=others.max(1))
        remark = "K is largest at x itself, which is left out of the scale. "
    if max(step) > 1:
        sizes = [" × ".join(map(str, shape)) for shape in (values.shape[1:], view.shape)]
        which = f"one in {step[0]} × {step[1]}" if view.spatial else f"{sizes[0]} of {sizes[1]}"
        remark += f"This page keeps rows at {which} nodes; the nearest one is shown. "
    if view.spatial:
        remark += "Rows are those of points on the planes through the middle."
    start = _central(view.shown(kernel.interior), view.middle[: view.dimension])
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
    return {"figure": figure, "remark": remark.strip(), "start": start}, data


def _central(interior: Bool[ndarray, "*shown"], middle: tuple[int, ...]) -> tuple[int, ...]:
    """The interior node nearest to the middle."""
    nodes = np.argwhere(interior)
    nearest = nodes[np.argmin(np.sum((nodes - np.array(middle)) ** 2, axis=1))]
    return tuple(int(index) for index in nearest)


def kept_nodes(view: View) -> tuple[tuple[int, ...], tuple[int, ...], list[range]]:
    """First node, step and all nodes per axis whose rows are kept; the margins are equal."""
    step = tuple(max(1, math.ceil((nodes - 1) / (ROWS[view.dimension] - 1))) for nodes in view.shape)
    first = tuple((nodes - 1) % stride // 2 for nodes, stride in zip(view.shape, step, strict=True))
    return first, step, [range(f, n, s) for f, n, s in zip(first, view.shape, step, strict=True)]


def rows_at(discovery: Discovery, numbers: Float[ndarray, "*kept"]) -> Float[ndarray, "row *kept"]:
    """K(x, y) for x and y at nodes of these numbers; 0 where there is none."""
    kernel = discovery.kernel
    grid, like, there = kernel.grid, kernel.row_integral(), np.isfinite(numbers).reshape(-1)
    kept = numbers.reshape(-1)[there].astype(int)
    # A row of K is the response of the transposed kernel to a point load.
    points = like.new_zeros(len(kept), grid.size)
    points[torch.arange(len(kept)), torch.from_numpy(kept)] = like.new_tensor(1 / grid.weights.reshape(-1)[kept])
    with torch.no_grad():
        responses = kernel.T.predict(points.view(-1, 1, *grid.shape)).flatten(1)
    rows = np.zeros((numbers.size, numbers.size))
    rows[np.ix_(there, there)] = responses[:, kept].double().cpu().numpy()
    return rows.reshape(-1, *numbers.shape)

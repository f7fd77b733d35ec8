"""Sections of the page: in-distribution check, baselines, recommended loads."""

import math
from typing import Any

import numpy as np

from nipde.discovery.discovery import Discovery
from nipde.report.numbers import number, percent, unit_symbol, unit_text
from nipde.report.page.colours import Colours
from nipde.report.page.figure import Figure
from nipde.report.page.view import View
from nipde.report.statements import outlier_statement

#: Loads that are shown.
MOST = 12

Section = dict[str, Any]


def outlier_check(discovery: Discovery) -> Section:
    """Whether the pairs look like those of the calibration systems."""
    test = discovery.kernel.outlier_test
    if test is None:
        text = (
            "In-distribution check not available: calibration covers exact loads and responses with few gaps, and "
            "calibrated weights. The size of the errors is unknown here: read the bands as a guide only."
        )
        return {"kind": "unknown", "icon": "?", "text": text}
    kind, icon = ("failed", "!") if bool(test.is_outlier) else ("passed", "✓")
    return {"kind": kind, "icon": icon, "text": outlier_statement(test)}


def baselines(discovery: Discovery, view: View) -> Section:
    """This report first, then the baselines, on the colour scale of this report."""
    values, unit, quantity = (
        view.shown(discovery.material.values), discovery.material.unit, discovery.material.quantity,
    )  # fmt: skip
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    error_here, seconds = math.nan, discovery.provenance.get("seconds")
    if discovery.held_out is not None:
        error_here = float(np.nanmean(discovery.held_out.errors))
    entries = [("nipde, this report", discovery.material.values, error_here, seconds)]
    entries += [(one.name, one.values, one.held_out_error, one.seconds) for one in discovery.baselines]
    cards = []
    for i, (name, field, error, time) in enumerate(entries):
        drawn = view.shown(field)
        finite = drawn[np.isfinite(drawn)]
        span = (
            f"{quantity} from {number(finite.min())} to {number(finite.max())}{unit_text(unit)}"
            if finite.size
            else f"This method gives no {quantity}."
        )
        colours = Colours.between(drawn, low, high)
        figure = Figure(view, colours, f"method-{i}", name, quantity, unit, width=240, caption=span)
        took = f"{number(float(time))} s" if isinstance(time, int | float) and math.isfinite(time) else "—"
        cards.append({"figure": figure, "name": name, "error": percent(error), "seconds": took, "span": span})
    errors = {one.name: one.held_out_error for one in discovery.baselines if math.isfinite(one.held_out_error)}
    return {"cards": cards, "text": comparison(error_here, errors)}


def comparison(error_here: float, errors: dict[str, float]) -> str:
    """Which method has the smallest held-out error."""
    if not errors or not math.isfinite(error_here):
        return "There are no held-out errors to compare."
    best = min(errors, key=lambda name: errors[name])
    both = f"{percent(errors[best])} for {best}, {percent(error_here)} for this report"
    if abs(errors[best] - error_here) <= 0.1 * error_here:
        return f"The held-out error of the best baseline is about the same: {both}."
    if errors[best] < error_here:
        return f"A baseline has a smaller held-out error: {both}. Prefer it for predictions here."
    return f"This report has the smallest held-out error: {both}."


def recommended_loads(discovery: Discovery, view: View) -> Section:
    """Best first."""
    ranked, unit = discovery.recommended_loads, discovery.measurement.units.load
    if not ranked.names:
        return {"cards": [], "total": 0}
    colours, cards = Colours.fitted(view.shown(ranked.loads)), []
    for i, (name, gain) in enumerate(zip(map(unit_symbol, ranked.names[:MOST]), ranked.gains, strict=False)):
        figure = Figure(view, colours, f"next-{i}", name, "load", unit, shown=i, width=240)
        share = min(max(float(gain), 0.0), 1.0)
        cards.append({"figure": figure, "name": name, "gain": percent(float(gain)), "share": round(100 * share, 1)})
    return {"cards": cards, "total": len(ranked.names)}

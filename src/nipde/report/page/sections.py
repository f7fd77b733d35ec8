"""The rest of the page: alarm, classical methods, the next load."""

import math
from typing import Any

import numpy as np

from nipde.discovery.discovery import Discovery
from nipde.report.page.colours import Colours
from nipde.report.page.figure import Figure
from nipde.report.page.view import View, number, percent, unit_text

#: Loads that are shown.
MOST = 12

Section = dict[str, Any]


def alarm(discovery: Discovery) -> Section:
    """Whether the pairs look like those that the method was tried on."""
    trust = discovery.kernel.trust
    if trust is None:
        text = (
            "For weights or data of this kind there is no calibration, which needs exact loads and responses without "
            "gaps. So nothing is known of the size of errors: read bands as a guide only."
        )
        return {"kind": "unknown", "icon": "?", "word": "Not checked", "text": text}
    if bool(trust.alarm.raised):
        return {"kind": "raised", "icon": "!", "word": "Alarm", "text": trust.alarm.reasons()}
    return {"kind": "quiet", "icon": "✓", "word": "No alarm", "text": trust.alarm.reasons()}


def rivals(discovery: Discovery, view: View) -> Section:
    """Ours first, then the classical ones, on the colour scale of ours."""
    values = view.shown(discovery.material.values)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    ours, seconds = math.nan, discovery.provenance.get("seconds")
    if discovery.held_out is not None:
        ours = float(np.nanmean(discovery.held_out.errors))
    entries = [("nipde, this report", discovery.material.values, ours, seconds)]
    entries += [(rival.name, rival.values, rival.held_out_error, rival.seconds) for rival in discovery.rivals]
    cards = []
    for i, (name, field, error, time) in enumerate(entries):
        drawn = view.shown(field)
        finite = drawn[np.isfinite(drawn)]
        span = (
            f"b from {number(finite.min())} to {number(finite.max())}{unit_text(discovery.material.unit)}"
            if finite.size
            else "This method gives no map of b."
        )
        colours = Colours.between(drawn, low, high)
        figure = Figure(view, colours, f"method-{i}", name, "b", discovery.material.unit, width=240, caption=span)
        took = f"{number(float(time))} s" if isinstance(time, int | float) and math.isfinite(time) else "—"
        cards.append({"figure": figure, "name": name, "error": percent(error), "seconds": took, "span": span})
    errors = {rival.name: rival.held_out_error for rival in discovery.rivals if math.isfinite(rival.held_out_error)}
    return {"cards": cards, "text": comparison(ours, errors)}


def comparison(ours: float, errors: dict[str, float]) -> str:
    """Who predicts held-out pairs best, whoever it is."""
    if not errors or not math.isfinite(ours):
        return "There are no held-out errors to compare; the maps are shown for the eye only."
    best = min(errors, key=lambda name: errors[name])
    sides = f"{percent(errors[best])} for {best}, {percent(ours)} for this report"
    if abs(errors[best] - ours) <= 0.1 * ours:
        return f"On held-out pairs the best classical method does about as well: {sides}."
    if errors[best] < ours:
        return f"On held-out pairs a classical method does better: {sides}. Prefer it for predictions here."
    return f"On held-out pairs this report does best: {sides}."


def next_loads(discovery: Discovery, view: View) -> Section:
    """Loads worth applying, best first."""
    found, unit = discovery.next_loads, discovery.measurement.units.load
    if not found.names:
        return {"cards": [], "total": 0}
    colours, cards = Colours.fitted(view.shown(found.loads)), []
    for i, (name, gain) in enumerate(zip(found.names[:MOST], found.gains, strict=False)):
        figure = Figure(view, colours, f"next-{i}", name, "load", unit, shown=i, width=240)
        share = min(max(float(gain), 0.0), 1.0)
        cards.append({"figure": figure, "name": name, "gain": percent(float(gain)), "share": round(100 * share, 1)})
    return {"cards": cards, "total": len(found.names)}

"""A discovery as one page of HTML: nothing to fetch, readable without a script, by eye, keyboard and screen reader."""

import base64
import hashlib
import json
import math
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from nipde.discovery.discovery import Baseline, Discovery
from nipde.errors import needing
from nipde.report.interior import interior_percentiles
from nipde.report.numbers import capitalised, number, percent, unit_symbol, unit_text
from nipde.report.page.colours import Colours, hex_colours
from nipde.report.page.figure import Figure
from nipde.report.page.first_screen import first_screen
from nipde.report.page.material import coefficient_scale, material_section
from nipde.report.page.sections import MOST, Section, held_out, reading, rows
from nipde.report.page.view import View
from nipde.report.statements import best_baseline, statements

if TYPE_CHECKING:
    from jinja2 import Environment

#: Colours in the ramps beside maps.
STOPS = 17


def page(discovery: Discovery) -> str:
    """The whole report; write it to `report.html` and open it anywhere."""
    view = View(discovery.measurement)
    # For each section: what the template shows, and what the script needs.
    pairs, pairs_data = reading(discovery, view)
    material, material_data = material_section(discovery, view)
    kernel, kernel_data = rows(discovery, view)
    predicted, predicted_data = (None, None) if discovery.held_out is None else held_out(discovery, view)
    tables = {name: hex_colours(name) for name in ("batlow", "vik")}
    data = {
        "view": view.to_json(), "tables": tables, "pairs": pairs_data, "material": material_data,
        "kernel": kernel_data, "held_out": predicted_data,
    }  # fmt: skip
    script = text_of("page.js")
    return environment().get_template("template.html.j2").render(
        discovery=discovery, view=view, first=first_screen(discovery), statements=sentences(discovery),
        reading=pairs, material_section=material, rows=kernel, held_out=predicted,
        baselines=baselines(discovery, view), recommended_loads=recommended_loads(discovery, view),
        provenance=list(flat({"estimator": discovery.estimator} | discovery.provenance)), ramps=_ramps(tables),
        style=text_of("page.css"), script=script, data=_json(data),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )  # fmt: skip


def baselines(discovery: Discovery, view: View) -> Section:
    """This report first, then the baselines, on the colour scale of this report."""
    unit, quantity, kernel = discovery.material.unit, discovery.material.quantity, discovery.kernel
    scale = coefficient_scale(discovery, view)
    error_here, seconds = math.nan, discovery.provenance.get("seconds")
    if discovery.held_out is not None:
        error_here = float(np.nanmean(discovery.held_out.errors))
    entries = [("nipde, this report", discovery.material.values, error_here, seconds)]
    entries += [(one.name, one.values, one.held_out_error, one.seconds) for one in discovery.baselines]
    cards = []
    for i, (name, field, error, time) in enumerate(entries):
        drawn, span = view.shown(field), f"This method gives no {quantity}."
        if np.isfinite(field[kernel.interior]).all():
            low, high = interior_percentiles(kernel, field, 1, 99)
            span = f"1 % to 99 % of interior nodes: {number(low)} to {number(high)}{unit_text(unit)}"
        figure = Figure(
            view, Colours.on(scale, drawn[None]), f"method-{i}", name, quantity, unit, width=240, caption=span,
            scale=scale,
        )  # fmt: skip
        took = f"{number(float(time))} s" if isinstance(time, int | float) and math.isfinite(time) else "—"
        cards.append({"figure": figure, "name": name, "error": percent(error), "seconds": took, "span": span})
    return {"cards": cards, "text": comparison(error_here, best_baseline(discovery))}


def comparison(error_here: float, best: Baseline | None) -> str:
    """Which method has the smallest held-out error."""
    if best is None or not math.isfinite(error_here):
        return "There are no held-out errors to compare."
    both = f"{percent(best.held_out_error)} for {best.name}, {percent(error_here)} for this report"
    if abs(best.held_out_error - error_here) <= 0.1 * error_here:
        return f"The held-out error of the best baseline is about the same: {both}."
    if best.held_out_error < error_here:
        return f"A baseline has a smaller held-out error: {both}. Prefer it for predictions here."
    return f"This report has the smallest held-out error: {both}."


def recommended_loads(discovery: Discovery, view: View) -> Section:
    """Best first."""
    ranked, unit = discovery.recommended_loads, discovery.measurement.units.load
    if not ranked.names:
        return {"cards": [], "total": 0}
    colours, cards = Colours.fitted(np.stack([view.shown_at_peak(load) for load in ranked.loads])), []
    for i, (name, gain) in enumerate(zip(map(unit_symbol, ranked.names[:MOST]), ranked.gains, strict=False)):
        figure = Figure(view, colours, f"next-{i}", name, "load", unit, shown=i, width=240)
        share = min(max(float(gain), 0.0), 1.0)
        cards.append({"figure": figure, "name": name, "gain": percent(float(gain)), "share": round(100 * share, 1)})
    return {"cards": cards, "total": len(ranked.names)}


def sentences(discovery: Discovery) -> list[str]:
    """The statements after that on coverage, which has its own box; numbers stay on the line of their unit."""
    units = [text for text in (" %", unit_text(discovery.material.unit)) if text]
    lines = list(statements(discovery)[1:])
    for text in units:
        lines = [line.replace(text, text.replace(" ", "\u00a0")) for line in lines]
    return lines


def environment() -> "Environment":
    """Of the templates."""
    with needing("jinja2", extra="report"):
        from jinja2 import Environment, PackageLoader, StrictUndefined
    loader = PackageLoader("nipde.report.page", "files")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals.update(capitalised=capitalised, number=number, unit_symbol=unit_symbol, unit_text=unit_text)
    return made


def text_of(name: str) -> str:
    """A file of the page."""
    return (files("nipde.report.page") / "files" / name).read_text(encoding="utf-8")


def _json(data: dict[str, object]) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _ramps(tables: dict[str, list[str]]) -> dict[str, list[tuple[float, str]]]:
    """Offsets and colours of the gradients beside maps."""
    return {
        name: [(i / (STOPS - 1), colours[round(254 * i / (STOPS - 1))]) for i in range(STOPS)]
        for name, colours in tables.items()
    }


def flat(record: dict[str, object], above: str = "") -> Iterator[tuple[str, str]]:
    """Names and values as text, those of inner records after their outer name."""
    for name, value in record.items():
        full = f"{above}{name}"
        if isinstance(value, dict):
            yield from flat(value, f"{full} › ")
        elif isinstance(value, list | tuple) and any(isinstance(one, dict) for one in value):
            yield from flat({str(i + 1): one for i, one in enumerate(value)}, f"{full} › ")
        elif isinstance(value, list | tuple):
            yield full, ", ".join(map(str, value))
        else:
            yield full, number(value) if isinstance(value, float) else str(value)

"""A discovery as one page of HTML: nothing to fetch, readable without a script, by eye, keyboard and screen reader."""

import base64
import hashlib
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING

from nipde.discovery.discovery import Discovery
from nipde.errors import needing
from nipde.report.numbers import number, unit_symbol, unit_text
from nipde.report.page.colours import hex_colours
from nipde.report.page.material import material_section, rows
from nipde.report.page.pairs import held_out, reading
from nipde.report.page.sections import baselines, outlier_check, recommended_loads
from nipde.report.page.view import View
from nipde.report.statements import statements

if TYPE_CHECKING:
    from jinja2 import Environment

#: Colours in the ramps beside maps.
STOPS = 17


def page(discovery: Discovery) -> str:
    """The whole report; write it to `report.html` and open it anywhere."""
    environment, view = _environment(), View(discovery.measurement)
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
    script = _text("page.js")
    return environment.get_template("template.html.j2").render(
        discovery=discovery, view=view, statements=statements(discovery), check=outlier_check(discovery),
        reading=pairs, material_section=material, rows=kernel, held_out=predicted,
        baselines=baselines(discovery, view), recommended_loads=recommended_loads(discovery, view),
        provenance=list(flat({"estimator": discovery.estimator} | discovery.provenance)), ramps=_ramps(tables),
        style=_text("page.css"), script=script, data=_json(data),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )  # fmt: skip


def _environment() -> "Environment":
    with needing("jinja2", extra="report"):
        from jinja2 import Environment, PackageLoader, StrictUndefined
    loader = PackageLoader("nipde.report.page", "files")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals.update(number=number, unit_symbol=unit_symbol, unit_text=unit_text)
    return made


def _text(name: str) -> str:
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

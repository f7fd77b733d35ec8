"""Sensors that a fit left out, as a sentence and for summary.json: where they are and what seems wrong with them."""

from typing import Any

import numpy as np

from nipde.discovery.discovery import Discovery
from nipde.report.numbers import number, unit_text
from nipde.report.phases import fit_summary


def faulty_sensors(discovery: Discovery) -> list[dict[str, Any]]:
    """Positions in the coordinates of the files; empty where none was left out."""
    origin = np.array(discovery.measurement.origin)
    found = (fit_summary(discovery.kernel) or {}).get("faulty_sensors", [])
    places = {one["number"]: (np.array(one["position"]) + origin).tolist() for one in found}
    return [
        {
            "position": places[one["number"]], "deviations": one["deviations"], "fault": one["fault"],
            "amount": None if one["fault"] == "exchanged" else one["amount"],
            "exchanged_with": places[int(one["amount"])] if one["fault"] == "exchanged" else None,
        }
        for one in found
    ]  # fmt: skip


def faulty_sensors_statement(discovery: Discovery) -> str:
    """Which they are; empty where none was left out."""
    found = faulty_sensors(discovery)
    if not found:
        return ""
    which = "; ".join(f"the one {_at(discovery, one['position'])} {_fault(discovery, one)}" for one in found)
    return f"{left_out(discovery)} All others contradict {'it' if len(found) == 1 else 'them'}: {which}."


def left_out(discovery: Discovery) -> str:
    """How many they are; empty where none was left out."""
    count = len(faulty_sensors(discovery))
    return f"{'One sensor was' if count == 1 else f'{count} sensors were'} left out as faulty." if count else ""


def _fault(discovery: Discovery, one: dict[str, Any]) -> str:
    unit, off = unit_text(discovery.measurement.units.response), f"off by {one['deviations']:.0f} deviations"
    match one["fault"]:
        case "stuck":
            return f"reads {number(one['amount'])}{unit} in all pairs ({off})"
        case "exchanged":
            return f"reads what the one {_at(discovery, one['exchanged_with'])} should; exchanged? ({off})"
        case "gain":
            sign = "; wrong sign?" if one["amount"] < 0 else ""
            return f"reads {number(one['amount'])} times what it should{sign} ({off})"
        case "offset":
            return f"is off by {number(one['amount'])}{unit} in all pairs ({off})"
    return f"reads other values in every pair; wrong position or contact? ({off})"


def _at(discovery: Discovery, position: list[float]) -> str:
    places = ", ".join(f"{x:.4g}" for x in position)
    return f"at ({places}){unit_text(discovery.measurement.units.length)}"

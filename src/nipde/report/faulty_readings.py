"""Sensors and pairs that a fit left out, as a sentence and for summary.json: which, and what seems wrong with them."""

from typing import Any

import numpy as np

from nipde.discovery.discovery import Discovery
from nipde.report.numbers import number, unit_text
from nipde.report.phases import fit_summary


def faulty_sensors(discovery: Discovery) -> list[dict[str, Any]]:
    """Positions in the coordinates of the files; empty where none was left out."""
    origin = np.array(discovery.measurement.origin)
    found = _left_out(discovery, "faulty_sensors")
    places = {one["number"]: (np.array(one["position"]) + origin).tolist() for one in found}
    return [{"position": places[one["number"]], **_cause(one, places)} for one in found]


def faulty_pairs(discovery: Discovery) -> list[dict[str, Any]]:
    """Numbers from 0; empty where none was left out."""
    found = _left_out(discovery, "faulty_pairs")
    numbers = {one["number"]: one["number"] for one in found}
    return [{"pair": one["number"], **_cause(one, numbers)} for one in found]


def faulty_readings_statement(discovery: Discovery) -> str:
    """Which they are; empty where none was left out."""
    which = [
        *(f"the sensor {_at(discovery, one['position'])} {_of_sensor(discovery, one)}"
          for one in faulty_sensors(discovery)),
        *(f"pair {one['pair'] + 1} {_of_pair(discovery, one)}" for one in faulty_pairs(discovery)),
    ]  # fmt: skip
    return f"{left_out(discovery)} All others contradict {'it' if len(which) == 1 else 'them'}: {'; '.join(which)}." \
        if which else ""  # fmt: skip


def left_out(discovery: Discovery) -> str:
    """How many they are; empty where none was left out."""
    counted = [(len(faulty_sensors(discovery)), "sensor"), (len(faulty_pairs(discovery)), "pair")]
    parts = [f"{count} {name}{'s' if count > 1 else ''}" for count, name in counted if count]
    single = sum(count for count, _ in counted) == 1
    return f"{' and '.join(parts)} {'was' if single else 'were'} left out as faulty." if parts else ""


def _left_out(discovery: Discovery, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (fit_summary(discovery.kernel) or {}).get(name, [])
    return found


def _cause(one: dict[str, Any], places: dict[int, Any]) -> dict[str, Any]:
    exchanged = one["fault"] == "exchanged"
    return {
        "deviations": one["deviations"], "fault": one["fault"], "amount": None if exchanged else one["amount"],
        "exchanged_with": places[int(one["amount"])] if exchanged else None,
    }  # fmt: skip


def _of_sensor(discovery: Discovery, one: dict[str, Any]) -> str:
    unit, off = unit_text(discovery.measurement.units.response), f"off by {one['deviations']:.0f} deviations"
    match one["fault"]:
        case "stuck":
            return f"reads {number(one['amount'])}{unit} in all pairs ({off})"
        case "exchanged":
            return f"reads what that {_at(discovery, one['exchanged_with'])} should; exchanged? ({off})"
        case "gain":
            sign = "; wrong sign?" if one["amount"] < 0 else ""
            return f"reads {number(one['amount'])} times what it should{sign} ({off})"
        case "offset":
            return f"is off by {number(one['amount'])}{unit} in all pairs ({off})"
    return f"reads other values in every pair; wrong position or contact? ({off})"


def _of_pair(discovery: Discovery, one: dict[str, Any]) -> str:
    unit, off = unit_text(discovery.measurement.units.response), f"off by {one['deviations']:.0f} deviations"
    match one["fault"]:
        case "stuck":
            return f"has responses of {number(one['amount'])}{unit} everywhere ({off})"
        case "exchanged":
            return f"has the responses that pair {one['exchanged_with'] + 1} should have; exchanged? ({off})"
        case "gain":
            sign = ", with the wrong sign" if one["amount"] < 0 else ""
            return f"has {number(abs(one['amount']))} times the responses to its load{sign}; another load? ({off})"
        case "offset":
            return f"is off by {number(one['amount'])}{unit} everywhere ({off})"
    return f"does not have the responses to its load; another load, or another place of it? ({off})"


def _at(discovery: Discovery, position: list[float]) -> str:
    places = ", ".join(f"{x:.4g}" for x in position)
    return f"at ({places}){unit_text(discovery.measurement.units.length)}"

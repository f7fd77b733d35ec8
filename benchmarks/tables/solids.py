"""Mechanical MNIST and tissue: errors of every estimator, larger loads, noise, and the identified material."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import read_record
from benchmarks.tables.markdown import percent, provenance, table

Row = dict[str, Any]
PROBLEMS = {"mmnist": "Mechanical MNIST", "tissue": "Tissue"}
#: Records of what needs no training and of networks, in the order of their budgets.
SOURCES = ("solids-quick", "solids-standard")
#: Names of estimators in the records -> in the tables.
NAMES = {
    "equilibrium gap": "equilibrium gap",
    "linear elasticity, equilibrium gap": "equilibrium gap, linear elasticity",
    "displacements of a body": "output error",
}


def solids_together(results: Path) -> str:
    """One look at the records of all budgets."""
    records = [read_record(results, name) for name in SOURCES]
    return solids(longest([record["measured"] for record in records])) + "".join(map(provenance, records))


def longest(measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What was measured within several budgets as one: networks as trained longest."""
    rows = {row["name"]: row for one in measured for row in one["rows"]}
    return {**measured[0], "rows": list(rows.values())}


def solids(measured: dict[str, Any]) -> str:
    """One table per problem, then the identified material."""
    parts = []
    for problem, title in PROBLEMS.items():
        rows = [row for row in measured["rows"] if row["problem"] == problem and row["label"] != "minimum norm"]
        if rows:
            specimens = rows[0]["test"]["systems"]
            parts += [
                f"**{title}, {measured['context']} pairs, {specimens} test specimens**\n",
                _errors(measured, rows),
            ]
    parts += [_digits(measured), _fibres(measured)]
    pending = f" Not run yet: {', '.join(measured['pending'])}." if measured["pending"] else ""
    return "\n".join([part for part in parts if part] + [f"\nMinutes are of processor time, one thread.{pending}\n"])


def _errors(measured: dict[str, Any], rows: list[Row]) -> str:
    """Held-out errors as trained, under larger loads, on responses of finer elements, and with noise."""
    columns = _other_settings(measured, rows[0]["problem"])
    ordered = sorted(rows, key=lambda row: -row["test"]["held_out"]["mean"])
    cells = []
    for row in ordered:
        test, label = row["test"], row["label"]
        length = (f"{row['recipe']['minutes']:g}", f"{row['steps']:,}") if row["trained"] else ("", "")
        cells.append((
            NAMES.get(label, label), "" if row["paper"] is None else f"{row['paper']:.2f} %",
            percent(test["in_context"]["mean"]), percent(test["held_out"]["mean"]),
            *(column.get(label, "") for column in columns.values()), *length,
        ))  # fmt: skip
    return table(("estimator", "paper, in context", "in context", "held out", *columns, "minutes", "steps"), cells)


def _other_settings(measured: dict[str, Any], problem: str) -> dict[str, dict[str, str]]:
    """Head of a column -> held-out error by estimator."""
    columns: dict[str, dict[str, str]] = {}
    for entry in (entry for entry in _larger(measured) if entry["problem"] == problem):
        columns[f"{entry['amplitude']:g} × loads"] = {row["label"]: _held_out(row) for row in entry["rows"]}
    for one in (one for one in measured.get("meshes", []) if one["problem"] == problem):
        columns["finer elements"] = {label: percent(error) for label, error in one["settings"][-1]["held_out"].items()}
    for entry in (entry for entry in measured["noises"] if entry["problem"] == problem):
        columns[f"{100 * entry['noise']:g} % noise"] = {row["label"]: _held_out(row) for row in entry["rows"]}
    return columns


def _larger(measured: dict[str, Any]) -> list[Row]:
    """Errors under larger loads: of estimators without training, and of networks, which stand in their own rows."""
    entries = [{**entry, "rows": list(entry["rows"])} for entry in measured["amplitudes"]]
    for row in measured["rows"]:
        for amplitude, test in row.get("larger", {}).items():
            which = {"problem": row["problem"], "amplitude": float(amplitude)}
            entry = next((entry for entry in entries if which.items() <= entry.items()), None)
            if entry is None:
                entries.append(entry := {**which, "rows": []})
            entry["rows"].append({"label": row["label"], "test": test})
    return entries


def _held_out(row: Row) -> str:
    return percent(row["test"]["held_out"]["mean"]) if "test" in row else "no answer"


METHODS = ("displacements of a body", "equilibrium gap", "linear elasticity")


def _digits(measured: dict[str, Any]) -> str:
    cells = [
        (setting, NAMES.get(name, name), percent(one["modulus_error"]), percent(one["worst"]),
         f"{one['correct']} of {specimens}", _within(one))
        for setting, specimens, name, one in _material(measured, "mmnist")
    ]  # fmt: skip
    head = ("setting", "map of moduli", "error", "worst specimen", "digits recognised", "cells within 90 % bands")
    return "**Moduli of the digit**\n\n" + table(head, cells) if cells else ""


def _fibres(measured: dict[str, Any]) -> str:
    names = ("angle_median", "angle_worst_decile", "line_median", "line_worst_decile", "cell_median")
    cells = [
        (setting, NAMES.get(name, name), *(f"{one[what]:.2g}°" for what in names), _within(one))
        for setting, _, name, one in _material(measured, "tissue")
    ]
    head = ("setting", "body", "fibre angles, median", "worst decile", "line, median", "worst decile",
            "angle in a cell, median", "cells within 90 % bands")  # fmt: skip
    return "**Fibre directions**\n\n" + table(head, cells) if cells else ""


def _material(measured: dict[str, Any], problem: str) -> list[tuple[str, int, str, dict[str, Any]]]:
    """Setting, specimens, method and its errors."""
    return [
        (f"{setting['pairs']} pairs, {_noise(setting['noise'])}", setting["specimens"], name, setting[name])
        for one in measured["material"] if one["problem"] == problem
        for setting in one["settings"]
        for name in METHODS if name in setting
    ]  # fmt: skip


def _within(one: dict[str, Any]) -> str:
    return "" if one["within"] is None else f"{100 * one['within']:.0f} %"


def _noise(share: float) -> str:
    return f"{100 * share:g} % noise" if share else "no noise"

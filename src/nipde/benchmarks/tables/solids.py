"""Mechanical MNIST and tissue: errors of every estimator, larger loads, and what is inside."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nipde.benchmarks.record import read_record
from nipde.benchmarks.tables.learning import trends
from nipde.benchmarks.tables.markdown import percent, provenance, table

Row = dict[str, Any]
PROBLEMS = {"mmnist": "Mechanical MNIST", "tissue": "Tissue"}
#: Records of what needs no training and of networks, in the order of their budgets.
SOURCES = ("solids-quick", "solids-standard")


def solids_together(results: Path) -> str:
    """One look at the records of all budgets."""
    records = [read_record(results, name) for name in SOURCES]
    return solids(longest([record["measured"] for record in records])) + "".join(map(provenance, records))


def longest(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What was measured within several budgets as one: networks as trained longest."""
    rows = {row["name"]: row for one in found for row in one["rows"]}
    return {**found[0], "rows": list(rows.values())}


def solids(found: dict[str, Any]) -> str:
    """One table per problem, one of amplitudes, one of what was found inside."""
    parts = []
    for problem, title in PROBLEMS.items():
        rows = [row for row in found["rows"] if row["problem"] == problem]
        if rows:
            parts += [
                f"**{title}, {found['context']} pairs, {rows[0]['test']['systems']} test specimens**\n",
                _rows(rows),
            ]
    parts += [
        _compared(found["rows"], _larger(found), "amplitude", "under larger loads", "{:g} × the loads".format),
        _compared(found["rows"], found["noises"], "noise", "with noise", _noise), _meshes(found), _digits(found),
        _fibres(found), _sets(found),
    ]  # fmt: skip
    parts.append(trends({f"{PROBLEMS[row['problem']]}, {row['label']}": row for row in found["rows"]}))
    pending = f" Not run yet: {', '.join(found['pending'])}." if found["pending"] else ""
    return "\n".join([part for part in parts if part] + [f"\nMinutes are of processor time, one thread.{pending}\n"])


def _rows(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in sorted(rows, key=lambda row: -row["test"]["held_out"]["mean"]):
        test = row["test"]
        length = (f"{row['recipe']['minutes']:g}", f"{row['steps']:,}") if row["trained"] else ("", "")
        cells.append((
            row["label"], f"{row['parameters']:,}" if row["trained"] else "none trained",
            "" if row["paper"] is None else f"{row['paper']:.2f} %",
            percent(test["in_context"]["mean"]), percent(test["held_out"]["mean"]),
            f"{percent(test['held_out']['low'])} to {percent(test['held_out']['high'])}",
            percent(test["worst_decile"]["mean"]), *length, f"{test['seconds_per_system']:.2g} s",
        ))  # fmt: skip
    head = ("estimator", "parameters", "paper, in context", "in context", "held out", "90 % interval", "worst decile",
            "minutes", "steps", "per specimen")  # fmt: skip
    return table(head, cells)


def _larger(found: dict[str, Any]) -> list[Row]:
    """What estimators that need no training say of larger loads, and networks in their own rows."""
    entries = [{**entry, "rows": list(entry["rows"])} for entry in found["amplitudes"]]
    for row in found["rows"]:
        for amplitude, test in row.get("larger", {}).items():
            which = {"problem": row["problem"], "amplitude": float(amplitude)}
            entry = next((entry for entry in entries if which.items() <= entry.items()), None)
            if entry is None:
                entries.append(entry := {**which, "rows": []})
            entry["rows"].append({"label": row["label"], "test": test})
    return entries


def _compared(usual: Sequence[Row], others: Sequence[Row], what: str, title: str, head: Callable[[float], str]) -> str:
    """Held-out errors of all estimators, one column per value of `what`."""
    parts = []
    for problem, name in PROBLEMS.items():
        entries = {entry[what]: entry["rows"] for entry in others if entry["problem"] == problem}
        if not entries:
            continue
        first = {row["label"]: row["test"]["held_out"]["mean"] for row in usual if row["problem"] == problem}
        columns = [{row["label"]: row for row in rows} for rows in entries.values()]
        cells = [
            (
                label,
                percent(first[label]) if label in first else "",
                *(_held_out(column.get(label)) for column in columns),
            )
            for label in [*sorted(first, key=lambda label: -first[label]), *sorted(set(columns[0]) - set(first))]
            if any(label in column for column in columns)
        ]
        specimens = next(row["test"]["systems"] for column in columns for row in column.values() if "test" in row)
        heads = ("held out", "as above", *(f"{head(value)}, {specimens} specimens" for value in entries))
        parts += [f"**{name} {title}**\n", table(heads, cells)]
    return "\n".join(parts)


def _meshes(found: dict[str, Any]) -> str:
    parts = []
    for one in found.get("meshes", []):
        settings = one["settings"]
        names = [_elements(setting["degree"], setting["refine"]) for setting in settings]
        cells = [("responses against those above", *(percent(setting["difference"]) for setting in settings))]
        first = settings[0]["held_out"]
        cells += [
            (label, *(percent(setting["held_out"][label]) for setting in settings))
            for label in sorted(first, key=lambda label: -first[label])
        ]
        title = f"{PROBLEMS[one['problem']]}, responses of finer elements than estimators assume"
        parts += [f"**{title}, {settings[0]['specimens']} specimens**\n", table(("held out", *names), cells)]
    return "\n".join(parts)


def _elements(degree: int, refine: int) -> str:
    of = {1: "Q4", 2: "Q9"}[degree]
    return f"{of}, one per cell" if refine == 1 else f"{of}, {refine * refine} per cell"


def _held_out(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return percent(row["test"]["held_out"]["mean"]) if "test" in row else "no answer"


METHODS = ("displacements of a body", "balance of forces", "linear elasticity", "true map")


def _digits(found: dict[str, Any]) -> str:
    cells = [
        (setting, name, percent(one["modulus_error"]), percent(one["worst"]), f"{one['correct']} of {specimens}",
         _within(one))
        for setting, specimens, name, one in _inside(found, "mmnist")
    ]  # fmt: skip
    head = ("setting", "map of moduli", "error", "worst specimen", "digits recognised", "cells within 90 % bands")
    return "**The digit inside**\n\n" + table(head, cells) if cells else ""


def _fibres(found: dict[str, Any]) -> str:
    names = ("angle_median", "angle_worst_decile", "line_median", "line_worst_decile", "cell_median")
    cells = [
        (setting, name, *(f"{one[what]:.2g}°" for what in names), _within(one))
        for setting, _, name, one in _inside(found, "tissue")
    ]
    head = ("setting", "body", "fibre angles, median", "worst decile", "line, median", "worst decile",
            "angle in a cell, median", "cells within 90 % bands")  # fmt: skip
    return "**The fibres inside**\n\n" + table(head, cells) if cells else ""


def _inside(found: dict[str, Any], problem: str) -> list[tuple[str, int, str, dict[str, Any]]]:
    """Setting, specimens, method and what it found."""
    return [
        (f"{setting['pairs']} pairs, {_noise(setting['noise'])}", setting["specimens"], name, setting[name])
        for one in found["inside"] if one["problem"] == problem
        for setting in one["settings"]
        for name in METHODS if name in setting
    ]  # fmt: skip


def _within(one: dict[str, Any]) -> str:
    return "" if one["within"] is None else f"{100 * one['within']:.0f} %"


def _sets(found: dict[str, Any]) -> str:
    cells = [
        (PROBLEMS[one["problem"]], f"{one['systems']}", f"{one['solves']:,}", f"{one['unsolved']}",
         f"{one['largest_residual']:.1e}", f"{one['iterations']:.2g}, at most {one['most_iterations']}",
         f"{one['smallest_jacobian']:.2g}", f"{one['damaged_files']}",
         f"{'the same' if one['subset']['same'] else 'different'} ({one['subset']['systems']} systems)")
        for one in found["sets"]
    ]  # fmt: skip
    head = ("data set", "specimens", "solves", "not converged", "largest residual", "iterations", "smallest J",
            "damaged files", "digest, 1 and 2 workers")  # fmt: skip
    return "**The data sets**\n\n" + table(head, cells) if cells else ""


def _noise(share: float) -> str:
    return f"{100 * share:g} % noise on the displacements" if share else "no noise"

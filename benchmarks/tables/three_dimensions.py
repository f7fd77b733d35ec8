"""Table of conduction in a cube."""

from typing import Any

from benchmarks.tables.markdown import percent, table


def three_dimensions(measured: dict[str, Any]) -> str:
    """Weights conduction-3d and total variation side by side."""
    rows = []
    for row in measured["rows"]:
        if not row["systems"]:
            continue
        rows += [
            (row["kind"], "conduction-3d", _count(row, "held_out"), _share(row["held_out"]), _number(row["log_error"]),
             _share(row["phases_right"]), *(_band(row, name) for name in ("responses", "material"))),
            ("", "total variation", _count(row, "variation_held_out"), _share(row["variation_held_out"]),
             _number(row["variation_log_error"]), _share(row["variation_phases_right"]), "", ""),
        ]  # fmt: skip
    head = ("material", "by", "systems", "held-out error", "mean error of log b", "nodes in the right phase",
            "responses within bands", "log b within bands")  # fmt: skip
    nodes, pairs, bands = measured["nodes"], measured["pairs"], measured["rows"][-1]["material_within_systems"]
    return table(head, rows) + (
        f"\n{nodes}³ nodes, {pairs} pairs, noise {percent(measured['noise'])}, contrasts 2 to 10; bands of "
        f"{percent(measured['level'])}, those of log b on {bands} systems. In brackets: the multiple of the half width "
        "that holds as much as stated.\n"
    )


def _count(row: dict[str, Any], name: str) -> str:
    return str(row[f"{name}_systems"])


def _band(row: dict[str, Any], name: str) -> str:
    if row[f"{name}_within"] is None:
        return ""
    return f"{percent(row[f'{name}_within'])} ({row[f'{name}_needed']:.2f})"


def _share(value: float | None) -> str:
    return "" if value is None else percent(value)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"

"""The table of damaged files."""

from typing import Any

from benchmarks.tables.markdown import table


def fuzz(measured: dict[str, Any]) -> str:
    """By format: how many got through each stage, and how many the child did not survive; the caller survived all."""
    rows = [
        (row["format"], *(f"{row[stage]:,}" for stage in ("inputs", "parsed", "interpreted")), row["deaths"],
         row["hangs"])
        for row in measured["rows"]
    ]  # fmt: skip
    head = ("format", "damaged files", "parsed", "of these, interpreted as pairs", "child crashed", "child hung")
    untyped = measured["untyped"]
    return table(head, rows) + (
        f"\nAll others were refused, and the caller survived all {measured['inputs']:,}. Errors without "
        f"a type of ours: "
        f"{untyped['parse']} in parsing, {untyped['interpret']} in interpreting; calls over "
        f"{measured['slow_seconds']:g} "
        f"s: {measured['slow_calls']}, the slowest {measured['slowest_seconds']:.1f} s.\n"
    )


def hostile(measured: dict[str, Any]) -> str:
    """Kinds of input, and how they ended."""
    ends = ("inputs", "result", "typed error", "untyped error", "hang", "slowest_seconds")
    rows = [(row["kind"], *(f"{row[name]:,}" for name in ends)) for row in measured["rows"]]
    return table(("input", "mutated", "read", "typed error", "untyped error", "hang", "slowest, s"), rows)

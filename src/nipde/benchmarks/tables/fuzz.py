"""The table of damaged files."""

from typing import Any

from nipde.benchmarks.tables.markdown import table


def fuzz(found: dict[str, Any]) -> str:
    """By format: how many got through each stage, and how many the child did not survive; the caller survived all."""
    rows = [
        (row["format"], *(f"{row[stage]:,}" for stage in ("inputs", "parsed", "interpreted")), row["deaths"],
         row["hangs"])
        for row in found["rows"]
    ]  # fmt: skip
    head = ("format", "damaged files", "parsed", "of these, interpreted as pairs", "child crashed", "child hung")
    untyped = found["untyped"]
    return table(head, rows) + (
        f"\nAll others were refused, and the caller survived all {found['inputs']:,}. Errors without a type of ours: "
        f"{untyped['parse']} in parsing, {untyped['interpret']} in interpreting; calls over {found['slow_seconds']:g} "
        f"s: {found['slow_calls']}, the slowest {found['slowest_seconds']:.1f} s.\n"
    )

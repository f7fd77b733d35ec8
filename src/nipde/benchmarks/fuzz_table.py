"""The table of damaged files."""

from typing import Any

from nipde.benchmarks.markdown import table


def fuzz(found: dict[str, Any]) -> str:
    """By format: how many were read, and how many the child did not survive; the caller survived all of them."""
    rows = [
        (row["format"], f"{row['inputs']:,}", f"{row['read']:,}", f"{row['inputs'] - row['read']:,}", row["deaths"],
         row["hangs"])
        for row in found["rows"]
    ]  # fmt: skip
    head = ("format", "damaged files", "read", "refused", "of these, child crashed", "child hung")
    return table(head, rows) + (
        f"\nThe caller survived all {found['inputs']:,}; errors without a type of ours: {found['untyped']}; calls over "
        f"{found['slow_seconds']:g} s: {found['slow_calls']}, the slowest {found['slowest_seconds']:.1f} s.\n"
    )

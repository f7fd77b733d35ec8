"""Error against steps: what a power of their number says of networks that had minutes where the paper had hours."""

from collections.abc import Mapping
from typing import Any

from nipde.benchmarks.tables.markdown import table


def trends(rows: Mapping[str, Any]) -> str:
    """One line for every row by name that has a trend; nothing if none has."""
    cells = []
    for name, row in rows.items():
        if row.get("trend"):
            end, trend = row["curve"][-1], row["trend"]
            cells.append((
                name, f"{row['steps']:,}", f"{trend['power']:.2f}",
                *(f"{100 * end[what]:.3g} %" for what in ("loss", "in_context")),
                _steps(trend["steps_to_paper"], row["steps"]),
            ))  # fmt: skip
    if not cells:
        return ""
    head = ("in-context error", "steps", "power of the steps", "at the end, training systems", "validation systems",
            "steps to the paper's figure, by the trend")  # fmt: skip
    return "**Error against steps**\n\n" + table(head, cells)


def _steps(count: float | None, taken: int) -> str:
    if count is not None and count <= taken:
        return "fewer than taken"
    return f"{count:,.0f}" if count is not None and count < 1e7 else "beyond 10 million"

"""The table of formats, as Markdown."""

from typing import Any

from nipde.benchmarks.tables.markdown import table


def formats(found: dict[str, Any]) -> str:
    """One row for every format, one column for every state of a file."""
    rows = found["rows"]
    cases = list(dict.fromkeys(row["case"] for row in rows))
    passed = {(row["format"], row["case"]): row["passed"] for row in rows}
    names = list(dict.fromkeys(row["format"] for row in rows))
    lines = [(f"`{name}`", *("as documented" if passed[name, case] else "**no**" for case in cases)) for name in names]
    return table(("format", *cases), lines) + (
        f"\n{found['required_passed']} of {found['required']} required, {found['passed']} of {len(rows)} in all.\n"
    )

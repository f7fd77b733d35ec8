"""The table of formats, as Markdown."""

from typing import Any

from benchmarks.tables.markdown import table


def formats(measured: dict[str, Any]) -> str:
    """One row for every format, one column for every state of a file."""
    rows = measured["rows"]
    cases = list(dict.fromkeys(row["case"] for row in rows))
    passed = {(row["format"], row["case"]): row["passed"] for row in rows}
    names = list(dict.fromkeys(row["format"] for row in rows))
    lines = [(f"`{name}`", *("as documented" if passed[name, case] else "**no**" for case in cases)) for name in names]
    return table(("format", *cases), lines) + (
        f"\n{measured['required_passed']} of {measured['required']} required, {measured['passed']} of "
        f"{len(rows)} in all.\n"
    )

"""The table of mistakes, as Markdown."""

from typing import Any

from nipde.benchmarks.tables.markdown import table

OUTCOMES = {
    "error": "typed error: file, expected, got, remedy",
    "warning": "warning in the printed interpretation",
    "shown": "cannot be known, shown in the printed interpretation",
}


def mistakes(found: dict[str, Any]) -> str:
    """How many ended how, and what was said to one of each end."""
    rows = []
    for outcome, words in OUTCOMES.items():
        example = next((row for row in found["rows"] if row["outcome"] == outcome and row["found"]), None)
        said = f"{example['mistake']}: “{_cell(example['said'])}”" if example else "–"
        rows.append((words, found[outcome], said))
    return table((f"{found['trials']} mistakes of {found['kinds']} kinds", "times", "for example"), rows) + (
        f"\nFound out as required: {found['found']} of {found['trials']}.\n"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

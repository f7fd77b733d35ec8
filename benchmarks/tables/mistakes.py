"""The table of mistakes, as Markdown."""

from typing import Any

from benchmarks.tables.markdown import table

OUTCOMES = {
    "error": "typed error: file, expected, got, remedy",
    "warning": "warning in the printed interpretation",
    "shown": "cannot be known, shown in the printed interpretation",
}


def mistakes(measured: dict[str, Any]) -> str:
    """How many ended how, and what was said to one of each end."""
    rows = []
    for outcome, words in OUTCOMES.items():
        example = next((row for row in measured["rows"] if row["outcome"] == outcome and row["detected"]), None)
        said = f"{example['mistake']}: “{_cell(example['message'])}”" if example else "–"
        rows.append((words, measured[outcome], said))
    return table((f"{measured['trials']} mistakes of {measured['kinds']} kinds", "times", "for example"), rows) + (
        f"\nDetected as required: {measured['detected']} of {measured['trials']}.\n"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

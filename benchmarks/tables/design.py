"""The table of chosen loads, as Markdown."""

from typing import Any

from benchmarks.tables.markdown import table

WAYS = {
    "design": "greedy, of 150 candidates",
    "principal": "principal loads",
    "informative": "A-optimal, homogeneous medium",
    "tuned": "tuned on examples",
}


def design(measured: dict[str, Any]) -> str:
    """One row for every model, noise and way to choose."""
    rows = [row for one in measured["rows"] for row in _rows(one)]
    count = measured["designed"]
    head = ("weights", "noise", "design", "held out", "equivalent random loads")  # fmt: skip
    return table(head, rows) + (
        f"\n{count} loads; {measured['tests']} test systems at {measured['nodes']}², {measured['queries']} loads held "
        f"out; in brackets 90 % intervals over systems. Descents take {measured['steps']} steps; tuning uses "
        f"{measured['examples']} other systems.\n"
    )


def _rows(one: dict[str, Any]) -> list[tuple[str, ...]]:
    of = {"sensor": "fixed sensor", "own": "of own responses"}[one["noise_of"]]
    noise = "none" if one["noise"] == 0 else f"{100 * one['noise']:g} %, {of}"
    random = {entry["pairs"]: entry["held_out"]["mean"] for entry in one["random"]}
    return [
        (f"`{one['weights']}`", noise, WAYS[entry["by"]], _percent(entry["held_out"]["mean"]),
         _count(entry["equivalent"], (min(random), max(random))))
        for entry in one["designed"]
    ]  # fmt: skip


def _count(equivalent: dict[str, float], ends: tuple[int, int]) -> str:
    if equivalent["value"] <= ends[0]:
        return f"fewer than {ends[0]}"
    if equivalent["value"] >= ends[1]:
        return f"more than {ends[1]}"
    return f"{equivalent['value']:.1f} ({equivalent['low']:.1f} to {equivalent['high']:.1f})"


def _percent(share: float) -> str:
    """Three digits: the differences are small."""
    return f"{100 * share:.3g} %"

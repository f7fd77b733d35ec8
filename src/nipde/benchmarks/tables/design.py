"""The table of chosen loads, as Markdown."""

from typing import Any

from nipde.benchmarks.tables.markdown import table

WAYS = {
    "design": "one after another, of 100 waves and 50 random loads",
    "principal": "the best of all loads in the metric",
    "informative": "what tells most about an even medium",
    "tuned": "tuned on example systems",
}


def design(found: dict[str, Any]) -> str:
    """One row for every model, noise and way to choose."""
    rows = [row for one in found["rows"] for row in _rows(one, found["chosen"])]
    count = found["chosen"]
    head = ("weights", "noise", f"{count} loads chosen", f"{count} random loads: held out",
            f"{count} chosen loads: held out", "as many random loads give the same")  # fmt: skip
    return table(head, rows) + (
        f"\n{found['tests']} test systems at {found['nodes']}², {found['queries']} loads held out; in brackets "
        f"90 % intervals over systems. Descents take {found['steps']} steps; tuning uses {found['examples']} other "
        "systems.\n"
    )


def _rows(one: dict[str, Any], count: int) -> list[tuple[str, ...]]:
    of = {"sensor": "the same sensor for all", "own": "of their own responses"}[one["noise_of"]]
    noise = "none" if one["noise"] == 0 else f"{100 * one['noise']:g} %, {of}"
    random = {entry["pairs"]: entry["held_out"]["mean"] for entry in one["random"]}
    return [
        (f"`{one['weights']}`", noise, WAYS[entry["by"]], _percent(random[count]), _percent(entry["held_out"]["mean"]),
         _count(entry["equivalent"], (min(random), max(random))))
        for entry in one["chosen"]
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

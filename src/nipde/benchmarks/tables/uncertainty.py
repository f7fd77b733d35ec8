"""Bands and the alarm as tables."""

from typing import Any

from nipde.benchmarks.tables.markdown import percent, table


def uncertainty(found: dict[str, Any]) -> str:
    """Coverage by stratum, coverage elsewhere, and who raises the alarm."""
    rows = found["rows"]
    strata = [row for row in rows if row["in_table"]]
    noises = sorted({row["noise"] for row in strata})
    at = {(row["pairs"], row["noise"]): row for row in strata}
    coverage = [
        (pairs, *(_shares(at[pairs, noise]) for noise in noises)) for pairs in sorted({row["pairs"] for row in strata})
    ]
    elsewhere = [
        (row["pairs"], percent(row["noise"]) if row["noise"] else "none", "told" if row["noise_told"] else "estimated",
         _whole(row["coverage"]), percent(row["width"]), _whole(row["raised"]))
        for row in rows if not row["in_table"]
    ]  # fmt: skip
    overall, lowest = found["overall"], found["lowest"]
    level = f"{100 * found['level']:g} %"
    return "\n".join([
        table(("pairs", *(f"noise {100 * noise:g} %" for noise in noises)), coverage),
        f"Share of true values within bands of {level}, inside / at the edge, and mean width of the bands over "
        f"the responses' root mean square. All strata together: {_whole(overall['coverage'])} (required 88 to 92 %), "
        f"the lowest {_whole(min(lowest['inside'], lowest['edge']))} (required 85 %); false alarms "
        f"{_whole(overall['raised'])} (required at most 5 %). {found['systems']} test systems at {found['nodes']}², "
        f"{found['queries']} loads each; calibrated on {found['calibration']['systems']} others.\n",
        table(("pairs", "noise", "noise is", f"within {level} bands", "width", "false alarms"), elsewhere),
        _alarms(found["strangers"]),
    ])  # fmt: skip


def _alarms(found: list[dict[str, Any]]) -> str:
    tried = list(dict.fromkeys((row["pairs"], row["noise"]) for row in found))
    raised = {(row["name"], row["pairs"], row["noise"]): row["raised"] for row in found}
    names = {row["name"]: row["required"] for row in found}
    rows = [
        (name, "≥ 95 %" if required else "–", *(_whole(raised[name, pairs, noise]) for pairs, noise in tried))
        for name, required in names.items()
    ]
    head = (f"raise the alarm, of {found[0]['systems']} systems", "required")
    return table((*head, *(f"d = {pairs}, noise {100 * noise:g} %" for pairs, noise in tried)), rows)


def _shares(row: dict[str, Any]) -> str:
    return f"{100 * row['inside']:.1f} / {100 * row['edge']:.1f} %; {percent(row['width'])}"


def _whole(share: float) -> str:
    return f"{100 * share:.1f} %"

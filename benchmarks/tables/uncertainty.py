"""Prediction bands and the outlier test as tables."""

from typing import Any

from benchmarks.tables.markdown import percent, table


def uncertainty(measured: dict[str, Any]) -> str:
    """Coverage by stratum, coverage with estimated noise, and detected outliers."""
    rows = measured["rows"]
    strata = [row for row in rows if row["in_table"]]
    noises = sorted({row["noise"] for row in strata})
    at = {(row["pairs"], row["noise"]): row for row in strata}
    coverage = [
        (pairs, *(_shares(at[pairs, noise]) for noise in noises)) for pairs in sorted({row["pairs"] for row in strata})
    ]
    elsewhere = [
        (row["pairs"], percent(row["noise"]) if row["noise"] else "none",
         _whole(row["coverage"]), percent(row["width"]), _whole(row["outliers"]))
        for row in rows if not row["noise_given"]
    ]  # fmt: skip
    overall, lowest = measured["overall"], measured["lowest"]
    level = f"{100 * measured['level']:g} %"
    return "\n".join([
        table(("pairs", *(f"noise {100 * noise:g} %" for noise in noises)), coverage),
        f"Share of true values within bands of {level}, inside / at the edge, and mean width of the bands over "
        f"the responses' root mean square. All strata together: {_whole(overall['coverage'])} "
        f"(required 88 to 92 %), the lowest {_whole(min(lowest['interior'], lowest['edge']))} (required 85 %); false "
        f"positives of the outlier test {_whole(overall['outliers'])} (required at most 5 %). "
        f"{measured['systems']} test systems at {measured['nodes']}², {measured['queries']} loads each; calibrated on "
        f"{measured['calibration']['systems']} others.\n",
        table(("pairs", "noise, estimated", f"within {level} bands", "width", "false positives"), elsewhere),
        _outliers(measured["out_of_distribution"]),
    ])  # fmt: skip


def _outliers(measured: list[dict[str, Any]]) -> str:
    tried = list(dict.fromkeys((row["pairs"], row["noise"]) for row in measured if row["noise"]))
    flagged = {(row["name"], row["pairs"], row["noise"]): row["outliers"] for row in measured}
    names = dict.fromkeys(row["name"] for row in measured)
    rows = [(name, *(_whole(flagged[name, pairs, noise]) for pairs, noise in tried)) for name in names]
    head = (f"detected outliers, of {measured[0]['systems']} systems",)
    return table((*head, *(f"d = {pairs}, noise {100 * noise:g} %" for pairs, noise in tried)), rows)


def _shares(row: dict[str, Any]) -> str:
    return f"{100 * row['interior']:.1f} / {100 * row['edge']:.1f} %; {percent(row['width'])}"


def _whole(share: float) -> str:
    return f"{100 * share:.1f} %"

"""Tables of plane solids on a test bench, simulated and measured, and of the measured tank."""

from statistics import mean, stdev
from typing import Any

from benchmarks.tables.markdown import percent, table


def tension(measured: dict[str, Any]) -> str:
    """Camera points to the modulus."""
    head = (
        "test", "material", "noise in px", "unknown", "specimens", "mean abs log E", "worst", "phases",
        "bands of 90 % hold", "calibrated ones", "χ²", "alarms", "mean error of ν", "Tikhonov", "total variation",
        "virtual fields: log E, ν", "processor time",
    )  # fmt: skip
    beside = {
        (row["row"].removesuffix(f", {row['penalty']}"), row["penalty"]): row
        for row in measured["rows"] if row["penalty"]
    }  # fmt: skip

    def other(row: dict[str, Any], penalty: str) -> str:
        found = beside.get((row["row"], penalty))
        return "" if found is None else f"{found['log_mean']:.3f} ({found['systems']})"

    rows = [
        (row["test"], row["material"], f"{row['noise']:g}", ", ".join(row["unknown"]), str(row["systems"]),
         f"{row['log_mean']:.4f}", f"{row['log_worst']:.4f}",
         f"{100 * row['phases_inside']:.1f} %" if row["material"] == "two phases" else "", percent(row["within"]),
         "" if row.get("within_calibrated") is None else percent(row["within_calibrated"]),
         f"{row['chi_square']:.2f}", str(round(row["rings"] * row["systems"])),
         "" if row["ratio_within"] is None else f"{row['ratio_error']:.4f}", other(row, "tikhonov"),
         other(row, "total-variation"), "{:.4f}, {:.4f}".format(*fields) if (fields := row["virtual_fields"]) else "",
         f"{row['seconds']:.0f} s")
        for row in measured["rows"] if not row["penalty"]
    ]  # fmt: skip
    return table(head, rows) + (
        f"\nLargest displacement {percent(measured['strain'])} of the field of view of {measured['pixels']:,} px; "
        "camera points on a lattice of 21². Truth: quadratic triangles of scikit-fem, "
        f"{measured['triangles']} along a side. Two phases 1 : 3. Of the penalties mean abs log E on the same mesh and "
        "points, in brackets on how many specimens.\n"
    )


def steel_plate(measured: dict[str, Any]) -> str:
    """A measured tensile test."""
    head = ("assumed", "points", "E in N/mm²", "ν", "noise in mm", "Σ ρ", "whiteness, z")
    rows = [
        (row["name"], f"{row['points']:,}", f"{row['modulus']:,.0f} ± {row['modulus_half']:,.0f}",
         f"{row['poisson']:.3f}" + (f" ± {row['poisson_half']:.3f}" if row["poisson_half"] else ""),
         f"{row['noise']:.5f}", f"{row['correlation']:.1f}", f"{row['scores']['whiteness']:.0f}")
        for row in measured["rows"]
    ]  # fmt: skip
    return table(head, rows) + (
        f"\nSteel S235 with a hole, 106.26 N/mm² on its ends; {measured['points']:,} measured points, of which a part "
        "is taken. ±: half width of the band of 90 %, widened by √Σρ for the correlation of the residuals.\n"
    )


def tank(measured: dict[str, Any]) -> str:
    """Scores by level."""
    phantoms = measured["phantoms"]
    head = ("level", "phantoms", "score of each", "sum", "certain pixels", "of these right", "processor time")
    rows = []
    for level, total in measured["levels"].items():
        each = [one for one in phantoms if str(one["level"]) == level]
        rows.append(
            (level, str(len(each)), ", ".join(f"{one['score']:.2f}" for one in each), f"{total:.2f}",
             percent(sum(one["certain"] for one in each) / len(each)),
             percent(sum(one["certain_right"] for one in each) / len(each)),
             f"{sum(one['seconds'] for one in each) / len(each):.1f} s")
        )  # fmt: skip
    what = "training phantoms, masked to all levels" if measured["training"] else "evaluation"
    return table(head, rows) + (
        f"\nTotal **{measured['total']:.2f}** of {len(phantoms)} ({what}). Certain: 95 % of the posterior of φ in one "
        "phase.\n"
    )


def tank_learned(measured: dict[str, Any]) -> str:
    """Sums by level: the inversion, three networks alone, their means with it, and it around each."""
    phantoms = measured["phantoms"]
    levels = sorted({one["level"] for one in phantoms})
    head = ("method", *(f"level {level}" for level in levels), "total", "certain pixels", "of these right, worst level")
    words = {
        "network": "network {}",
        "mean": "mean of network {} and inversion",
        "around": "inversion around network {}",
    }
    names = {"inversion": "inversion"} | {
        f"{word} {seed}": text.format(seed) for word, text in words.items() for seed in measured["trained"]
    }
    rows = [
        _tank_row(text, [{"level": one["level"], **one["methods"][name]} for one in phantoms], levels)
        for name, text in names.items()
    ]
    totals = [measured["totals"][f"mean {seed}"] for seed in measured["trained"]]
    trained = measured["trained"].values()
    what = "training phantoms, masked to all levels" if measured["training"] else "evaluation"
    return table(head, rows) + (
        f"\nOf {len(phantoms)} ({what}). Mean of network and inversion, {len(totals)} trainings: "
        f"**{mean(totals):.2f}** on average, deviation {stdev(totals):.2f}. Processor time: "
        f"{mean(one['seconds'] for one in phantoms):.1f} s for a phantom, "
        f"{mean(one['processor_seconds'] for one in trained) / 60:.0f} minutes for a training.\n"
    )


def _tank_row(name: str, each: list[dict[str, Any]], levels: list[int]) -> tuple[str, ...]:
    by_level = [[one for one in each if one["level"] == level] for level in levels]
    right = min(
        sum(one["certain"] * one["certain_right"] for one in some) / sum(one["certain"] for one in some)
        for some in by_level
    )
    return (
        name, *(f"{sum(one['score'] for one in some):.2f}" for some in by_level),
        f"{sum(one['score'] for one in each):.2f}", percent(mean(one["certain"] for one in each)), percent(right),
    )  # fmt: skip

"""Tables of the low-rank posterior: exactness, grids, cost, coverage."""

from typing import Any

from benchmarks.tables.markdown import percent, table


def posterior(measured: dict[str, Any]) -> str:
    """Against exact posteriors, between grids, and the cost."""
    coarse = measured["against_exact_coarse"]
    large = next(row for row in measured["grids"] if "exact" in row)
    exact = [
        (f"41², λ from {row['smallest']:g}", "dense inverse, 41²", row["rank"], *_apart(row))
        for row in measured["tolerances"]
    ]
    name, first = f"{large['nodes']}²", measured["smallest"]
    exact += [
        (f"{name}, λ from {first:g}", f"all readings, {name}", large["rank"], *_apart(large["exact"])),
        (f"{name}, λ from {first:g}", f"dense inverse, 41², prior of {name}", "", *_apart(coarse["same_prior"])),
        (f"{name}, λ from {first:g}", "dense inverse, 41², its own prior", "", *_apart(coarse["own_prior"])),
    ]
    exact += [
        (f"{row['nodes']}²{what}", f"{row['against']}², low rank", "", *_apart(apart))
        for row in measured["between_grids"] for what, apart in (("", row), (", means over patches", row["means"]))
    ]  # fmt: skip
    cost = [
        (f"{row['nodes']}²", row["rank"], row["solves"], row["products"], f"{row['left_out']:.2g}",
         *(f"{row['parts'][part]:.2g}" if row["parts"][part] < 100 else f"{row['parts'][part]:.0f}" for part in PARTS),
         f"{row['seconds']:.0f}", f"{row['peak_bytes'] / 1e9:.2g}")
        for row in measured["grids"]
    ]  # fmt: skip
    head = ("deviation on", "against", "rank", "median difference", "95 % of nodes below", "largest")
    return "\n".join([
        table(head, exact),
        f"{measured['sensors']} sensors, {measured['pairs']} loads, noise {percent(measured['noise'])}, log-normal b, "
        "Matérn prior. \"λ from\": directions of smaller eigenvalues are left out.\n",
        table(("unknowns", "rank", "solves", "products with J, Jᵀ", "Σ λ left out", "factor, s", "adjoint solutions, s",
               "eigenpairs, s", "deviation, s", "a sample, s", "all, s", "memory, GB"), cost),
        f"Processor time of one core; it grows as unknowns^{measured['exponent']:.2f} from 81² on."
    ]) + "\n"  # fmt: skip


PARTS = ("factor", "greens", "eigenpairs", "deviation", "sample")


def coverage(measured: dict[str, Any]) -> str:
    """Shares of cells within bands of 90 %."""
    rows = [
        (f"{row['intervals'] + 1}²", f"{100 * row['within']:.0f} %", f"{100 * row['within_inner']:.0f} %",
         f"{100 * row['lowest']:.0f} %", f"{row['deviation']:.3f}", f"{row['error']:.3f}", f"{row['rank']:.0f}")
        for row in measured["rows"]
    ]  # fmt: skip
    head = ("unknowns", "cells within bands of 90 %", "away from the rim", "lowest system", "median deviation",
            "root mean square error", "rank")  # fmt: skip
    return table(head, rows) + (
        f"\n{measured['systems']} systems, {measured['pairs']} loads, {measured['sensors']} sensors, noise "
        f"{percent(measured['noise'])}; log b in 160² cells.\n"
    )


def _apart(row: dict[str, float]) -> tuple[str, str, str]:
    return percent(row["median"]), percent(row["of_95"]), percent(row["largest_difference"])

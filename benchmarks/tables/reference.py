"""Table of the sensor inversion on reference data."""

from typing import Any

from benchmarks.tables.markdown import percent, table


def reference(measured: dict[str, Any]) -> str:
    """By row: held-out error, material against the solver's mesh, misfit, and shares within raw bands."""
    rows = [
        (
            row["row"], row["systems"], percent(row["held_out"]), percent(row["held_out_worst"]),
            f"{row['log_mean']:.3f}", f"{row['log_median']:.3f}", f"{100 * row['phases_inside']:.1f} %",
            f"{row['chi_square']:.2f}", percent(row["within"][2]),
            ", ".join(f"{count} {model}" for model, count in row["models"].items()), f"{row['seconds']:.0f}",
        )
        for row in measured["rows"] if row["systems"]
    ]  # fmt: skip
    head = ("row", "systems", "held out", "worst system", "mean abs error of log b", "median", "phases", "χ²",
            "within raw bands of 90 %", "models chosen", "seconds")  # fmt: skip
    return table(head, rows) + (
        "\n21² nodes, 50 pairs, 1 % noise and every node measured where a row does not say otherwise; "
        f"{measured['queries']} held-out loads, materials against the cells of the finite elements.\n"
    )

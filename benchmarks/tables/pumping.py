"""Tables of measured pumping tests."""

from math import exp
from typing import Any

from benchmarks.tables.markdown import percent, table


def pumping(measured: dict[str, Any]) -> str:
    """Transmissivity by what is assumed, slopes, reciprocity and tests left out."""
    return "\n".join([_transmissivity(measured), _late(measured), _reciprocity(measured), _left_out(measured)])


def _transmissivity(measured: dict[str, Any]) -> str:
    rows, names = measured["rows"], list(measured["wells"])
    head = ("assumed", *names, "largest change", "mean between the wells", "χ²", "parameters")
    lines = [
        (row["name"], *(f"{1e3 * one:.1f}" for one in row["wells"]),
         f"× {exp(row['apart']):.2f}" if number else "", f"{1e3 * row['mean']:.1f}",
         f"{row['chi_square']:.2f}", f"{row['effective_dof']:.1f} of {row['readings']}")
        for number, row in enumerate(rows)
    ]  # fmt: skip
    bands = (f"× or ÷ {one:.1f}" for one in rows[0]["factors"])
    lines.insert(1, ("its band of 90 %", *bands, "", "", "", ""))
    first, published = rows[0], measured["published"]
    one, others = first["thiem"], exp(published["log_transmissivity"])
    return table(head, lines) + (
        f"\nTransmissivity in 10⁻³ m²/s at the wells, model: {first['model']}. One value everywhere (Thiem, no "
        f"boundary): {1e3 * one['transmissivity']:.1f}, × or ÷ {one['factor']:.2f}; it leaves {one['residual']:.2f} "
        f"s/m² of the drawdown per rate, errors are {measured['error']:.2f}. Bands are not calibrated: "
        f"{', '.join(first['outside'])}. Published for the same tests, another model: geometric mean "
        f"{1e3 * others:.1f}, variance of log T {published['log_variance']:.1f}. First row: "
        f"{first['seconds']:.0f} s of processor time.\n"
    )


def _late(measured: dict[str, Any]) -> str:
    head = ("test", "rate in m³/s", "slope of all wells", "T by it, 10⁻³ m²/s", "wells that differ from it (own slope)")
    rows = []
    for test in measured["late"]:
        others = [f"{well} ({one['slope']:.2f} ± {one['slope_deviation']:.2f})"
                  for well, one in test["wells"].items() if not one["steady"]]  # fmt: skip
        rows.append((test["test"], f"{test['rate']:g}", f"{test['slope']:.2f}", f"{1e3 * test['by_slope']:.1f}",
                     f"{len(others)} of {len(test['wells'])}: {', '.join(others)}" if others else "none"))  # fmt: skip
    return table(head, rows) + f"\nSlopes of drawdown per rate with ln t, s/m², from {measured['since']:,.0f} s on.\n"


def _reciprocity(measured: dict[str, Any]) -> str:
    head = ("wells A and B", "at B by pumping A", "at A by pumping B", "difference", "scatter in time")
    rows = [
        (" and ".join(one["wells"]), *(f"{value:.2f}" for value in one["drawdowns"]), f"{one['gap']:+.2f}",
         f"± {one['deviation']:.2f}")
        for one in measured["reciprocity"]
    ]  # fmt: skip
    return table(head, rows) + (
        f"\nDrawdown per rate at {measured['at']:,.0f} s, s/m². Root mean square of the differences over √2: "
        f"**{measured['error']:.2f}**, taken as the error of a reading.\n"
    )


def _left_out(measured: dict[str, Any]) -> str:
    head = ("test left out", "smooth field", "one value everywhere", "all wells alike", "bands of 90 % hold")
    rows = [
        (one["test"], f"{one['smooth']:.2f}", f"{one['thiem']:.2f}", f"{one['spread']:.2f}",
         f"{round(one['within'] * one['readings'])} of {one['readings']}")
        for one in measured["left_out"]
    ]  # fmt: skip
    held = sum(round(one["within"] * one["readings"]) for one in measured["left_out"])
    count = sum(one["readings"] for one in measured["left_out"])
    return table(head, rows) + (
        "\nError of the predicted differences of drawdown per rate, root mean square over the wells, s/m². Bands hold "
        f"{percent(held / count)} of {count} readings.\n"
    )

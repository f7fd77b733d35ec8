"""Errors, bands and outlier tests on data of an independent discretisation as a table."""

from typing import Any

from benchmarks.tables.markdown import percent, table


def independent(measured: dict[str, Any]) -> str:
    """One row per estimator, family and noise; columns by kind of loads."""
    rows = measured["rows"]
    kinds = list(dict.fromkeys((row["load_alpha"], row["load_waves"]) for row in rows))
    at = {(row["estimator"], row["family"], row["noise"], (row["load_alpha"], row["load_waves"])): row for row in rows}
    settings = dict.fromkeys(key[:3] for key in at)
    cells = [
        (
            name,
            family,
            percent(noise) if noise else "none",
            *(_cell(at[name, family, noise, kind]) for kind in kinds),
        )
        for name, family, noise in sorted(settings, key=lambda key: (key[1] != "two-phase", key[2]))
    ]
    head = ("estimator", "material", "noise", *(f"loads α = {alpha:g}, {waves} waves" for alpha, waves in kinds))
    return table(head, cells) + (
        f"\nHeld-out error; share of true responses within bands of {100 * measured['level']:g} %; share of systems "
        f"that fail the in-distribution check. {measured['systems']} systems a cell, {measured['context']} pairs at "
        f"{measured['nodes']}², solved by bilinear elements on {measured['cells']}² cells.\n"
    )


def _cell(row: dict[str, Any]) -> str:
    held_out = percent(row["held_out"])
    if "coverage" not in row:
        return held_out
    return f"{held_out}; {100 * row['coverage']:.0f} %; {100 * row['outliers']:.0f} %"

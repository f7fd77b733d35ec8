"""Tables of conduction in a cube, and of a cube and a core with few sensors."""

from typing import Any

from benchmarks.tables.markdown import percent, table


def three_dimensions(measured: dict[str, Any]) -> str:
    """Weights conduction-3d and total variation side by side."""
    rows = []
    for row in measured["rows"]:
        if not row["systems"]:
            continue
        rows += [
            (row["kind"], "conduction-3d", _count(row, "held_out"), _share(row["held_out"]), _number(row["log_error"]),
             _share(row["phases_right"]), *(_band(row, name) for name in ("responses", "material"))),
            ("", "total variation", _count(row, "variation_held_out"), _share(row["variation_held_out"]),
             _number(row["variation_log_error"]), _share(row["variation_phases_right"]), "", ""),
        ]  # fmt: skip
    head = ("material", "by", "systems", "held-out error", "mean error of log b", "nodes in the right phase",
            "responses within bands", "log b within bands")  # fmt: skip
    nodes, pairs, bands = measured["nodes"], measured["pairs"], measured["rows"][-1]["material_within_systems"]
    return table(head, rows) + (
        f"\n{nodes}³ nodes, {pairs} pairs, noise {percent(measured['noise'])}, contrasts 2 to 10; bands of "
        f"{percent(measured['level'])}, those of log b on {bands} systems. In brackets: the multiple of the half width "
        "that holds as much as stated.\n"
    )


def sensors_3d(measured: dict[str, Any]) -> str:
    """Output error in a cube."""
    rows = [row for row in measured["rows"] if row.get("shape", "cube") == "cube"]  # records once held cores, too
    return _sensors({**measured, "rows": rows}, f"{measured['pairs']['cube']} loads")


def cores(measured: dict[str, Any]) -> str:
    """Output error in a core."""
    return _sensors(measured, f"{measured['heaters']} heaters", "error of the data")


def _sensors(measured: dict[str, Any], loads: str, *more: str) -> str:
    rows = [
        (row["kind"], str(row["systems"]), *(percent(row["data_error"]) for _ in more), percent(row["held_out"]),
         _number(row["log_error"]), _number(row["log_median"]), percent(row["responses_within"]),
         percent(row["material_within"]), f"{row['chi_square']:.2f}", f"{row['seconds']:.0f} s")
        for row in measured["rows"] if row["systems"]
    ]  # fmt: skip
    head = ("material", "systems", *more, "held-out error", "mean error of log b", "median",
            "responses within bands", "log b within bands", "χ²", "processor time")  # fmt: skip
    return table(head, rows) + (
        f"\n{measured['sensors']} sensors, noise {percent(measured['noise'])}, {loads}; bands of "
        f"{percent(measured['level'])}, from the posterior alone: they are not calibrated over three axes.\n"
    )


def _count(row: dict[str, Any], name: str) -> str:
    return str(row[f"{name}_systems"])


def _band(row: dict[str, Any], name: str) -> str:
    if row[f"{name}_within"] is None:
        return ""
    return f"{percent(row[f'{name}_within'])} ({row[f'{name}_needed']:.2f})"


def _share(value: float | None) -> str:
    return "" if value is None else percent(value)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"

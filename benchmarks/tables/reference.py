"""Tables of the sensor inversion on reference data."""

import itertools
import statistics
from typing import Any

from benchmarks.tables.markdown import percent, table

Rows = list[dict[str, Any]]
#: Limits of the rows of the table of cost.
READINGS = (0, 400, 2500, 8000, 20000)


def reference(measured: dict[str, Any]) -> str:
    """Rows, misspecified cases and strata, as far as they were run."""
    by_table: dict[str, Rows] = {}
    for row in measured["rows"]:
        by_table.setdefault(row["table"], []).append(row)
    parts = {
        "rows": _rows,
        "misspecified": _misspecified,
        "faults": _faults,
        "strata": _strata,
        "penalties": _penalties,
    }
    text = "\n".join(made(by_table[name]) for name, made in parts.items() if name in by_table)
    others = sum(row["systems"] for row in by_table.get("calibration", []))
    calibrated = f", then calibrated on {others} other systems" if measured["factors"] else ""
    return (
        text
        + "\n"
        + _cost(measured["systems"])
        + (
            f"\n21² nodes, 50 pairs, 1 % noise and every node measured where a row does not say otherwise; "
            f"{measured['queries']} held-out loads without noise, materials against the cells of the finite elements. "
            f"Bands of 90 %: the posterior's{calibrated}. *: of these systems, so many were measured before steps were "
            "bounded by trust regions.\n"
        )
    )


def _rows(rows: Rows) -> str:
    head = ("data", "systems", "held out", "worst system", "mean abs error of log b", "phases", "χ² (expected)",
            "responses within bands", "coefficient within bands", "warnings", "models", "seconds")  # fmt: skip
    return table(head, [
        (
            row["row"], _systems(row), percent(row["held_out"]), percent(row["held_out_worst"]),
            f"{row['log_mean']:.3f}", _phases(row), f"{row['chi_square']:.2f} ({row['chi_square_expected']:.2f})",
            _within(row, "within"), _within(row, "material_within"), _share(row["warned"]),
            ", ".join(f"{count} {model}" for model, count in row["models"].items()), f"{row['seconds']:.0f}",
        )
        for row in rows
    ])  # fmt: skip


def _phases(row: dict[str, Any]) -> str:
    """Share of cells in their phase, of materials that have two."""
    return "–" if row["family"] in ("log-normal", "three-phase", "varying") else f"{100 * row['phases_inside']:.1f} %"


def _misspecified(rows: Rows) -> str:
    head = ("what is wrong", "systems", "held out", "responses within bands", "alarms", "χ²")
    return table(head, [
        (row["row"], _systems(row), percent(row["held_out"]), _within(row, "within"), _share(row["rings"]),
         f"{row['chi_square']:.2f}")
        for row in rows
    ])  # fmt: skip


def _faults(rows: Rows) -> str:
    head = ("one or two faulty sensors, or of 20 pairs", "systems", "left out", "others left out", "held out, median",
            "worst system", "responses within bands", "coefficient within bands", "alarms")  # fmt: skip
    return table(head, [
        (row["row"], _systems(row), f"{row['left_out']} of {row['left_out'] + row['kept']}",
         str(row["left_out_wrongly"]), percent(row["held_out_median"]), percent(row["held_out_worst"]),
         _within(row, "within"), _within(row, "material_within"), _share(row["rings"]))
        for row in rows
    ])  # fmt: skip


def _strata(rows: Rows) -> str:
    head = ("bands by family, and by pairs, noise, sensors", "systems", "held out", "responses within bands",
            "coefficient within bands", "warnings")  # fmt: skip
    groups: dict[str, Rows] = {"all": rows}
    for row in rows:
        groups.setdefault(row["family"], []).append(row)
    for row in rows:
        groups.setdefault(f"{row['pairs']}, {100 * row['noise']:g} %, {row['sensors'] or 'all'}", []).append(row)
    return table(head, [
        (
            name, _systems(*mine), percent(_mean(mine, "held_out")),
            _spread(mine, "within_calibrated"), _spread(mine, "material_within_calibrated"),
            _share(_mean(mine, "warned")),
        )
        for name, mine in groups.items()
    ])  # fmt: skip


def _cost(systems: Rows) -> str:
    """Median processor time of a fit by readings and nodes of the material's grid."""
    nodes = sorted({one["material_nodes"][0] for one in systems})
    lines = []
    for low, high in itertools.pairwise(READINGS):
        seconds = [[one["seconds"] for one in systems if low <= one["readings"] < high
                    and one["material_nodes"][0] == count] for count in nodes]  # fmt: skip
        cells = [f"{statistics.median(each):.0f} s ({len(each)})" if each else "–" for each in seconds]
        lines.append((f"{low:,} to {high:,}", *cells))
    return table(
        ("readings; median processor time (systems)", *(f"material on {count}² nodes" for count in nodes)), lines
    )


def _penalties(rows: Rows) -> str:
    """Held-out error and mean abs error of log b of every penalty."""
    kinds = list(dict.fromkeys(row["penalty"] for row in rows))
    settings = list(dict.fromkeys((row["family"], row["pairs"], row["noise"], row["sensors"]) for row in rows))
    lines = []
    for setting in settings:
        mine = {row["penalty"]: row for row in rows
                if (row["family"], row["pairs"], row["noise"], row["sensors"]) == setting}  # fmt: skip
        family, pairs, noise, sensors = setting
        cells = [f"{percent(mine[kind]['held_out'])}, {mine[kind]['log_mean']:.3f}" if kind in mine else "–"
                 for kind in kinds]  # fmt: skip
        lines.append((f"{family}, {pairs} pairs, {100 * noise:g} %, {sensors or 'all'} sensors", *cells))
    return table(("held out, mean abs error of log b", *(kind or "chosen" for kind in kinds)), lines)


def _systems(*rows: dict[str, Any]) -> str:
    """How many, and how many of them before the present estimator."""
    count, before = (sum(row[name] for row in rows) for name in ("systems", "outdated"))
    return f"{count} ({before}*)" if before else str(count)


def _within(row: dict[str, Any], name: str) -> str:
    calibrated = row.get(f"{name}_calibrated")
    return _share(row[name]) + ("" if calibrated is None else f" → {_share(calibrated)}")


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _mean(rows: Rows, name: str) -> float:
    return float(sum(row[name] for row in rows) / len(rows))


def _spread(rows: Rows, name: str) -> str:
    """Mean and range over rows."""
    values = [row[name] for row in rows if row.get(name) is not None]
    if not values:
        return "–"
    return f"{_share(sum(values) / len(values))} ({_share(min(values))} to {_share(max(values))})"

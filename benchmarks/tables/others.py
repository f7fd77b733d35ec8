"""Tables of nipde beside other packages."""

from typing import Any

from benchmarks.tables.markdown import percent, table


def others(measured: dict[str, Any]) -> str:
    """One table per case, and how every package was installed."""
    cases = ((measured["aquifer"], _aquifer), (measured["plate"], _plate), (measured["tank"], _tank))
    parts = [made(case["rows"]) for case, made in cases if case and case["rows"]]
    parts.append(_packages(measured["packages"]))
    waiting = f" Not measured yet: {len(measured['pending'])} results." if measured["pending"] else ""
    chosen = measured["aquifer"]["tried"] and measured["plate"]["tried"] and not measured["quick"]
    settings = "settings chosen on a validation system" if chosen else "the first of the settings to be tried"
    return "\n".join(parts) + (
        "\nProcessor time of one thread, from the readings to the material. On the aquifer and the plate the others "
        f"have {settings}, the weight of a penalty by the discrepancy principle where the package has it; on the "
        f"tank those best on the training phantoms. nipde has what it comes with.{waiting}\n"
    )


def _aquifer(rows: list[dict[str, Any]]) -> str:
    head = ("aquifer: 20 wells, 40 sensors, 1 % noise", "package", "penalty", "systems", "mean abs error of log b",
            "worst", "held-out wells", "χ²", "processor time")  # fmt: skip
    return table(head, [
        (row["material"], _name(row), row["penalty"] or "chosen by itself", row["systems"], f"{row['log_mean']:.3f}",
         f"{row['log_worst']:.3f}", percent(row["held_out"]), f"{row['chi_square']:.2f}", f"{row['seconds']:.1f} s")
        for row in rows
    ])  # fmt: skip


def _plate(rows: list[dict[str, Any]]) -> str:
    head = ("plate in tension: 420 camera points, 0.01 px", "penalty", "specimens", "mean abs error of log E", "worst",
            "χ²", "processor time")  # fmt: skip
    return table(head, [
        (_name(row), row["penalty"] or "chosen by itself", row["systems"], f"{row['log_mean']:.3f}",
         f"{row['log_worst']:.3f}", f"{row['chi_square']:.2f}", f"{row['seconds']:.0f} s")
        for row in rows
    ])  # fmt: skip


def _tank(rows: list[dict[str, Any]]) -> str:
    levels = sorted({level for row in rows for level in row["levels"]})
    head = ("measured tank", "method, threshold", *(f"level {level}" for level in levels), "total", "phantoms",
            "processor time per phantom")  # fmt: skip
    return table(head, [
        (_name(row), _method(row), *(f"{row['levels'][one]:.2f}" if one in row["levels"] else "–" for one in levels),
         f"{row['total']:.2f}", len(row["phantoms"]), f"{row['seconds']:.1f} s")
        for row in rows
    ])  # fmt: skip


def _packages(packages: dict[str, dict[str, Any]]) -> str:
    return table(("package", "installed", "what pip said of it"), [
        (name, "yes" if one["installed"] else "no", _own_words(name, one)) for name, one in packages.items()
    ])  # fmt: skip


def _own_words(name: str, one: dict[str, Any]) -> str:
    """Of all that was installed, the package itself; an error in full."""
    mine = [word for word in one["pip"].split() if word.lower().startswith(f"{name}-")]
    return " ".join(["Successfully installed", *mine]) if one["installed"] and mine else f"`{one['pip']}`"


def _name(row: dict[str, Any]) -> str:
    return " ".join(filter(None, [row["package"], row.get("version")]))


def _method(row: dict[str, Any]) -> str:
    if row["package"] == "nipde":
        return row["method"]
    options = ", ".join(f"{name} {row['setting']['options'][name]:g}" for name in ("p", "lamb")
                        if name in row["setting"]["options"])  # fmt: skip
    share = "Otsu" if row["share"] is None else f"{row['share']:g} of the largest change"
    return ", ".join(filter(None, [row["method"].upper(), options, share]))

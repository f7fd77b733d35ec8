"""Tables of Conditioned NIPS: by pairs and noise, by grid, by law, against the classical estimators, and its cost."""

from typing import Any

from benchmarks.tables.markdown import percent, table

TITLES = {
    "darcy-two-phase": "elliptic",
    "darcy-two-phase-gated": "gated",
    "darcy": "general",
    "advection": "elliptic with drift",
    "advection-gated": "gated, odd terms",
}


def conditioned(measured: dict[str, Any]) -> str:
    """One table per question."""
    rows = measured["rows"]
    return "\n".join([
        "**Two phases 12/3, loads of `darcy-literal`, 21²: held-out error by pairs and noise on the responses**\n",
        _by_pairs(rows, ("darcy-two-phase", "darcy-two-phase-gated"), "literal"),
        "**Held-out error by pairs, every estimator, `darcy-literal`, 21², no noise**\n", _against(rows),
    ])  # fmt: skip


def laws(measured: dict[str, Any]) -> str:
    """The general weights, and those for advection-diffusion."""
    rows = measured["rows"]
    return "\n".join([
        "**`darcy`, the general weights, on `darcy-mixed`, 21²**\n", _by_pairs(rows, ("darcy",), "mixed"),
        "**The general weights on other grids and contrasts, d = 50**\n", _general(rows),
        "**Trained on diffusion and advection together, 21²**\n", _advection(rows),
        "**Weights**\n", _weights(measured["weights"]),
    ])  # fmt: skip


def cost(measured: dict[str, Any]) -> str:
    """Ratios to bare products, then growth."""
    ratios = [(row["prior"], f"{row['ratio']:.1f}", f"{row['ratio_with_local']:.1f}", f"{1000 * row['seconds']:.0f}",
               row["products"]) for row in measured["ratios"]]  # fmt: skip
    growth = [
        (row["prior"], *(f"{point['seconds']:.2g} s, {point['bytes'] / 2**20:.0f} MiB" for point in row["points"]),
         f"{row['exponents']['seconds']:.2f}", f"{row['exponents']['bytes']:.2f}")
        for row in measured["growth"]
    ]  # fmt: skip
    nodes = [f"{point['nodes']:,} nodes" for point in measured["growth"][0]["points"]]
    return "\n".join([
        table((f"d = {measured['pairs']}, {measured['nodes']:,} nodes", "over bare transforms and dense products",
               "local products counted, too", "ms", "products"), ratios),
        table((f"d = {measured['growth_pairs']}", *nodes, "exponent of time", "of memory"), growth),
    ])  # fmt: skip


def _mean(row: dict[str, Any], what: str = "held_out") -> str:
    return percent(row[what]["mean"]) if row[what] else "–"


def _accuracy(row: dict[str, Any]) -> str:
    measured = row["phase_accuracy_inside"]
    return f"{100 * measured['mean']:.2f} %" if measured else "–"


def _by_pairs(rows: list[dict[str, Any]], weights: tuple[str, ...], systems_of: str) -> str:
    cells = []
    for name in weights:
        mine = [row for row in rows if (row["weights"], row["systems_of"], row["nodes"]) == (name, systems_of, 21)]
        for pairs in sorted({row["pairs"] for row in mine}, reverse=True):
            by_noise = {row["noise"]: row for row in mine if row["pairs"] == pairs}
            clean = by_noise[0.0]
            cells.append((
                TITLES[name], pairs, _mean(clean), _mean(by_noise[0.01]), _mean(by_noise[0.05]),
                _mean(clean, "worst_decile"), _mean(clean, "kernel"), _accuracy(by_noise[0.01]),
            ))  # fmt: skip
    head = ("prior", "d", "no noise", "1 %", "5 %", "worst decile", "kernel", "phases right")  # fmt: skip
    return table(head, cells)


def _general(rows: list[dict[str, Any]]) -> str:
    mine = [row for row in rows if row["weights"] == "darcy"]
    cells = [("`darcy-mixed`", f"{row['nodes']}²", "none", _mean(row), _mean(row, "worst_decile"))
             for row in mine if row["systems_of"] == "mixed" and row["nodes"] != 21]  # fmt: skip
    cells += [(row["systems_of"], f"{row['nodes']}²", f"{100 * row['noise']:g} %", _mean(row),
               _mean(row, "worst_decile")) for row in mine if row["systems_of"].startswith("contrast")]  # fmt: skip
    return table(("systems", "grid", "noise", "held out", "worst decile"), cells)


def _advection(rows: list[dict[str, Any]]) -> str:
    cells = [(TITLES[row["weights"]], row["systems_of"], row["pairs"], f"{100 * row['noise']:g} %", _mean(row),
              _mean(row, "worst_decile")) for row in rows if row["weights"].startswith("advection")]  # fmt: skip
    return table(("prior", "systems", "d", "noise", "held out", "worst decile"), cells)


def _against(rows: list[dict[str, Any]]) -> str:
    chosen = [row for row in rows if row["systems_of"] == "literal" and row["nodes"] == 21 and row["noise"] == 0.0]
    names = {(row["weights"], row.get("estimator", "")): None for row in chosen}
    counts = sorted({row["pairs"] for row in chosen})
    cells = []
    for weights, estimator in names:
        mine = {
            row["pairs"]: row for row in chosen if (row["weights"], row.get("estimator", "")) == (weights, estimator)
        }
        label = f"Conditioned NIPS, {TITLES[weights]}" if weights else estimator
        systems = max(row["systems"] for row in mine.values())
        cells.append((label, systems, *(_mean(mine[count]) if count in mine else "–" for count in counts)))
    return table(("estimator", "systems", *(f"d = {count}" for count in counts)), cells)


def _weights(about: dict[str, Any]) -> str:
    cells = [(f"`{name}`", f"{row['parameters']:,}", f"{row['minutes']:.0f}", f"{row['steps']:,.0f}")
             for name, row in about.items()]  # fmt: skip
    return table(("weights", "parameters", "training, processor minutes", "steps"), cells)


def context_growth(measured: dict[str, Any]) -> str:
    """Time and memory of one context by grid."""
    rows = [
        (f"{row['side']}²", f"{row['seconds']:.3g} s", f"{row['bytes'] / 2**20:.0f} MiB") for row in measured["rows"]
    ]
    powers = measured["exponents"]
    return table(("nodes", "time", "memory"), rows) + (
        f"\nThe time grows as the power {powers['seconds']:.2f} of the number of nodes, the memory as "
        f"{powers['bytes']:.2f}.\n"
    )

"""Tables of what is trusted: the solvers, and the random fields they are fed with."""

from typing import Any

from benchmarks.tables.markdown import table


def physics(measured: dict[str, Any]) -> str:
    """Every check of the solvers, what is required, and what was measured."""
    first, last = measured["grids"][-2:]
    asymmetry = measured["advection_green_asymmetry"]
    million = measured["million_nodes"]
    rows = [
        (f"Darcy: order {first}² to {last}², harmonic faces", "≥ 1.98", _finest(measured["darcy_orders_harmonic"])),
        (f"Darcy: order {first}² to {last}², arithmetic faces", "≥ 1.98", _finest(measured["darcy_orders_arithmetic"])),
        ("Darcy: largest entry of A − Aᵀ", "0", f"{measured['darcy_largest_asymmetry_of_matrix']:g}"),
        ("Darcy: smallest eigenvalue of A", "> 0", f"{measured['darcy_smallest_eigenvalue']:.3f}"),
        ("Darcy: relative flux jump across a 12/3 interface", "≤ 1e-10", f"{measured['darcy_flux_jump']:.1e}"),
        ("Darcy: nodal error of the closed-form 12/3 bar", "≤ 1e-10", f"{measured['darcy_slab_error']:.1e}"),
        (f"Darcy: largest residual, {measured['systems']} systems × {measured['pairs']} pairs", "≤ 1e-10",
         f"{measured['darcy_largest_residual']:.1e}"),
        (f"Advection: order {first}² to {last}², cell Péclet at most {measured['advection_peclet_coarsest']:.2f}",
         "≥ 1.9", _finest(measured["advection_orders"])),
        (f"Advection: asymmetry of the Green's matrix, {asymmetry['systems']} swirls", "> 0",
         f"{asymmetry['least']:.2f} to {asymmetry['most']:.2f}"),
    ]  # fmt: skip
    if million is not None:
        rows.append((f"Darcy: residual on {million['nodes']:,} nodes", "≤ 1e-10", f"{million['residual']:.1e}"))
    return table(("check", "required", "measured"), rows)


def random_fields(measured: dict[str, Any]) -> str:
    """Parameters fitted to the fields of each law, and whether a wrong law would have passed."""
    rows = [
        (
            f"α = {law['alpha']:g}, τ = {law['tau']:g}",
            f"{law['fitted_alpha']:.4f} ± {law['standard_error_alpha']:.4f}",
            f"{law['fitted_tau']:.3f} ± {law['standard_error_tau']:.3f}",
            f"{law['p_value']:.2f}",
            f"{max(law['p_value_of_wrong_laws'].values()):.0e}",
        )
        for law in measured["laws"]
    ]
    head = (
        f"law ({measured['samples']:,} fields)",
        "fitted α",
        "fitted τ",
        "p-value",
        "largest p-value, α or τ off by 5 %",
    )
    gap = max(measured["same_seed_gap_to_81"].values())
    return table(head, rows) + (
        f"\nSame seed on 81², 41² and 21²: largest difference {gap:.1g}. Power added by waves 21 to 40 over its "
        f"expectation: {measured['tail_power_over_expected']:.3f} ± {measured['tail_standard_error']:.3f}.\n"
    )


def solves(measured: dict[str, Any]) -> str:
    """Steps of multigrid by grid and medium, and times of the second medium, beside those of other solvers."""
    media = list(dict.fromkeys((row["medium"], row["contrast"]) for row in measured["rows"]))
    rows: list[tuple[Any, ...]] = []
    for dimension, nodes in dict.fromkeys((row["dimension"], row["nodes"]) for row in measured["rows"]):
        own = {(row["medium"], row["contrast"]): row for row in measured["rows"]
               if (row["dimension"], row["nodes"]) == (dimension, nodes)}  # fmt: skip
        steps = [own[medium]["steps"] if medium in own else "–" for medium in media]
        timed, times = own.get(media[1]), ["–"] * 3
        if timed:
            times = [f"{timed['setup']:.2g} s", f"{timed['seconds']:.2g} s", f"{timed['cycle_over_products']:.2f}"]
        spectral, direct = (timed.get(other) if timed else None for other in ("spectral", "splu"))
        rows.append((f"{nodes}{'²' if dimension == 2 else '³'}", *steps, *times,
                     f"{spectral['steps']}, {spectral['seconds']:.2g} s" if spectral else "–",
                     f"{direct['seconds']:.2g} s" if direct else "–"))  # fmt: skip
    head = ("nodes", *(f"steps, {medium} {contrast:g}" for medium, contrast in media), "setup", "setup and solve",
            "cycle over its products", "spectral preconditioner", "SuperLU")  # fmt: skip
    powers = "; ".join(f"{one['medium']} {one['contrast']:g} in {one['dimension']}D {one['seconds']:.2f}"
                       for one in measured["exponents"] if one["seconds"] is not None)  # fmt: skip
    return table(head, rows) + (
        f"\nTimes are those of {media[1][0]} {media[1][1]:g}. They grow as powers of the number of nodes: {powers}.\n"
    )


def _finest(orders: list[float]) -> str:
    return f"{orders[-1]:.4f}"

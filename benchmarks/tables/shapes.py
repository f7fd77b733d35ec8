"""Tables of specimens of any plane shape."""

from typing import Any

from benchmarks.tables.markdown import percent, table


def shapes(measured: dict[str, Any]) -> str:
    """Errors and orders by specimen, electrodes, finite elements, and the time of the cut cells."""
    grids, electrodes, elements = measured["grids"], measured["electrodes"], measured["finite_elements"]
    head = ("specimen", "b", *(f"{nodes}²" for nodes in grids), "order, last two", "order, first to last")
    rows = [
        (row["specimen"], row["coefficient"], *map(percent, row["errors"]), f"{row['orders'][-1]:.2f}",
         f"{sum(row['orders']) / len(row['orders']):.2f}")
        for row in measured["rows"]
    ]  # fmt: skip
    potentials = [(f"{row['impedance']:g}", *map(percent, row["errors"])) for row in electrodes["rows"]]
    differences = [
        (row["condition"], *map(percent, row["differences"]), percent(row["between_meshes"]))
        for row in elements["rows"]
    ]
    ends, build = measured["ends"], measured["build"]
    rims = [(name, *map(percent, ends[kind])) for name, kind in (("root mean square", "errors"), ("largest", "worst"))]
    times = [(name, f"{seconds:.2f} s") for name, seconds in build["seconds"].items()]
    made = measured["generation"]
    generated = [
        (name, f"{seconds:.2f} s", f"{made['ratios'][name]:.2f}" if name in made["ratios"] else "1")
        for name, seconds in made["seconds"].items()
    ]
    return (
        table(head, rows)
        + f"\nRelative L2 errors. A well in a disc, {ends['rims']} random parts of the rim held at 0, the rest "
        + f"insulated, against the exact response; order of the last two {ends['orders'][-1]:.2f}:\n\n"
        + table(("error", *(f"{nodes}²" for nodes in ends["grids"])), rims)
        + "\nComplete electrode model, 8 electrodes on half of the rim, error of the potentials:\n\n"
        + table(("contact impedance", *(f"{nodes}²" for nodes in electrodes["grids"])), potentials)
        + f"\nDifference to {elements['triangles']:,} linear triangles of scikit-fem:\n\n"
        + table(("rim", *(f"{nodes}²" for nodes in elements["grids"]), "to a mesh half as fine"), differences)
        + f"\nCut cells of {build['nodes']}² nodes, outlines of {build['vertices']:,} vertices a ring:\n\n"
        + table(("specimen", "processor time"), times)
        + f"\nA system of `darcy-shapes` with {made['pairs']} pairs, beside one of `darcy-reference`:\n\n"
        + table(("specimen", "processor time", "over the whole square"), generated)
    )


def truths(measured: dict[str, Any]) -> str:
    """Errors of the responses that estimators are judged by."""
    head = ("specimen", "triangles of one size", "as generated", "extrapolated")
    kinds = ("triangles of one size", "as they are", "extrapolated")
    named = (("square", "squares", "material"), ("outline loads", "shapes", "shape"), ("bench", "tests", "test"))
    rows = [
        (f"{kind}: {one[name]}", *(percent(one[error]) if error in one else "–" for error in kinds))
        for kind, table_of, name in named for one in measured[table_of]
    ]  # fmt: skip
    rows += [
        (f"cube of {one['nodes']}³ nodes: {one['material']}", "–", percent(one["as they are"]), "–")
        for one in measured["cubes"]
    ]
    count = measured["systems"]
    return table(head, rows) + (
        f"\n{count} specimen{'s' * (count > 1)} each, {measured['pairs']} loads, in cubes {measured['pairs_3d']}.\n"
    )


def outlines(measured: dict[str, Any]) -> str:
    """Files to the report."""
    head = (
        "specimen", "nodes", "readings", "nodes outside with a coefficient", "bands of 90 % hold",
        "median error of the coefficient", "held out, with noise", "alarm", "processor time",
    )  # fmt: skip
    rows = [
        (one["case"], " × ".join(map(str, one["nodes"])), f"{one['readings']:,}", str(one["phantom"]),
         percent(one["within"]), percent(one["log_median"]), percent(one["held_out"]), "yes" if one["rings"] else "no",
         f"{one['seconds']:.0f} s")
        for one in measured["systems"]
    ]  # fmt: skip
    return table(head, rows) + (
        f"\n{percent(measured['noise'])} noise; data of linear triangles. Time of `nipde discover`, from files to the "
        "report.\n"
    )


def specimens(measured: dict[str, Any]) -> str:
    """Sensors to material on other shapes."""
    head = (
        "shape", "material", "loads", "sensors", "systems", "held out", "worst", "bands of 90 % hold: responses",
        "coefficient", "mean abs log b", "phases", "χ²", "alarms", "held out, total variation", "processor time",
    )  # fmt: skip
    others = {row["row"].removesuffix(", total-variation"): row for row in measured["rows"] if row["penalty"]}
    rows = [
        (row["shape"], row["material"], row["loads"], str(row["sensors"] or "lattice"),
         f"{row['systems']}{'' if row['extrapolated'] else '*'}",
         percent(row["held_out"]), percent(row["held_out_worst"]), _calibrated(row, "within"),
         _calibrated(row, "material_within"), f"{row['log_mean']:.3f}",
         f"{100 * row['phases_inside']:.1f} %" if row["material"] == "two phases" else "–", f"{row['chi_square']:.2f}",
         f"{round(row['rings'] * row['systems'])}",
         f"{percent(other['held_out'])} ({other['systems']})" if (other := others.get(row["row"])) else "",
         f"{row['seconds']:.0f} s")
        for row in measured["rows"] if not row["penalty"]
    ]  # fmt: skip
    return table(head, rows) + (
        f"\n{percent(measured['noise'])} noise; 50 pairs, 20 of wells; sensors on nodes of a 21² grid, or on 40 "
        "of these. Data of linear triangles that follow the "
        "outline. Bands: of the posterior → with factors from other specimens. "
        "Of total variation, in brackets, on how many systems. "
        "\\*: measured before, on responses of one mesh, with their error.\n"
    )


def _calibrated(row: dict[str, Any], name: str) -> str:
    held = row[f"{name}_calibrated"]
    return percent(row[name]) + ("" if held is None else f" → {percent(held)}")

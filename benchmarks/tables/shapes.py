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
    build = measured["build"]
    times = [(name, f"{seconds:.2f} s") for name, seconds in build["seconds"].items()]
    return (
        table(head, rows)
        + "\nRelative L2 errors. "
        + "Complete electrode model, 8 electrodes on half of the rim, error of the potentials:\n\n"
        + table(("contact impedance", *(f"{nodes}²" for nodes in electrodes["grids"])), potentials)
        + f"\nDifference to {elements['triangles']:,} linear triangles of scikit-fem:\n\n"
        + table(("rim", *(f"{nodes}²" for nodes in elements["grids"]), "to a mesh half as fine"), differences)
        + f"\nCut cells of {build['nodes']}² nodes, outlines of {build['vertices']:,} vertices a ring:\n\n"
        + table(("specimen", "processor time"), times)
    )


def specimens(measured: dict[str, Any]) -> str:
    """Sensors to material on a disc."""
    head = (
        "specimen", "sensors", "systems", "held out", "bands of 90 % hold", "mean abs log b", "phases", "χ²", "alarms",
        "processor time",
    )  # fmt: skip
    rows = [
        (row["specimen"], " to ".join(map(str, row["sensors"])), str(row["systems"]), percent(row["held_out"]),
         percent(row["within_posterior"]), f"{row['log_mean']:.3f}", f"{100 * row['phases_inside']:.1f} %",
         f"{row['chi_square']:.2f}", f"{round(row['rings'] * row['systems'])}", f"{row['seconds']:.0f} s")
        for row in measured["rows"]
    ]  # fmt: skip
    return table(head, rows) + (
        f"\n{measured['pairs']} pairs, {percent(measured['noise'])} noise; data of linear triangles on a mesh of the "
        "disc. Bands are those of the posterior, not calibrated on shapes.\n"
    )

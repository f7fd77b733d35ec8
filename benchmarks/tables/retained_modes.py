"""Tables of errors against retained modes, and against the nodes that a step learns from."""

from typing import Any

from benchmarks.tables.markdown import percent, table


def retained_modes(measured: dict[str, Any]) -> str:
    """NIPS beside its floor, then gated priors."""
    trained = {(row["nodes"], row["modes"]): row for row in measured["nips"]}
    rows = []
    for one in measured["floors"]:
        row = trained.get((one["nodes"], one["modes"]))
        errors = (row["steps"], percent(row["in_context"]), percent(row["held_out"])) if row else ("", "", "")
        rows.append((f"{one['nodes']}²", one["modes"], percent(one["floor"]), *errors))
    head = ("grid", "modes per axis", "floor", "steps", "in-context error", "held-out error")
    minutes = ", ".join(f"{value:g} at {nodes}²" for nodes, value in measured["minutes"].items())
    said = (
        f"\nNIPS, 2 layers, smooth loads, {measured['systems']} test systems; minutes of processor time: {minutes}; "
        "finer grids start from the coarser ones. Floor: best approximation of responses by the retained waves.\n\n"
    )
    counts = sorted({row["modes"] for row in measured["gated"]})
    kinds = sorted({(row["cut"], row["nodes"]) for row in measured["gated"]})
    known = {(row["cut"], row["nodes"], row["modes"]): percent(row["held_out"]) for row in measured["gated"]}
    gated = [
        (f"{nodes}²", "those of the package, cut off" if cut else "trained so", *(known.get((cut, nodes, count), "")
                                                                                   for count in counts))
        for cut, nodes in kinds
    ]  # fmt: skip
    return (
        table(head, rows)
        + said
        + table(("grid", "weights", *(f"{count} modes" for count in counts)), gated)
        + (
            f"\nGated Conditioned NIPS, rough loads, {measured['context']} pairs, held-out error; modes are "
            f"half waves. Trained on 21² for {measured['gated_minutes']:g} minutes.\n"
        )
    )


def sampled_nodes(measured: dict[str, Any]) -> str:
    """Row by row, all nodes first."""
    scatter = {one["lines"]: percent(one["scatter"]) for one in measured["scatter"]}
    nodes = measured["nodes"]
    rows = [
        (f"{row['lines'] or nodes}²", row["steps"], percent(row["in_context"]), percent(row["held_out"]),
         scatter.get(row["lines"], ""))
        for row in measured["rows"]
    ]  # fmt: skip
    head = ("nodes in a step", "steps", "in-context error", "held-out error", "scatter of a kernel")
    return table(head, rows) + (
        f"\nNIPS, 2 layers, {measured['modes']} modes per axis, smooth loads on {nodes}², {measured['minutes']:g} "
        f"minutes of processor time each, batches of {measured['batch']}; judged on all nodes of {measured['systems']} "
        "test systems. Scatter: how far responses of the first network move if it sees a part of the nodes.\n"
    )

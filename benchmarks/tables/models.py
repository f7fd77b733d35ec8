"""Tables of the paper's models: parameters, one step, growth with the grid, and their transforms."""

from typing import Any

from benchmarks.tables.markdown import percent, table


def params(measured: dict[str, Any]) -> str:
    """The paper's parameter counts beside ours."""
    rows = [(row["row"], f"{row['paper']:,}", f"{row['ours']:,}", row["dead"]) for row in measured["rows"]]
    layer = measured["afno_per_layer"]
    rows.append(("AFNO, each further layer", f"{layer['paper']:,}", f"{layer['ours']:,}", 0))
    return table(("model", "paper", "ours", "of these never act"), rows)


def imports(measured: dict[str, Any]) -> str:
    """By source tree: seconds and modules of loading weights in a fresh process."""
    rows = [
        (row["name"], f"{row['seconds']:.2f}", row["modules"], row["modules_of_nipde"], ", ".join(row["heavy"]) or "–")
        for row in measured["rows"]
    ]
    return table(("", "seconds", "modules", "of nipde", "with"), rows)


def step(measured: dict[str, Any]) -> str:
    """By grid: time and memory of the plain form, of ours and of the bare products."""
    rows = [
        (
            f"{row['nodes']}², {'all modes' if row['modes'] is None else str(row['modes']) + ' modes per axis'}",
            *(f"{row['milliseconds'][form]:.0f}" for form in ("plain", "ours", "floor")),
            f"{row['speedup']:.1f}",
            f"{row['layer_speedup']:.1f}",
            f"{row['over_floor']:.2f}",
            " / ".join(f"{100 * share:.0f}" for share in row["profile"].values()),
            *(f"{row['peak_mib'][form]:.0f}" for form in ("plain", "ours")),
            f"{row['memory_ratio']:.2f}",
        )
        for row in measured["rows"]
    ]
    head = ("grid", "plain, ms", "ours, ms", "bare products, ms", "speed-up", "of one layer's attention",
            "over bare products", "spent on products / norms / passes / calls, %", "plain, MiB",
            "ours, MiB", "memory ratio")  # fmt: skip
    return table(head, rows) + (
        f"\nForward and backward of a {measured['layers']}-layer NIPS, batch {measured['batch']}, d = "
        f"{measured['pairs']}, "
        f"d_k = {measured['channels']}; processor time of one thread.\n"
    )


def step_cost(measured: dict[str, Any]) -> str:
    """By model and grid: parameters, operations and bytes of a step."""
    rows = [
        (
            row["model"], row["layers"], f"{row['nodes']}²", f"{row['parameters']:,}",
            f"{row['operations'] / 1e9:,.1f}", f"{row['bytes'] / 1e6:,.0f}", f"{row['batch_bytes'] / 1e6:.3g}",
            f"{row['optimiser_bytes'] / 1e6:.3g}", f"{row['operations'] / row['bytes']:.1f}",
        )
        for row in measured["rows"]
    ]  # fmt: skip
    head = ("model", "layers", "grid", "parameters", "operations, 10⁹", "bytes read and written, MB",
            "of the batch, MB", "of Adam, MB", "operations per byte")  # fmt: skip
    return table(head, rows) + (
        f"\nForward, loss and backward; batch {measured['batch']}, d = {measured['pairs']}, d_k = "
        f"{measured['channels']}, float32. Bytes as if no two operations were fused.\n"
    )


def tokens(measured: dict[str, Any]) -> str:
    """Time and memory by model and number of nodes, and the prediction for the paper's card."""
    sizes = sorted({point["nodes"] for model in measured["models"] for point in model["points"]})
    rows = []
    for model in measured["models"]:
        at = {point["nodes"]: point for point in model["points"]}
        powers = model["exponents"]
        for what, unit, name in (("seconds", 1.0, "seconds"), ("bytes", 2**20, "peak MiB")):
            digits = 2 if what == "seconds" else 0
            values = [f"{at[size][what] / unit:,.{digits}f}" if size in at else "–" for size in sizes]
            power = "–" if powers[what] is None else f"{powers[what]:.2f}"
            rows.append((f"{model['model']}: {name}", *values, power))
    closeness = [
        point["bytes"] / point["predicted_bytes"]
        for model in measured["models"] for point in model["points"] if "predicted_bytes" in point
    ]  # fmt: skip
    paper = [
        (f"NAO, {row['form']}, {row['nodes'] ** 2:,} nodes", f"{row['predicted_gb']:.1f}",
         "fits" if row["predicted_gb"] < 40 else "does not fit",
         "out of memory" if row["paper_gb"] is None else f"{row['paper_gb']:.2f}")
        for row in measured["paper"]
    ]  # fmt: skip
    head = ("one step", *(f"{size**2:,}" for size in sizes), "exponent")
    return "\n".join([
        table(head, rows),
        f"Measured over predicted memory of NAO: {min(closeness):.2f} to {max(closeness):.2f}. At the paper's batch of "
        "100, on its card of 40 GB:\n",
        table(("4 layers", "predicted, GB", "verdict", "the paper, GB"), paper),
    ])  # fmt: skip


def transforms(measured: dict[str, Any]) -> str:
    """By grid and boundary: time of the FFT over that of the matrix product."""
    rows = [(f"{row['nodes']}²", *(f"{row['fft_over_dense'][kind]:.2f}" for kind in row["fft_over_dense"]))
            for row in measured["rows"]]  # fmt: skip
    kinds = list(measured["rows"][0]["fft_over_dense"])
    return table(("grid", *(f"{kind}: time of FFT over matrix product" for kind in kinds)), rows)


def recipes(measured: dict[str, Any]) -> str:
    """In-context error of every way to train, best first."""
    rows = sorted(measured["rows"], key=lambda row: row["in_context"])
    first = next(row for row in measured["rows"] if "0.1.0" in row["name"])
    cells = [
        (row["name"], percent(row["in_context"]), f"± {percent(row['spread'])}",
         f"{row['in_context'] / first['in_context']:.2f}", f"{row['steps']:,}")
        for row in rows
    ]  # fmt: skip
    head = ("recipe", "in context", "over seeds", "against 0.1.0", "steps")
    about = (
        f"{measured['minutes']:g} minutes of one core each, {measured['seeds']} seeds, NIPS with {measured['layers']} "
        f"layers on `{measured['law']}`, validation systems.\n\n"
    )
    return about + table(head, cells)


def channel_roles(measured: dict[str, Any]) -> str:
    """Pairs that are read, errors by their order, and trainings with divided channels."""
    roles = [
        (f"`{one['name']}`", f"{one['read']} of {one['pairs']}",
         *(f"{one['gains'][which][kind]:.2f}" for which in ("load", "response") for kind in ("read", "others")),
         *(percent(one["change_when_replaced"][kind]) for kind in ("read", "others")))
        for one in measured["shipped"]
    ]  # fmt: skip
    orders = [
        (f"`{one['name']}`", one["loads"], percent(one["one"]), f"{percent(one['best'])} to {percent(one['worst'])}",
         *(percent(value) for value in one["means"].values()), percent(one["apart"]))
        for one in measured["orders"]
    ]  # fmt: skip
    counts = list(measured["orders"][0]["means"])
    curves = [
        (row["name"], percent(row["in_context"]), f"± {percent(row['spread'])}", f"{row['steps']:,}",
         ", ".join(map(str, row["read_in_the_end"])))
        for row in measured["rows"]
    ]  # fmt: skip
    return "\n".join([
        table(("weights", "pairs read", "gains of f, read", "others", "gains of u, read", "others",
               "change if read pairs are replaced", "if others are"), roles),
        table(("weights", "loads", "one order", f"of {measured['orders'][0]['orders']} orders",
               *(f"mean of {count}" for count in counts), "orders apart by"), orders),
        f"{measured['minutes']:g} minutes of one core each, {measured['seeds']} seeds, NIPS with 2 layers on every "
        f"second node, validation systems:\n",
        table(("start", "in context", "over seeds", "steps", "read in the end"), curves),
    ])  # fmt: skip


def shifted_loads(measured: dict[str, Any]) -> str:
    """Errors by the laws of context and queries, and the paper's."""
    cells = []
    for row in measured["rows"]:
        values = [row["held_out"], row["kernel"], row["microstructure"]]
        cells.append((row["context"], row["asked"], *(percent(value["mean"]) if value else "–" for value in values)))
    for law, paper in measured["paper"].items():
        name = "paper, in distribution" if law == "rough" else "paper, scenario 1"
        cells.append((name, law, *(f"{paper[what]:.2f} %" for what in ("in_context", "kernel", "microstructure"))))
    return table(("loads of the context", "loads asked for", "error", "kernel", "microstructure"), cells)

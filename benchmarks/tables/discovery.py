"""Material identification as tables: readouts, bands on b, inversion; and image correlation."""

from typing import Any

from benchmarks.tables.markdown import percent, table


def discovery(measured: dict[str, Any]) -> str:
    """Readouts by noise, bands by stratum, and the inversion."""
    noises = [part["noise"] for part in measured["readouts"]]
    at = {(row["readout"], part["noise"]): row for part in measured["readouts"] for row in part["rows"]}
    names = list(dict.fromkeys(name for name, _ in at))
    readouts = [
        (f"{name}{'' if at[name, noises[0]]['systems'] == measured['systems'] else ' *'}",
         *(_share(at[name, noise]["phases"]) for noise in noises),
         *(percent(at[name, noise]["error"]) for noise in noises))
        for name in sorted(names, key=lambda name: -at[name, noises[-1]]["phases"])
    ]  # fmt: skip
    inversion, taylor, bootstrap = measured["inversion"], measured["taylor"], measured["bootstrap"]
    head = (*(f"phases, noise {100 * n:g} %" for n in noises), *(f"error of b, noise {100 * n:g} %" for n in noises))
    bands = [
        (row["pairs"], percent(row["noise"]),
         *(value for kind in ("plain", "piecewise_constant") for value in (
             _share(row[kind]["coverage"]), f"± {percent(row[kind]['width'])}",
             percent(row[kind]["error"]))))
        for row in measured["bands"]
    ]  # fmt: skip
    return "\n".join([
        table(("readout", *head), readouts),
        f"Share of interior nodes in the right phase by Otsu's threshold, and ‖b − b₀‖/‖b₀‖; means over "
        f"{measured['systems']} test systems at {measured['nodes']}² with "
        f"{measured['pairs']} pairs (* over {measured['matched']}). Readouts are of the kernel of "
        f"`{measured['weights']}`.\n",
        table(("pairs", "noise", "within 90 % bands", "median band", "mean error of log b",
               "piecewise constant: within", "median band", "mean error"), bands),
        f"Bands on b; {measured['bands'][0]['systems']} systems each. A bootstrap over the pairs "
        f"({bootstrap['draws']} draws, {bootstrap['systems']} systems, d = {bootstrap['pairs']}, noise "
        f"{percent(bootstrap['noise'])}) holds {_share(bootstrap['coverage'])} within ± "
        f"{percent(bootstrap['width'])}.\n",
        "With gaps, d = 20: " + "; ".join(
            f"{percent(row['gaps'])} of the responses missing, noise {100 * row['noise']:g} %: "
            f"{_share(row['material'])} of b and {_share(row['responses'])} of the responses to other loads within "
            f"their bands, false positives {_share(row['outliers'])}" for row in measured["gaps"]
        ) + f" ({measured['gaps'][0]['systems']} systems each).\n",
        f"Inversion by matching a kernel at {inversion['nodes']}² ({inversion['unknowns']:,} unknowns): "
        f"{inversion['seconds']:.0f} s ({inversion['cpu_seconds']:.0f} s of processor time, {inversion['threads']} "
        f"thread(s)), phases {_share(inversion['phases'])}, error of b {percent(inversion['error'])}. "
        f"Gradients by the adjoint: Taylor rates of {taylor['directions']} directions ≥ {taylor['lowest']:.4f}.\n",
    ])  # fmt: skip


def dic(measured: dict[str, Any]) -> str:
    """Errors in the mean and the median, and who is better how often."""
    rows = [
        (_named(name, measured), percent(measured["mean"][name]), percent(measured["median"][name]),
         "" if name == "ours" else f"{measured['not_worse'][name]} of {measured['cases']}",
         f"{measured['seconds'][name]:.1f} s")
        for name in measured["mean"]
    ]  # fmt: skip
    return "\n".join([
        table(("method", "mean error of log b", "median", "ours at or below it in", "time"), rows),
        f"{measured['cases']} specimens, {measured['frames']} frames each on {measured['nodes']}² points, noise "
        f"{measured['noise_px']:g} px that neighbours share, motion {measured['motion_px']:g} px root mean square, "
        f"{percent(measured['lost'])} of the points lost. Ours: phases {_share(measured['phases'])}, "
        f"{_share(measured['coverage'])} of the nodes within bands of 90 %; piecewise-constant prior in "
        f"{measured['piecewise_constant']} cases.\n",
    ])  # fmt: skip


def _named(name: str, measured: dict[str, Any]) -> str:
    return f"Conditioned NIPS, `{measured['weights']}`" if name == "ours" else name


def _share(value: float) -> str:
    return f"{100 * value:.2f} %" if value > 0.99 else f"{100 * value:.1f} %"

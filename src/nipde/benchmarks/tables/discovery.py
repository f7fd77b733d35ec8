"""What is inside as tables: readouts, bands on b, inversion; and specimens under image correlation."""

from typing import Any

from nipde.benchmarks.tables.markdown import percent, table


def discovery(found: dict[str, Any]) -> str:
    """Readouts by noise, bands by stratum, and the inversion."""
    noises = [part["noise"] for part in found["readouts"]]
    at = {(row["readout"], part["noise"]): row for part in found["readouts"] for row in part["rows"]}
    names = list(dict.fromkeys(name for name, _ in at))
    readouts = [
        (f"{name}{'' if at[name, noises[0]]['systems'] == found['systems'] else ' *'}",
         *(_share(at[name, noise]["phases"]) for noise in noises),
         *(percent(at[name, noise]["error"]) for noise in noises))
        for name in sorted(names, key=lambda name: -at[name, noises[-1]]["phases"])
    ]  # fmt: skip
    inversion, taylor, bootstrap = found["inversion"], found["taylor"], found["bootstrap"]
    head = (*(f"phases, noise {100 * n:g} %" for n in noises), *(f"error of b, noise {100 * n:g} %" for n in noises))
    bands = [
        (row["pairs"], percent(row["noise"]),
         *(value for kind in ("plain", "sharp") for value in (
             _share(row[kind]["coverage"]), _share(row[kind]["posterior"]), f"± {percent(row[kind]['width'])}",
             percent(row[kind]["error"]))))
        for row in found["bands"]
    ]  # fmt: skip
    return "\n".join([
        table(("readout", *head), readouts),
        f"Share of free nodes in their own phase by Otsu's threshold, required ≥ 99.9 % without noise and ≥ 98.5 % "
        f"with 1 %, and ‖b − b₀‖/‖b₀‖; means over {found['systems']} test systems at {found['nodes']}² with "
        f"{found['pairs']} pairs (* over {found['matched']}). Readouts are of the kernel of `{found['weights']}`.\n",
        table(("pairs", "noise", "within 90 % bands", "posterior alone", "median band", "mean error of log b",
               "sharpened: within", "posterior alone", "median band", "mean error"), bands),
        f"Bands on b, required 85 to 95 %; {found['bands'][0]['systems']} systems each. A bootstrap over the pairs "
        f"({bootstrap['draws']} draws, {bootstrap['systems']} systems, d = {bootstrap['pairs']}, noise "
        f"{percent(bootstrap['noise'])}) holds {_share(bootstrap['coverage'])} within ± "
        f"{percent(bootstrap['width'])}.\n",
        "With gaps, d = 20: " + "; ".join(
            f"{percent(row['gaps'])} of the responses missing, noise {100 * row['noise']:g} %: "
            f"{_share(row['material'])} of b and {_share(row['responses'])} of the responses to other loads within "
            f"their bands, false alarms {_share(row['raised'])}" for row in found["gaps"]
        ) + f" ({found['gaps'][0]['systems']} systems each).\n",
        f"Inversion by matching a kernel at {inversion['nodes']}² ({inversion['unknowns']:,} free nodes): "
        f"{inversion['seconds']:.0f} s ({inversion['cpu_seconds']:.0f} s of processor time, {inversion['threads']} "
        f"thread(s); required ≤ 60 s), phases {_share(inversion['phases'])}, error of b {percent(inversion['error'])}. "
        f"Gradients by the adjoint: Taylor rates of {taylor['directions']} directions ≥ {taylor['lowest']:.4f} "
        "(required ≥ 1.99).\n",
        f"README's quickstart from a new process to the folder: {found['first_look']['quickstart']:.0f} s (required "
        f"≤ 60 s); importing nipde after torch: {found['first_look']['import']:.2f} s (required ≤ 0.5 s).\n",
    ])  # fmt: skip


def dic(found: dict[str, Any]) -> str:
    """Errors in the mean and the median, and who is better how often."""
    rows = [
        (_named(name, found), percent(found["mean"][name]), percent(found["median"][name]),
         "" if name == "ours" else f"{found['won'][name]} of {found['cases']}", f"{found['seconds'][name]:.1f} s")
        for name in found["mean"]
    ]  # fmt: skip
    return "\n".join([
        table(("method", "mean error of log b", "median", "ours at or below it in", "time"), rows),
        f"{found['cases']} specimens, {found['frames']} frames each on {found['nodes']}² points, noise "
        f"{found['noise_px']:g} px that neighbours share, motion {found['motion_px']:g} px root mean square, "
        f"{percent(found['lost'])} of the points lost. Ours: phases {_share(found['phases'])}, "
        f"{_share(found['coverage'])} of the nodes within bands of 90 %; sharpened in {found['sharp']} cases.\n",
    ])  # fmt: skip


def _named(name: str, found: dict[str, Any]) -> str:
    return f"Conditioned NIPS, `{found['weights']}`" if name == "ours" else name


def _share(value: float) -> str:
    return f"{100 * value:.2f} %" if value > 0.99 else f"{100 * value:.1f} %"

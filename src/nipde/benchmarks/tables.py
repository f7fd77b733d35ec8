"""Records to tables: the only place that formats a measured number.

A document asks for a table with the lines `<!-- table: NAME -->` and `<!-- end table -->`; what stands between them
is made from results/NAME.json and from nothing else; `headline` is made from several of these.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nipde.benchmarks.conditioned_table import conditioned, cost, laws
from nipde.benchmarks.darcy_table import darcy
from nipde.benchmarks.design_table import design
from nipde.benchmarks.discovery_table import dic, discovery
from nipde.benchmarks.formats_table import formats
from nipde.benchmarks.fuzz_table import fuzz
from nipde.benchmarks.headline import headline
from nipde.benchmarks.markdown import percent as _percent
from nipde.benchmarks.markdown import table as _table
from nipde.benchmarks.mechanics_table import mechanics
from nipde.benchmarks.mistakes_table import mistakes
from nipde.benchmarks.record import read_record
from nipde.benchmarks.solids_table import solids
from nipde.benchmarks.uncertainty_table import uncertainty
from nipde.errors import NipdeError

BLOCK = re.compile(r"(<!-- table: ([a-z-]+) -->\n)(.*?)(<!-- end table -->)", re.DOTALL)


def fill(documents: list[Path], *, results: Path, check: bool = False) -> list[Path]:
    """Put current tables into the documents; with `check`, raise instead if one of them is not current."""
    changed = []
    for document in documents:
        text = document.read_text()
        current = BLOCK.sub(lambda found: found[1] + _table_of(found[2], results) + found[4], text)
        if current != text:
            changed.append(document)
            if not check:
                document.write_text(current)
    if check and changed:
        raise NipdeError(
            expected="tables made from results/",
            got=f"others in {', '.join(map(str, changed))}",
            remedy="run nipde bench tables and commit what it changes",
        )
    return changed


def _table_of(name: str, results: Path) -> str:
    return headline(results) if name == "headline" else render(read_record(results, name))


def documents_below(folder: Path) -> list[Path]:
    """README and docs."""
    return [path for path in [folder / "README.md", *sorted((folder / "docs").glob("*.md"))] if path.exists()]


def render(record: dict[str, Any]) -> str:
    """The table of a record, and where it comes from."""
    machine = record["machine"]
    source = (
        f"\n*`{record['command']}`, seed {record['seed']}, commit {_short(record['commit'])}, "
        f"{machine['cores']} × {machine['processor']}, {record['time'][:10]}; `results/{record['name']}.json`*\n"
    )
    return TABLES[record["name"]](record["measured"]) + source


def _physics(found: dict[str, Any]) -> str:
    first, last = found["grids"][-2:]
    asymmetry = found["advection_green_asymmetry"]
    million = found["million_nodes"]
    rows = [
        (f"Darcy: order {first}² to {last}², harmonic faces", "≥ 1.98", _order(found["darcy_orders_harmonic"])),
        (f"Darcy: order {first}² to {last}², arithmetic faces", "≥ 1.98", _order(found["darcy_orders_arithmetic"])),
        ("Darcy: largest entry of A − Aᵀ", "0", f"{found['darcy_largest_asymmetry_of_matrix']:g}"),
        ("Darcy: smallest eigenvalue of A", "> 0", f"{found['darcy_smallest_eigenvalue']:.3f}"),
        ("Darcy: relative flux jump across a 12/3 interface", "≤ 1e-10", f"{found['darcy_flux_jump']:.1e}"),
        ("Darcy: nodal error of the closed-form 12/3 bar", "≤ 1e-10", f"{found['darcy_slab_error']:.1e}"),
        (f"Darcy: largest residual, {found['systems']} systems × {found['pairs']} pairs", "≤ 1e-10",
         f"{found['darcy_largest_residual']:.1e}"),
        (f"Advection: order {first}² to {last}², cell Péclet at most {found['advection_peclet_coarsest']:.2f}",
         "≥ 1.9", _order(found["advection_orders"])),
        (f"Advection: asymmetry of the Green's matrix, {asymmetry['systems']} swirls", "> 0",
         f"{asymmetry['least']:.2f} to {asymmetry['most']:.2f}"),
    ]  # fmt: skip
    if million is not None:
        rows.append((f"Darcy: residual on {million['nodes']:,} nodes", "≤ 1e-10", f"{million['residual']:.1e}"))
    return _table(("check", "required", "measured"), rows)


def _random_fields(found: dict[str, Any]) -> str:
    rows = [
        (
            f"α = {law['alpha']:g}, τ = {law['tau']:g}",
            f"{law['fitted_alpha']:.4f} ± {law['standard_error_alpha']:.4f}",
            f"{law['fitted_tau']:.3f} ± {law['standard_error_tau']:.3f}",
            f"{law['p_value']:.2f}",
            f"{max(law['p_value_of_wrong_laws'].values()):.0e}",
        )
        for law in found["laws"]
    ]
    head = (
        f"law ({found['samples']:,} fields)",
        "fitted α",
        "fitted τ",
        "p-value",
        "largest p-value, α or τ off by 5 %",
    )
    gap = max(found["same_seed_gap_to_81"].values())
    return _table(head, rows) + (
        f"\nSame seed on 81², 41² and 21²: largest difference {gap:.1g}. Power added by waves 21 to 40 over its "
        f"expectation: {found['tail_power_over_expected']:.3f} ± {found['tail_standard_error']:.3f}.\n"
    )


def _generation(found: dict[str, Any]) -> str:
    cost = [
        (
            f"{row['grid']}²",
            row["systems"],
            f"{row['bare_seconds']:.1f}",
            f"{row['seconds']:.1f}",
            f"{row['ratio']:.2f}",
        )
        for row in found["cost"]
    ]
    pair = [
        (f"{row['grid']}²", row["systems"], f"{row['one_worker_seconds']:.1f}", f"{row['two_workers_seconds']:.1f}",
         f"{row['speedup']:.2f}", f"{row['speedup_with_start_against_one_process']:.2f}")
        for row in found["two_workers"]
    ]  # fmt: skip
    sets = [
        (f"{row['systems']} × {row['pairs']} at {row['grid']}²", "shared" if row["shared_loads"] else "own",
         f"{row['seconds']:.0f}", f"{row['mebibytes']:.0f}", f"{row['largest_residual']:.0e}")
        for row in found["sets"]
    ]  # fmt: skip
    parts, memory = found["breakdown_21"], found["memory"]
    peaks = " and ".join(f"{max(row['peak_mib']):.0f} MiB after {row['systems']} systems" for row in memory)
    return "\n".join([
        _table(("grid", "systems", "bare NumPy/SciPy, s", "one worker, s", "ratio"), cost),
        f"Per system at 21², ms: bare {parts['bare']:.2f}; building it, with assembly, residual and checks, "
        f"{parts['build']:.2f} ({parts['build_returning_freed_memory']:.2f} if freed memory were handed back as dask "
        f"tells its workers to); checksums, digests and writing {parts['write']:.2f} (zarr's writer, without digests: "
        f"{parts['write_by_zarr_without_digest']:.2f}).\n",
        _table(("grid", "systems", "one dask worker, s", "two, s", "speed-up",
                "two with start-up, over one process"), pair),
        f"Peak memory of a worker at 21²: {peaks}.\n",
        _table(("data set", "loads", "seconds, all cores", "MiB", "largest residual"), sets),
    ])  # fmt: skip


def _integrity(found: dict[str, Any]) -> str:
    rows = []
    for kind in ("flipped_bit", "truncated_file", "deleted_file"):
        row = found[kind]
        rows.append((
            kind.replace("_", " "), found["trials_per_kind"], row["verify_raised_naming_file"],
            row["read_raised"], row["read_equal"], row["verify_silent"] + row["read_silent"],
        ))  # fmt: skip
    head = ("damage", "trials", "named by verify", "plain read: error", "plain read: right values", "silent")
    return _table(head, rows)


def _kills(found: dict[str, Any]) -> str:
    worker = "yes" if found["worker_killed"]["same_digest"] else "no"
    rows = [
        ("one of two workers of a running scheduler, SIGKILL", 1, worker, "–"),
        ("the whole run, SIGKILL at random moments, started again", found["runs_killed"], found["same_digest"],
         found["only_missing_recomputed"]),
    ]  # fmt: skip
    return _table(("killed", "times", "same digest as undisturbed", "only missing shards recomputed"), rows)


def _params(found: dict[str, Any]) -> str:
    rows = [
        (row["row"], f"{row['paper']:,}", f"{row['ours']:,}", f"{row['ours'] - row['paper']:,}", row["dead"])
        for row in found["rows"]
    ]
    layer = found["afno_per_layer"]
    rows.append(
        ("AFNO, each further layer", f"{layer['paper']:,}", f"{layer['ours']:,}", layer["ours"] - layer["paper"], 0)
    )
    return _table(("model", "paper", "ours", "difference", "of these never act"), rows)


def _step(found: dict[str, Any]) -> str:
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
        for row in found["rows"]
    ]
    head = ("grid", "plain, ms", "ours, ms", "bare products, ms", "speed-up", "of one layer's attention",
            "over bare products", "spent on products / norms / passes / calls, %", "plain, MiB",
            "ours, MiB", "memory ratio")  # fmt: skip
    return _table(head, rows) + (
        f"\nForward and backward of a {found['layers']}-layer NIPS, batch {found['batch']}, d = {found['pairs']}, "
        f"d_k = {found['channels']}; processor time of one thread.\n"
    )


def _tokens(found: dict[str, Any]) -> str:
    sizes = sorted({point["nodes"] for model in found["models"] for point in model["points"]})
    rows = []
    for model in found["models"]:
        at = {point["nodes"]: point for point in model["points"]}
        powers = model["exponents"]
        for what, unit, name in (("seconds", 1.0, "seconds"), ("bytes", 2**20, "peak MiB")):
            digits = 2 if what == "seconds" else 0
            values = [f"{at[size][what] / unit:,.{digits}f}" if size in at else "–" for size in sizes]
            power = "–" if powers[what] is None else f"{powers[what]:.2f}"
            rows.append((f"{model['model']}: {name}", *values, power))
    closeness = [
        point["bytes"] / point["predicted_bytes"]
        for model in found["models"] for point in model["points"] if "predicted_bytes" in point
    ]  # fmt: skip
    paper = [
        (f"NAO, {row['form']}, {row['nodes'] ** 2:,} nodes", f"{row['predicted_gb']:.1f}",
         "fits" if row["predicted_gb"] < 40 else "does not fit",
         "out of memory" if row["paper_gb"] is None else f"{row['paper_gb']:.2f}")
        for row in found["paper"]
    ]  # fmt: skip
    head = ("one step", *(f"{size**2:,}" for size in sizes), "exponent")
    return "\n".join([
        _table(head, rows),
        f"Measured over predicted memory of NAO: {min(closeness):.2f} to {max(closeness):.2f}. At the paper's batch of "
        "100, on its card of 40 GB:\n",
        _table(("4 layers", "predicted, GB", "verdict", "the paper, GB"), paper),
    ])  # fmt: skip


def _symmetry(found: dict[str, Any]) -> str:
    kinds = ("permutation", "orthogonal", "invertible", "invertible_exact_data", "square")
    rows = [(row["estimator"], *(f"{row[kind]:.0e}" for kind in kinds)) for row in found["rows"]]
    head = ("estimator", "pairs permuted", "mixed orthogonally", "mixed by an invertible matrix",
            "the same, exact data", "square turned or mirrored")  # fmt: skip
    return _table(head, rows)


def _yardsticks(found: dict[str, Any]) -> str:
    rows = [
        (
            row["estimator"],
            "none" if row["noise"] == 0 else f"{100 * row['noise']:g} %",
            *(_percent(row[what]) for what in ("in_context", "held_out", "kernel", "microstructure")),
            *(f"{100 * row[what]:.1f} %" for what in ("phase_accuracy", "phase_accuracy_inside")),
            f"{row['seconds']:.2f}",
        )
        for row in found["rows"]
    ]
    head = ("estimator", "noise", "in context", "held out", "kernel", "microstructure", "phase accuracy",
            "the same, inside", "seconds")  # fmt: skip
    return _table(head, rows) + (
        f"\n{found['tests']} test systems at {found['nodes']}², {found['context']} pairs each, {found['queries']} "
        f"loads held out; {found['training']} other systems' true kernels for the two estimators that learn.\n"
    )


def _transforms(found: dict[str, Any]) -> str:
    rows = [(f"{row['nodes']}²", *(f"{row['fft_over_dense'][kind]:.2f}" for kind in row["fft_over_dense"]))
            for row in found["rows"]]  # fmt: skip
    kinds = list(found["rows"][0]["fft_over_dense"])
    return _table(("grid", *(f"{kind}: time of FFT over matrix product" for kind in kinds)), rows)


def _interruptions(found: dict[str, Any]) -> str:
    killed, told, full = found["killed"], found["terminated"], found["disk_full"]
    rows = [
        (f"SIGKILL at a random moment ({killed['runs']} runs, up to three each)", killed["kills"],
         f"{killed['equal']} of {killed['runs']} runs end bitwise as undisturbed"),
        (f"SIGTERM or SIGUSR1, some twice; slowest exit {told['slowest_exit_seconds']:.1f} s", told["signals"],
         f"{told['equal']} of {told['signals']} runs end bitwise as undisturbed"),
        ("disk full at a random size of the file", full["sizes"],
         f"{full['previous_kept']} times the previous checkpoint is whole, {full['refused']} times an error says so"),
    ]  # fmt: skip
    return _table(("cut short by", "times", "outcome"), rows)


def _processes(found: dict[str, Any]) -> str:
    def said(answer: bool) -> str:
        return "yes" if answer else "no"

    rows = [
        (f"largest relative gap of the loss over {found['steps']} steps", "≤ 1e-5",
         f"{found['largest_relative_gap_of_losses']:.1e}"),
        ("the same, one process in two parts", "–", f"{found['gap_with_two_parts']:.1e}"),
        ("weights and optimiser are the bits of one process in two parts", "–", said(found["bitwise_as_two_parts"])),
        (f"… and of undisturbed two, after {found['kills_of_one_process']} kills of one, restarted by torchrun",
         "yes", said(found["bitwise_after_kills"])),
    ]  # fmt: skip
    return _table(("two processes against one, the same batch", "required", "measured"), rows)


def _throughput(found: dict[str, Any]) -> str:
    rows = [
        (row["case"], f"{row['trained_per_second']:.0f}", f"{row['bare_per_second']:.0f}", f"{row['ratio']:.2f}")
        for row in found["rows"]
    ]
    return _table(("case", "`nipde train`, samples/s", "bare loop, samples/s", "ratio"), rows)


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "conditioned": conditioned,
    "discovery": discovery,
    "dic": dic,
    "mechanics": mechanics,
    "solids-trial": solids,
    "solids-quick": solids,
    "solids-standard": solids,
    "formats": formats,
    "mistakes": mistakes,
    "fuzz": fuzz,
    "conditioned-laws": laws,
    "conditioned-cost": cost,
    "physics": _physics,
    "random-fields": _random_fields,
    "params": _params,
    "step": _step,
    "tokens": _tokens,
    "symmetry": _symmetry,
    "yardsticks": _yardsticks,
    "generation": _generation,
    "integrity": _integrity,
    "kills": _kills,
    "transforms": _transforms,
    "interruptions": _interruptions,
    "processes": _processes,
    "throughput": _throughput,
    "darcy-trial": darcy,
    "darcy-quick": darcy,
    "darcy-standard": darcy,
    "darcy-paper": darcy,
    "design": design,
    "uncertainty": uncertainty,
}


def _short(commit: str) -> str:
    head, *rest = commit.split(" ", 1)
    return " ".join([head[:10], *rest])


def _order(orders: list[float]) -> str:
    return f"{orders[-1]:.4f}"

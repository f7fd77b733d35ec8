"""Tables of training runs: cut short, in two processes, with rows over processes, and against the bare loop."""

from typing import Any

from benchmarks.tables.markdown import table


def interruptions(measured: dict[str, Any]) -> str:
    """How training was cut short, how often, and how it ended."""
    killed, told, full = measured["killed"], measured["terminated"], measured["disk_full"]
    rows = [
        (f"SIGKILL at a random moment ({killed['runs']} runs, up to three each)", killed["kills"],
         f"{killed['equal']} of {killed['runs']} runs end bitwise as undisturbed"),
        (f"SIGTERM or SIGUSR1, some twice; slowest exit {told['slowest_exit_seconds']:.1f} s", told["signals"],
         f"{told['equal']} of {told['signals']} runs end bitwise as undisturbed"),
        ("disk full at a random size of the file", full["sizes"],
         f"{full['previous_kept']} times the previous checkpoint is whole, {full['refused']} times an error says so"),
    ]  # fmt: skip
    return table(("cut short by", "times", "outcome"), rows)


def processes(measured: dict[str, Any]) -> str:
    """Two processes against one: what is required and what was measured."""

    def said(answer: bool) -> str:
        return "yes" if answer else "no"

    rows = [
        (f"largest relative gap of the loss over {measured['steps']} steps", "≤ 1e-5",
         f"{measured['largest_relative_gap_of_losses']:.1e}"),
        ("the same, one process in two parts", "–", f"{measured['gap_with_two_parts']:.1e}"),
        ("weights and optimiser are the bits of one process in two parts", "–", said(measured["bitwise_as_two_parts"])),
        (f"… and of undisturbed two, after {measured['kills_of_one_process']} kills of one, restarted by torchrun",
         "yes", said(measured["bitwise_after_kills"])),
    ]  # fmt: skip
    return table(("two processes against one, the same batch", "required", "measured"), rows)


def spread(measured: dict[str, Any]) -> str:
    """Rows over processes against one process; then large grids in tiles of rows; then kills."""
    size, wire, kills = measured["cost_nodes"], measured["wire_nodes"], measured["kills"]
    large = [
        (f"{point['nodes']}²", f"{point['seconds']:.2f}", f"{point['bytes'] / 1e9:.2f}",
         f"{point['process_bytes'] / 1e9:.2f}", f"{point['bytes'] / point['nodes'] ** 2 / 1e3:.1f}")
        for point in measured["large"]
    ]  # fmt: skip
    paper = measured["paper"]
    return "\n".join([
        _groups(measured["groups"]),
        f"NIPS with {measured['layers']} layers, d = {measured['pairs']}, d_k = {measured['channels']}, "
        f"{measured['retained']} modes per axis; bytes at {wire}², memory and time at {size}², one sample. Equality: "
        "NIPS and NIPS-mlp, all modes, uneven parts, the worst over processes and parameters. "
        f"One of two processes that share every grid was killed {kills['kills']} times in {kills['steps']} steps: the "
        f"weights at the end are {'' if kills['bitwise'] else 'not '}the undisturbed run's, bit by bit.\n",
        table(("one step, one process", "processor time, s", "peak above the data, GB", "whole process, GB",
               "kB per node"), large),
        f"Forward, backward and Adam on one sample in tiles of {measured['tile_rows']} rows. The paper's table has "
        f"{paper['gb_per_sample']:.3f} GB per sample at {paper['nodes']}², "
        f"{1e6 * paper['gb_per_sample'] / paper['nodes'] ** 2:.1f} kB per node, all modes kept.\n",
    ])  # fmt: skip


def spread_gated(measured: dict[str, Any]) -> str:
    """The same of gated Conditioned NIPS."""
    return _groups(measured["groups"]) + (
        f"\nGated Conditioned NIPS, {measured['terms']} terms, {measured['channels']} channels, "
        f"{measured['pairs']} pairs, {measured['queries']} queries, all modes; "
        f"bytes at {measured['wire_nodes']}², memory and time at "
        f"{measured['cost_nodes']}², one sample. Equality: with drift and without, uneven parts; gradients in single "
        "precision over the largest of all.\n"
    )


def _groups(groups: list[dict[str, Any]]) -> str:
    """Several processes against one: what is required, and what was found."""

    def gap(precision: str, what: str) -> list[str]:
        return [f"{max(row[what] for row in group['equal'] if row['precision'] == precision):.0e}" for group in groups]

    rows = [
        ("answers, float32", "≤ 1e-5", *gap("float32", "answers")),
        ("gradients, float32", "≤ 1e-5", *gap("float32", "gradients")),
        ("answers, float64", "≤ 1e-10", *gap("float64", "answers")),
        ("gradients, float64", "≤ 1e-10", *gap("float64", "gradients")),
        ("bytes on the wire over the formula", "0.95 to 1.05",
         *(f"{group['wire']['measured'] / group['wire']['predicted']:.2f}" for group in groups)),
        ("peak memory of a process × P, over one process", "0.90 to 1.10",
         *(f"{group['memory_times_parts']:.2f}" for group in groups)),
        ("processor time of a process over one process", "≤ 0.60 at P = 2",
         *("–" if group["time_ratio"] is None else f"{group['time_ratio']:.2f}" for group in groups)),
    ]  # fmt: skip
    return table(("", "required", *(f"P = {group['parts']}" for group in groups)), rows)


def throughput(measured: dict[str, Any]) -> str:
    """By model: samples per second of a run and of the bare loop."""
    rows = [
        (row["case"], f"{row['trained_per_second']:.0f}", f"{row['bare_per_second']:.0f}", f"{row['ratio']:.2f}")
        for row in measured["rows"]
    ]
    return table(("case", "`nipde train`, samples/s", "bare loop, samples/s", "ratio"), rows)

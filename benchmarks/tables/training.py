"""Tables of training runs: cut short, in two processes, and against the bare loop."""

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


def throughput(measured: dict[str, Any]) -> str:
    """By model: samples per second of a run and of the bare loop."""
    rows = [
        (row["case"], f"{row['trained_per_second']:.0f}", f"{row['bare_per_second']:.0f}", f"{row['ratio']:.2f}")
        for row in measured["rows"]
    ]
    return table(("case", "`nipde train`, samples/s", "bare loop, samples/s", "ratio"), rows)

"""The README's table: one look at several records, the paper's figures beside ours, classical methods beside both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nipde.benchmarks.record import read_record
from nipde.benchmarks.tables.markdown import percent, table
from nipde.benchmarks.tables.solids import SOURCES as SOLIDS
from nipde.benchmarks.tables.solids import longest

#: Records it is made from.
SOURCES = ("darcy-standard", "conditioned", "yardsticks", *SOLIDS)
Cells = tuple[str, ...]


def headline(results: Path) -> str:
    """Errors on systems that no training has seen: to loads of the context, and to loads that were never applied."""
    darcy, ours, classical, *solids = (read_record(results, name)["measured"] for name in SOURCES)
    cells = [*_darcy(darcy, ours, classical), *_solids(longest(solids))]
    head = ("problem", "estimator", "what it is told", "paper, in context", "in context", "**held out**")
    files = ", ".join(f"`results/{name}.json`" for name in SOURCES)
    return table(head, cells) + f"\n*From {files}.*\n"


def _darcy(darcy: dict[str, Any], ours: dict[str, Any], classical: dict[str, Any]) -> Iterator[Cells]:
    exact, noisy = "Darcy flow, 21², 50 pairs", "the same, 1 % noise"
    nips = next(row for row in darcy["rows"] if (row["law"], row["case"]) == ("darcy-literal", "21-nips-2"))
    yield (exact, "NIPS, 2 layers", f"{nips['seconds'] / 60:.0f} min of training", f"{nips['paper']['in_context']} %",
           percent(nips["paper_protocol"]["in_context"]["mean"]),
           percent(nips["unseen_loads"]["held_out"]["mean"]))  # fmt: skip
    told = {
        "ridge, GCV": "nothing",
        "empirical Bayes": "true kernels of 1,000 systems",
        "adjoint Gauss-Newton, total variation": "the law",
    }
    weights = {
        "darcy-two-phase-gated": ("Conditioned NIPS, gated", "weights"),
        "darcy-two-phase": ("Conditioned NIPS, elliptic", "weights, form of the law"),
    }
    for problem, noise in ((exact, 0.0), (noisy, 0.01)):
        for row in classical["rows"]:
            if row["estimator"] in told and row["noise"] == noise:
                yield (problem, row["estimator"], told[row["estimator"]], "", percent(row["in_context"]),
                       percent(row["held_out"]))  # fmt: skip
        for name, (label, what) in weights.items():
            row = next(
                row for row in ours["rows"]
                if (row["weights"], row["systems_of"], row["nodes"], row["pairs"], row["noise"])
                == (name, "literal", 21, 50, noise)
            )  # fmt: skip
            yield problem, label, what, "", percent(row["in_context"]["mean"]), percent(row["held_out"]["mean"])


def _solids(solids: dict[str, Any]) -> Iterator[Cells]:
    told = {
        "ridge, GCV": "nothing",
        "Conditioned NIPS, gated with head": "",
        "Conditioned NIPS, elastic": "form of the law",
    }
    for problem, title in (("mmnist", "Mechanical MNIST, 100 pairs"), ("tissue", "tissue, 100 pairs")):
        rows = [row for row in solids["rows"] if row["problem"] == problem]
        for row in sorted(rows, key=lambda row: -row["test"]["held_out"]["mean"]):
            if row["label"] not in told and not row["trained"]:
                continue
            what = f"{row['seconds'] / 60:.0f} min of training" if row["trained"] else told[row["label"]]
            paper = "" if row["paper"] is None else f"{row['paper']} %"
            yield (title, row["label"], what, paper, percent(row["test"]["in_context"]["mean"]),
                   percent(row["test"]["held_out"]["mean"]))  # fmt: skip
        for one in solids["noises"]:
            if (one["problem"], one["noise"]) == (problem, 0.01):
                tests = {row["label"]: row["test"] for row in one["rows"]}
                few = f"the same, 1 % noise, {tests['ridge, GCV']['systems']} specimens"
                for label in ("ridge, GCV", "Conditioned NIPS, elastic"):
                    errors = (percent(tests[label][what]["mean"]) for what in ("in_context", "held_out"))
                    yield few, label, told[label], "", *errors
        for one in solids["meshes"]:
            if one["problem"] == problem:  # an estimator that knows the law may not know the elements, too
                finest = one["settings"][-1]["held_out"]
                few = f"the same, solved with other elements, {one['settings'][-1]['specimens']} specimens"
                for label in ("ridge, GCV", "Conditioned NIPS, elastic"):
                    yield few, label, told[label], "", "", percent(finest[label])

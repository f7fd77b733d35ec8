"""The README's table: rows of several records, each with whose data it was measured on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.record import read_record
from benchmarks.tables.markdown import percent, table
from benchmarks.tables.solids import SOURCES as SOLIDS
from benchmarks.tables.solids import longest

#: Records it is made from.
SOURCES = ("darcy-standard", "conditioned", "baselines", "independent", "reference-standard", *SOLIDS)
#: Data of the solver whose discretisation the estimator shares, or of finer elements.
SAME, OTHER = "same discretisation", "independent"
Cells = tuple[str, ...]


def headline(results: Path) -> str:
    """Errors on systems that no training has seen: on loads of the context, and on loads outside it."""
    darcy, ours, classical, independent, sensors, *solids = (read_record(results, name)["measured"] for name in SOURCES)
    cells = [
        *_darcy(darcy, ours, classical), *_independent(independent), *_sensors(sensors), *_solids(longest(solids))
    ]  # fmt: skip
    head = ("problem", "estimator", "prior knowledge", "data", "in context", "**held out**")
    files = ", ".join(f"`results/{name}.json`" for name in SOURCES)
    return table(head, cells) + f"\n*From {files}.*\n"


def _darcy(darcy: dict[str, Any], ours: dict[str, Any], classical: dict[str, Any]) -> Iterator[Cells]:
    nips = next(row for row in darcy["rows"] if (row["law"], row["case"]) == ("darcy-consistent", "21-nips-2"))
    label = f"NIPS, 2 layers (the paper prints {nips['paper']['in_context']:.2f} % in context)"
    yield ("Darcy, 21², 50 pairs, smooth loads, no noise", label, f"{nips['seconds'] / 60:.0f} min of training",
           SAME, percent(nips["paper_protocol"]["in_context"]["mean"]),
           percent(nips["unseen_loads"]["held_out"]["mean"]))  # fmt: skip
    problem = "Darcy, 21², 50 pairs, 1 % noise"
    name = "adjoint Gauss-Newton, total variation"
    row = next(row for row in classical["rows"] if (row["estimator"], row["noise"]) == (name, 0.01))
    yield problem, name, "the equation", SAME, percent(row["in_context"]), percent(row["held_out"])
    row = next(
        row for row in ours["rows"]
        if (row["weights"], row["systems_of"], row["nodes"], row["pairs"], row["noise"])
        == ("darcy-two-phase", "literal", 21, 50, 0.01)
    )  # fmt: skip
    yield (problem, "Conditioned NIPS, elliptic", "weights, the equation", SAME, percent(row["in_context"]["mean"]),
           percent(row["held_out"]["mean"]))  # fmt: skip


def _independent(measured: dict[str, Any]) -> Iterator[Cells]:
    """The same problem, solved by finer finite elements."""
    shown = {
        "ridge, GCV": ("ridge, GCV", "none"),
        "adjoint Gauss-Newton, total variation": ("adjoint Gauss-Newton, total variation", "the equation"),
        "darcy-reference-gated": ("Conditioned NIPS, gated", "weights"),
        "darcy": ("Conditioned NIPS, elliptic", "weights, the equation"),
    }
    rows = {
        row["estimator"]: row for row in measured["rows"]
        if (row["family"], row["load_alpha"], row["load_waves"], row["noise"]) == ("two-phase", 1.0, 8, 0.01)
    }  # fmt: skip
    for name, (label, knowledge) in shown.items():
        yield (
            "Darcy, 21², 50 pairs, 1 % noise, loads of 8 waves",
            label,
            knowledge,
            OTHER,
            "",
            percent(rows[name]["held_out"]),
        )


def _sensors(measured: dict[str, Any]) -> Iterator[Cells]:
    """Output error on reference data."""
    rows = {row["row"]: row for row in measured["rows"] if row["table"] == "rows"}
    shown = {"two phases": "50 pairs", "30 sensors, 10 pairs": "10 pairs, 30 sensors"}
    for name, label in shown.items():
        row = rows[name]
        yield (f"Darcy, 21², {label}, 1 % noise, {row['systems']} systems of `darcy-reference`", "output error",
               "the equation", OTHER, "", percent(row["held_out"]))  # fmt: skip


def _solids(solids: dict[str, Any]) -> Iterator[Cells]:
    rows = {(row["problem"], row["label"]): row for row in solids["rows"]}
    for label in ("Conditioned NIPS, gated with head",):
        row = rows["mmnist", label]
        yield ("Mechanical MNIST, 100 pairs", label + " (paper)" * (row["paper"] is not None),
               f"{row['seconds'] / 60:.0f} min of training", SAME, percent(row["test"]["in_context"]["mean"]),
               percent(row["test"]["held_out"]["mean"]))  # fmt: skip
    shown = {
        "mmnist": ("Mechanical MNIST, 100 pairs", {"Conditioned NIPS, elastic": "elasticity"}),
        "tissue": ("tissue with fibres, 100 pairs", {"Conditioned NIPS, elastic": "elasticity"}),
    }
    for one in solids["meshes"]:
        problem, labels = shown[one["problem"]]
        for label, knowledge in labels.items():
            yield problem, label, knowledge, OTHER, "", percent(one["settings"][-1]["held_out"][label])

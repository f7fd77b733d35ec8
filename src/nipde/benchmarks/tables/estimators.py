"""Tables of all estimators side by side: what leaves their kernels unchanged, and their errors on Darcy flow."""

from typing import Any

from nipde.benchmarks.tables.markdown import percent, table


def symmetry(found: dict[str, Any]) -> str:
    """By estimator: the largest relative change of its kernel under each symmetry."""
    kinds = ("permutation", "orthogonal", "invertible", "invertible_exact_data", "square")
    rows = [(row["estimator"], *(f"{row[kind]:.0e}" for kind in kinds)) for row in found["rows"]]
    head = ("estimator", "pairs permuted", "mixed orthogonally", "mixed by an invertible matrix",
            "the same, exact data", "square turned or mirrored")  # fmt: skip
    return table(head, rows)


def yardsticks(found: dict[str, Any]) -> str:
    """By estimator and noise: errors of answers, of the kernel and of the microstructure."""
    rows = [
        (
            row["estimator"],
            "none" if row["noise"] == 0 else f"{100 * row['noise']:g} %",
            *(percent(row[what]) for what in ("in_context", "held_out", "kernel", "microstructure")),
            *(f"{100 * row[what]:.1f} %" for what in ("phase_accuracy", "phase_accuracy_inside")),
            f"{row['seconds']:.2f}",
        )
        for row in found["rows"]
    ]
    head = ("estimator", "noise", "in context", "held out", "kernel", "microstructure", "phase accuracy",
            "the same, inside", "seconds")  # fmt: skip
    return table(head, rows) + (
        f"\n{found['tests']} test systems at {found['nodes']}², {found['context']} pairs each, {found['queries']} "
        f"loads held out; {found['training']} other systems' true kernels for the two estimators that learn.\n"
    )

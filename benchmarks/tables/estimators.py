"""Tables of all estimators side by side: what leaves their kernels unchanged, and their errors on Darcy flow."""

from typing import Any

from benchmarks.tables.markdown import percent, table

#: Shown without noise, too; the others that know the law are exact there.
EXACT = ("ridge, GCV", "empirical Bayes", "adjoint Gauss-Newton, total variation")


def symmetry(measured: dict[str, Any]) -> str:
    """By estimator: the largest relative change of its kernel under each symmetry."""
    kinds = ("permutation", "orthogonal", "invertible", "invertible_exact_data", "square")
    rows = [(row["estimator"], *(f"{row[kind]:.0e}" for kind in kinds)) for row in measured["rows"]]
    head = ("estimator", "pairs permuted", "mixed orthogonally", "mixed by an invertible matrix",
            "the same, exact data", "square turned or mirrored")  # fmt: skip
    return table(head, rows)


def baselines(measured: dict[str, Any]) -> str:
    """By estimator and noise: errors of answers, of the kernel and of the microstructure."""
    rows = [
        (
            row["estimator"],
            "none" if row["noise"] == 0 else f"{100 * row['noise']:g} %",
            *(percent(row[what]) for what in ("in_context", "held_out", "kernel", "microstructure")),
            f"{100 * row['phase_accuracy']:.1f} %",
            f"{row['seconds']:.2f}",
        )
        for row in measured["rows"]
        if row["noise"] > 0 or row["estimator"] in EXACT
    ]
    head = ("estimator", "noise", "in context", "held out", "kernel", "microstructure", "phase accuracy", "seconds")
    return table(head, rows) + (
        f"\n{measured['tests']} test systems at {measured['nodes']}², {measured['context']} pairs each, "
        f"{measured['queries']} "
        f"loads held out; {measured['training']} other systems' true kernels for the two estimators that learn.\n"
    )

"""The table of the mechanics of solids, as Markdown."""

from typing import Any

from benchmarks.tables.markdown import percent, table

BODIES = ("neo-hookean", "tissue")


def mechanics(measured: dict[str, Any]) -> str:
    """One row for every check, a column for every kind of body."""
    rows = [
        ("patch test, largest error of Q4 and Q9", f"{measured['patch_error']:.0e}", "-"),
        ("force and tangent against differences", *_each(measured["consistency"], "{:.0e}")),
        ("energy after a turn by 1 rad", *_each(measured["rotation"], "{:.0e}")),
        ("order of Q4 and Q9 (displacement)", _orders(measured["orders"]), "-"),
        *_published(measured["published"]),
        ("Q4 at 29² nodes, distance from Q9", *_distances(measured["discretisation"], "degree_1")),
        ("the same, elements half as large", *_distances(measured["discretisation"], "degree_1_refined")),
        ("solves, of them not converged", *_each(measured["solves"], "{0[solves]}, {0[failures]}")),
        ("iterations, mean and most", *_each(measured["solves"], "{0[mean_iterations]:.1f}, {0[most_iterations]}")),
        ("load steps given up", *_each(measured["solves"], "{0[cutbacks]}")),
        ("largest residual", *_each(measured["solves"], "{0[largest_residual]:.0e}")),
        ("smallest J", *_each(measured["solves"], "{0[smallest_jacobian]:.2f}")),
        ("one solve", *_each(measured["cost"], "{0[milliseconds]:.1f} ms")),
        ("over bare assembly and band factor", *_each(measured["cost"], "{0[ratio]:.2f}")),
    ]
    return table(("", "Neo-Hookean body", "tissue of two segments"), rows)


def _each(figures: dict[str, Any], form: str) -> list[str]:
    return [form.format(figures[body]) for body in BODIES]


def _distances(errors: dict[str, Any], elements: str) -> list[str]:
    return [percent(errors[body][elements]) for body in BODIES]


def _orders(orders: dict[str, list[float]]) -> str:
    return ", ".join(f"{orders[f'degree_{degree}'][-1]:.2f}" for degree in (1, 2))


def _published(rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """The worst image of each degree."""
    worst = {degree: max(row["largest_error"] for row in rows if row["degree"] == degree) for degree in (1, 2)}
    return [
        (f"published energies of Mechanical MNIST, {name}", percent(worst[degree]), "-")
        for degree, name in ((1, "Q4"), (2, "Q9"))
    ]

"""The table of the mechanics of solids, as Markdown."""

from typing import Any

from nipde.benchmarks.tables.markdown import percent, table

BODIES = ("neo-hookean", "tissue")


def mechanics(found: dict[str, Any]) -> str:
    """One row for every check, a column for every kind of body."""
    rows = [
        ("patch test, largest error of Q4 and Q9", f"{found['patch_error']:.0e}", "-"),
        ("force and tangent against differences", *_each(found["consistency"], "{:.0e}")),
        ("energy after a turn by 1 rad", *_each(found["rotation"], "{:.0e}")),
        ("order of Q4 and Q9 (displacement)", _orders(found["orders"]), "-"),
        *_published(found["published"]),
        ("Q4 at 29² nodes, distance from Q9", *_distances(found["discretisation"], "degree_1")),
        ("the same, elements half as large", *_distances(found["discretisation"], "degree_1_refined")),
        ("solves, of them not converged", *_each(found["solves"], "{0[solves]}, {0[failures]}")),
        ("iterations, mean and most", *_each(found["solves"], "{0[mean_iterations]:.1f}, {0[most_iterations]}")),
        ("load steps given up", *_each(found["solves"], "{0[cutbacks]}")),
        ("largest residual", *_each(found["solves"], "{0[largest_residual]:.0e}")),
        ("smallest J", *_each(found["solves"], "{0[smallest_jacobian]:.2f}")),
        ("one solve", *_each(found["cost"], "{0[milliseconds]:.1f} ms")),
        ("over bare assembly and band factor", *_each(found["cost"], "{0[ratio]:.2f}")),
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

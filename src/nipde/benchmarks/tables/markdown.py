"""Numbers and tables in Markdown."""

from typing import Any


def percent(share: float) -> str:
    """A share in per cent, two digits."""
    if share < 1e-8:
        return "< 1e-6 %"
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A table."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)

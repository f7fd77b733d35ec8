"""Numbers, tables and where they come from, in Markdown."""

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


def provenance(record: dict[str, Any]) -> str:
    """Command, seed, commit, machine, day and file of a record."""
    machine = record["machine"]
    commit, *state = record["commit"].split(" ", 1)
    return (
        f"\n*`{record['command']}`, seed {record['seed']}, commit {' '.join([commit[:10], *state])}, "
        f"{machine['cores']} × {machine['processor']}, {record['time'][:10]}; `results/{record['name']}.json`*\n"
    )

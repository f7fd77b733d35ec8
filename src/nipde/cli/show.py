"""`nipde show ARCHIVE`: a figure of one system."""

import os

from nipde.cli.terminal import PICTURES, add_archive, check_file, parser, say
from nipde.data.archive import open_archive
from nipde.errors import ShapeError
from nipde.report.system_figure import Panel, save_figure, system_figure


def run(words: list[str]) -> int:
    """Entry of the verb."""
    parsed = parser(
        "show", "Plot one system of an archive: coefficient, a load and its response.",
        example="darcy21 --system 3 --out system3.png",
    )  # fmt: skip
    add_archive(parsed)
    parsed.add_argument("--system", type=int, default=0, help="number of the system")
    parsed.add_argument("--pair", type=int, default=0, help="number of the pair")
    parsed.add_argument("--out", type=str, default="system.png", help="figure to write: png, svg or pdf")
    parsed.add_argument("--dpi", type=int, default=150, help="resolution of a png")
    options = parsed.parse_args(words)
    check_file(options.out, endings=PICTURES)
    os.environ.setdefault("MPLBACKEND", "Agg")  # drawing to a file needs no screen
    archive = open_archive(options.path, options=options.storage_options)
    system = archive[options.system]
    if not 0 <= options.pair < system.pairs:
        raise ShapeError(expected=f"a pair from 0 to {system.pairs - 1}", got=options.pair, remedy="use another --pair")
    parts = {
        "hidden": system.hidden,
        "load": system.loads[options.pair],
        "response": system.responses[options.pair],
    }
    panels = []
    for role, values in parts.items():
        quantity = getattr(archive.quantities, role)
        panels.append(Panel(f"{role}: {quantity.name}", quantity.unit, values, quantity.components))
    title = f"{archive.plan.recipe.problem}, system {options.system}, pair {options.pair}"
    save_figure(system_figure(archive.grid, panels, title=title), options.out, dpi=options.dpi)
    say(f"drawn: {options.out}")
    return 0

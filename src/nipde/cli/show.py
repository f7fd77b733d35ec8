"""`nipde show PATH`: one system as a picture."""

import os

from nipde.cli.terminal import PICTURES, add_archive, check_file, parser, say
from nipde.data.archive import open as open_archive
from nipde.errors import ShapeError
from nipde.report.system_figure import Panel, system_figure


def run(words: list[str]) -> int:
    """Entry of the verb."""
    options = parser("show", "Draw one system: hidden field, a load and its response.")
    add_archive(options)
    options.add_argument("--system", type=int, default=0, help="which system")
    options.add_argument("--pair", type=int, default=0, help="which of its pairs")
    options.add_argument("--out", type=str, default="system.png", help="picture to write: png, svg or pdf")
    options.add_argument("--dpi", type=int, default=150, help="resolution of a png")
    chosen = options.parse_args(words)
    check_file(chosen.out, endings=PICTURES)
    os.environ.setdefault("MPLBACKEND", "Agg")  # drawing to a file needs no screen
    archive = open_archive(chosen.path, options=chosen.storage_options)
    system = archive[chosen.system]
    if not 0 <= chosen.pair < system.pairs:
        raise ShapeError(
            expected=f"a pair from 0 to {system.pairs - 1}", got=chosen.pair, remedy="choose another --pair"
        )
    parts = {
        "hidden": system.hidden,
        "load": system.loads[chosen.pair],
        "response": system.responses[chosen.pair],
    }
    panels = []
    for role, values in parts.items():
        quantity = getattr(archive.quantities, role)
        panels.append(Panel(f"{role}: {quantity.name}", quantity.unit, values, quantity.components))
    title = f"{archive.plan.recipe.problem}, system {chosen.system}, pair {chosen.pair}"
    system_figure(archive.grid, panels, title=title).savefig(chosen.out, dpi=chosen.dpi)
    say(f"drawn: {chosen.out}")
    return 0

"""`nipde show ARCHIVE`: a figure of one system."""

import numpy as np

from nipde.cli.arguments import PICTURES, add_archive, new_file, parser, whole
from nipde.cli.terminal import written
from nipde.data.archive import open_archive
from nipde.errors import ShapeError
from nipde.report.system_figure import Panel, system_figure


def run(words: list[str]) -> int:
    """Entry of the verb."""
    parsed = parser(
        "show", "Plot one system of an archive: coefficient, a load and its response.",
        example="darcy21 --system 3 --out system3.png",
    )  # fmt: skip
    add_archive(parsed)
    parsed.add_argument("--system", type=whole(0), default=0, help="number of the system")
    parsed.add_argument("--pair", type=whole(0), default=0, help="number of the pair")
    parsed.add_argument(
        "--out", type=new_file(*PICTURES), default="system.png", help="figure to write: png, svg or pdf"
    )
    parsed.add_argument("--dpi", type=whole(), default=150, help="resolution of a png")
    options = parsed.parse_args(words)
    archive = open_archive(options.path, options=options.storage_options)
    system = archive[options.system]
    if options.pair >= system.pairs:
        raise ShapeError(expected=f"a pair from 0 to {system.pairs - 1}", got=options.pair, remedy="use another --pair")
    pair = options.pair
    of_cells = system.fine is not None and archive.grid.dimension == 2
    parts = {
        "hidden": system.fine if of_cells else system.hidden,
        "load": system.loads[pair],
        "response": system.responses[pair],
    }
    panels = []
    for role, values in parts.items():
        quantity = getattr(archive.quantities, role)
        panels.append(Panel(f"{role}: {quantity.name}", quantity.unit, values, quantity.components))
    title = f"{archive.plan.recipe.problem}, system {options.system}, pair {options.pair}"
    with written(options.out) as partial:
        specimen = archive.plan.recipe.specimen_of(np.uint64(system.seed))
        figure = system_figure(archive.grid, panels, title=title, specimen=specimen)
        figure.savefig(partial, format=options.out.suffix[1:], dpi=options.dpi)
    return 0

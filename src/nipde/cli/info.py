"""`nipde info ARCHIVE`: its card."""

import numpy as np

from nipde.cli.arguments import add_archive, parser
from nipde.cli.terminal import say
from nipde.data.archive import Archive, open_archive


def run(words: list[str]) -> int:
    """Entry of the verb."""
    parsed = parser("info", "Describe an archive: law, fields, how it was made, how to read it.", example="darcy21")
    add_archive(parsed)
    options = parsed.parse_args(words)
    archive = open_archive(options.path, options=options.storage_options)
    say(card(archive))
    return 0


def card(archive: Archive) -> str:
    """Content, origin and how to read it, one line each."""
    plan, recipe = archive.plan, archive.plan.recipe
    sample = archive.read(range(min(len(archive), 8)))
    boundary = ", ".join(axis.boundary.name for axis in archive.grid.axes)
    own = "the same for every system" if recipe.shared_loads else "every system has its own"
    residual = np.max(sample.diagnostics["residual"])
    stored = f"{recipe.precision}, {plan.shards} shards of {plan.systems_per_shard} systems"
    builds = sorted({f"nipde {record.versions['nipde']}" for record in archive.manifest.shards})
    others = {name: values for name, values in sample.diagnostics.items() if name != "residual"}
    solves = ", ".join(f"{name} {values.min():.3g} to {values.max():.3g}" for name, values in others.items())
    fine = "" if sample.fine is None else ", .fine"
    rows = [
        ("problem", f"{recipe.problem}: {recipe.__doc__}"),
        ("content", f"{len(archive)} systems × {recipe.pairs} pairs (load, response); loads: {own}"),
        ("grid", f"{archive.grid}, {'the box around specimens' if recipe.on_shapes else f'boundary {boundary}'}"),
        *((role, _describe(archive, role, values)) for role, values in (
            ("hidden", sample.hidden), ("load", sample.loads), ("response", sample.responses))),
        *([("fine", _describe_fine(archive, sample.fine))] if sample.fine is not None else []),
        ("split", ", ".join(f"{part} {len(archive.indices(part))}" for part in archive.split["systems"])),
        ("residual", f"at most {residual:.1e}, relative, in the first {len(sample.seed)} systems"),
        *([("solves", f"{solves}, in the same systems")] if solves else []),
        ("recipe", ", ".join(f"{key}={value}" for key, value in recipe.to_dict().items() if key != "problem")),
        ("seed", f"{plan.seed}"),
        ("stored", f"{stored}, {len(archive.manifest.files)} files"),
        *([("uses", recipe.attribution)] if recipe.attribution else []),
        ("made by", ", ".join(builds)),
        ("digest", archive.digest),
        ("read it", f"nipde.open_archive({archive.storage.address!r})[0]  # has .loads, .responses, .hidden{fine}"),
    ]  # fmt: skip
    return "\n".join(f"{name:>9}  {text}" for name, text in rows)


def _describe(archive: Archive, role: str, values: np.ndarray) -> str:
    quantity, grid = getattr(archive.quantities, role), archive.grid
    kind = f" ({', '.join(quantity.components)})" if len(quantity.components) > 1 else ""
    known = np.isfinite(values).mean()  # outside of specimens nothing is
    mean_square = np.mean(grid.integrate(np.nan_to_num(values.astype(float)) ** 2)) / grid.volume / known
    return (
        f"{quantity.name}{kind}, unit {'none' if quantity.unit == '1' else quantity.unit}: {_span(values, mean_square)}"
    )


def _describe_fine(archive: Archive, values: np.ndarray) -> str:
    """The hidden field in the cells that systems were solved on."""
    cells = " × ".join(str(count) for count in values.shape[-archive.grid.dimension :])
    mean_square = np.nanmean(values.astype(float) ** 2)
    return f"{archive.quantities.hidden.name} in the {cells} cells it was solved on: {_span(values, mean_square)}"


def _span(values: np.ndarray, mean_square: float) -> str:
    values = values[np.isfinite(values)]
    distinct = np.unique(values)
    if len(distinct) <= 4:
        return "values " + " and ".join(f"{value:g}" for value in distinct)
    return f"{values.min():.3g} to {values.max():.3g}, root mean square {np.sqrt(mean_square):.3g}"

"""An archive explained on one screen."""

import numpy as np

from nipde.data.archive import Archive


def card(archive: Archive) -> str:
    """What is inside, how it was made, how to read it, in plain lines."""
    plan, recipe, quantities = archive.plan, archive.plan.recipe, archive.quantities
    sample = archive.read(range(min(len(archive), 8)))
    boundary = ", ".join(axis.boundary.name for axis in archive.grid.axes)
    own = "the same for every system" if recipe.shared_loads else "every system has its own"
    builds = sorted({f"nipde {record.versions['nipde']}" for record in archive.manifest.shards})
    rows = [
        ("problem", f"{recipe.problem}: {recipe.__doc__}"),
        ("content", f"{len(archive)} systems × {recipe.pairs} pairs (load, response); loads: {own}"),
        ("grid", f"{archive.grid}, boundary {boundary}"),
        *((role, _describe(getattr(quantities, role), values)) for role, values in (
            ("hidden", sample.hidden), ("load", sample.loads), ("response", sample.responses))),
        ("split", ", ".join(f"{part} {len(archive.indices(part))}" for part in archive.split["systems"])),
        ("residual", f"largest relative solver residual {np.max(sample.diagnostics['residual']):.1e} (first {len(sample.seed)} systems)"),
        ("recipe", ", ".join(f"{key}={value}" for key, value in recipe.to_dict().items() if key != "problem")),
        ("seed", f"{plan.seed}"),
        ("stored", f"{recipe.precision}, {plan.shards} shards of {plan.systems_per_shard} systems, {len(archive.manifest.files)} files"),
        ("made by", ", ".join(builds)),
        ("digest", archive.digest),
        ("read it", f"nipde.open({archive.storage.address!r})[0]  # a System: .loads, .responses, .hidden"),
    ]  # fmt: skip
    return "\n".join(f"{name:>9}  {text}" for name, text in rows)


def _describe(quantity: object, values: np.ndarray) -> str:
    name, unit, components = quantity.name, quantity.unit, quantity.components  # type: ignore[attr-defined]
    kind = f" ({', '.join(components)})" if len(components) > 1 else ""
    levels = np.unique(values)
    span = (
        f"{values.min():.3g} to {values.max():.3g}, root mean square {np.sqrt(np.mean(values.astype(float) ** 2)):.3g}"
    )
    if len(levels) <= 4:
        span = "values " + " and ".join(f"{level:g}" for level in levels)
    return f"{name}{kind}, unit {'none' if unit == '1' else unit}: {span}"

"""Conditioned NIPS as it comes with the package: held-out errors by number of pairs, noise and grid, and the truth.

Test systems and loads are in no training; their seeds are others than those of the training archives. Every row is one
call of `nipde evaluate`. Weights and how they were trained: docs/conditioned.md.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nipde.data.archive import Archive
from nipde.data.generate import generate
from nipde.data.plan import Plan
from nipde.data.problems import AdvectionRecipe, DarcyRecipe, MixedDarcyRecipe
from nipde.data.recipe import Recipe
from nipde.evaluation.evaluate import evaluate
from nipde.evaluation.named import named
from nipde.training.pretrained import card, load

SEED = 4051
#: Test systems by nodes per axis; the finest take longest to make.
SYSTEMS = {11: 110, 15: 110, 21: 110, 41: 110, 81: 100}
PAIRS = (50, 20, 10, 5, 3)
#: Classical estimators in the comparison by number of pairs; the last ones take seconds each and see fewer systems.
CLASSICAL = ("minimum-norm", "ridge", "training-span", "empirical-bayes", "equation-error", "adjoint-tv")
SLOW = {"equation-error": 20, "adjoint-tv": 20, "training-span": 40, "empirical-bayes": 40}
KEPT = ("held_out", "worst_decile", "held_out_interior", "held_out_edge", "in_context", "kernel", "microstructure",
        "phase_accuracy", "phase_accuracy_inside")  # fmt: skip


def measure(*, quick: bool) -> dict[str, Any]:
    """All rows; `quick` sees 2 systems of the small grids."""
    with TemporaryDirectory() as folder:
        rows = list(_rows(Path(folder), quick=quick))
    return {
        "rows": rows,
        "weights": {name: _about(name) for name in sorted({row["weights"] for row in rows if row["weights"]})},
    }


def _rows(folder: Path, *, quick: bool) -> Iterator[dict[str, Any]]:
    def made(recipe: Recipe) -> Archive:
        return _archive(recipe, folder, quick=quick)

    def asked(weights: str, archive: Archive, what: str, **options: Any) -> dict[str, Any]:
        return _row(weights, archive, what, systems=2 if quick else None, **options)

    literal = {nodes: made(DarcyRecipe(nodes=nodes, pairs=100)) for nodes in ((11, 21) if quick else SYSTEMS)}
    for weights in ("darcy-two-phase", "darcy-two-phase-gated"):
        for context in PAIRS:
            for noise in (0.0, 0.01, 0.05):
                yield asked(weights, literal[21], "literal", context=context, noise=noise)
        for nodes, archive in literal.items():
            if nodes != 21:
                yield asked(weights, archive, "literal", context=50)
    mixed = {nodes: made(MixedDarcyRecipe(nodes=nodes, pairs=120)) for nodes in ((21,) if quick else (15, 21, 41))}
    for context in (100, 50, 20, 10, 5, 3):
        for noise in (0.0, 0.01, 0.05):
            yield asked("darcy", mixed[21], "mixed", context=context, noise=noise)
    for nodes, archive in mixed.items():
        if nodes != 21:
            yield asked("darcy", archive, "mixed", context=50)
    for contrast in (1.5, 4.0, 10.0, 30.0):
        phases = (6 * contrast**0.5, 6 / contrast**0.5)
        archive = made(DarcyRecipe(nodes=21, pairs=100, phases=phases))
        yield asked("darcy", archive, f"contrast {contrast:g}", context=50, noise=0.01)
    stirred = made(AdvectionRecipe(nodes=21, pairs=100))
    for weights in ("advection", "advection-gated"):
        for archive, what in ((stirred, "advection"), (literal[21], "literal")):
            for context, noise in ((50, 0.0), (10, 0.0), (50, 0.01)):
                yield asked(weights, archive, what, context=context, noise=noise)
    yield from _classical(literal[21], quick=quick)


def _row(weights: str, archive: Archive, what: str, *, systems: int | None, **options: Any) -> dict[str, Any]:
    found = evaluate(load(weights), archive, seed=SEED, systems=systems, **options)
    return {"weights": weights, "systems_of": what, "nodes": archive.grid.shape[0], **_kept(found)}


def _classical(archive: Archive, *, quick: bool) -> Iterator[dict[str, Any]]:
    """By number of pairs, on the same systems as the rows above (the slow ones on the first of them)."""
    with TemporaryDirectory() as folder:
        training = _archive(DarcyRecipe(nodes=21, pairs=50), Path(folder), quick=quick, seed=SEED + 1, test=False)
        for name in ("minimum-norm",) if quick else CLASSICAL:
            estimator = named(name, archive, training=training)
            for context in PAIRS:
                systems = 2 if quick else SLOW.get(name)
                found = evaluate(estimator, archive, seed=SEED, systems=systems, context=context, inversion=False)
                yield {"weights": "", "estimator": name, "systems_of": "literal", "nodes": 21, **_kept(found)}


def _archive(recipe: Recipe, folder: Path, *, quick: bool, seed: int = SEED, test: bool = True) -> Archive:
    """Test systems only, or training systems only."""
    systems = 4 if quick else SYSTEMS[recipe.nodes] if test else 1000
    split = (0.0, 0.0, 1.0) if test else (1.0, 0.0, 0.0)
    return generate(
        Plan(recipe, systems=systems, seed=seed, split=split), folder / f"{len(list(folder.iterdir()))}", workers=1
    )


def _kept(found: dict[str, Any]) -> dict[str, Any]:
    return {name: found[name] for name in (*KEPT, "systems", "pairs", "queries", "noise", "seconds_per_system")}


def _about(name: str) -> dict[str, Any]:
    told = card(name)
    parameters = sum(value.numel() for value in load(name).parameters())
    training = told["training"]
    return {
        "parameters": parameters,
        "minutes": training["seconds"] / 60,
        "steps": training["step"],
        "recipe": training["recipe"],
    }

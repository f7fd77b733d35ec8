"""Conditioned NIPS as it comes with the package: held-out errors by number of pairs, noise and grid, and the truth.

Test systems and loads are in no training; their seeds are others than those of the training archives. Every row is one
call of `nipde evaluate`. Weights and how they were trained: docs/explanation/conditioned-nips.md.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nipde.data.archive import Archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.data.recipe import Recipe
from nipde.evaluation.evaluate import evaluate
from nipde.evaluation.named import named
from nipde.weights import card, load

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
        return recorded(_rows(Path(folder), quick=quick))


def recorded(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Rows, and what their weights are."""
    kept = list(rows)
    return {"rows": kept, "weights": {name: _about(name) for name in sorted({row["weights"] for row in kept} - {""})}}


def _rows(folder: Path, *, quick: bool) -> Iterator[dict[str, Any]]:
    nodes = (11, 21) if quick else tuple(SYSTEMS)
    literal = {count: archive_of(DarcyRecipe(nodes=count, pairs=100), folder, quick=quick) for count in nodes}
    for weights, knows in (("darcy-two-phase", True), ("darcy-two-phase-gated", False)):
        for context in PAIRS:
            for noise in (0.0, 0.01, 0.05):
                yield row(weights, literal[21], "literal", quick=quick, context=context, noise=noise, inversion=knows)
        for count, archive in literal.items():
            if count != 21:
                yield row(weights, archive, "literal", quick=quick, context=50, inversion=knows, kernels=False)
    yield from _classical(literal[21], quick=quick)


def row(weights: str, archive: Archive, what: str, *, quick: bool, **options: Any) -> dict[str, Any]:
    """One call of evaluate with pretrained weights."""
    result = evaluate(load(weights), archive, seed=SEED, systems=2 if quick else None, **options).to_dict()
    return {"weights": weights, "systems_of": what, "nodes": archive.grid.shape[0], **_kept(result)}


def _classical(archive: Archive, *, quick: bool) -> Iterator[dict[str, Any]]:
    """By number of pairs, on the same systems as the rows above (the slow ones on the first of them)."""
    with TemporaryDirectory() as folder:
        training = archive_of(DarcyRecipe(nodes=21, pairs=50), Path(folder), quick=quick, seed=SEED + 1, test=False)
        for name in ("minimum-norm",) if quick else CLASSICAL:
            estimator = named(name, archive, training=training)
            for context in PAIRS:
                systems = 2 if quick else SLOW.get(name)
                result = evaluate(estimator, archive, seed=SEED, systems=systems, context=context, inversion=False,
                                 kernels=False).to_dict()  # fmt: skip
                yield {"weights": "", "estimator": name, "systems_of": "literal", "nodes": 21, **_kept(result)}


def archive_of(recipe: Recipe, folder: Path, *, quick: bool, seed: int = SEED, test: bool = True) -> Archive:
    """Test systems only, or training systems only."""
    systems = 4 if quick else SYSTEMS[recipe.nodes] if test else 1000
    split = (0.0, 0.0, 1.0) if test else (1.0, 0.0, 0.0)
    return generate(
        Plan(recipe, systems=systems, seed=seed, split=split), folder / f"{len(list(folder.iterdir()))}", workers=1
    )


def _kept(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in (*KEPT, "systems", "pairs", "queries", "noise", "seconds_per_system")}


def _about(name: str) -> dict[str, Any]:
    told = card(name)
    parameters = sum(value.numel() for value in load(name).parameters())
    training = told["training"]
    return {
        "parameters": parameters,
        "minutes": told["curve"][-1]["seconds"] / 60,
        "steps": told["curve"][-1]["step"],
        "recipe": training["recipe"],
    }

"""Cards of weights and data for people: docs/cards.md, made from the weights' own cards, the recipes and results/.

`python -m nipde.benchmarks.cards` writes the page, from the top folder of the repository.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from nipde.benchmarks.record import read_record
from nipde.benchmarks.tables.markdown import percent, table
from nipde.data.problems import PROBLEMS
from nipde.data.recipe import Recipe
from nipde.data.system import Quantity
from nipde.training.pretrained import card, names

PAGE = Path("docs/cards.md")
#: Records with rows that name the weights they measure.
RECORDS = ("conditioned", "conditioned-laws")
#: Words of these records for their systems.
SYSTEMS = {"literal": "`darcy`", "mixed": "`darcy-mixed`", "advection": "`advection`", "mmnist": "`mmnist`",
           "tissue": "`tissue`"}  # fmt: skip
#: Weights that are rows of the record of solids.
SOLIDS = {"mmnist-gated": "mmnist-conditioned-solid", "tissue-gated": "tissue-conditioned-solid"}
#: Recipes of balance laws name theirs; solids share this one.
MINIMUM = (
    "u minimises ∫ ψ(∇u) - b·u dx, u = 0 on all sides; plane strain, large deformations, "
    "[ψ of the material](physics.md#bodies-that-deform)"
)
#: Extras that make a recipe's packages come along.
EXTRAS = {"mmnist": "mechanics,mmnist", "tissue": "mechanics"}
HEAD = """\
# Cards

What comes with nipde, and what it can make: one card for each file of weights, one for each kind of data. The page is
made from the weights' own cards, from the recipes and from `results/` by `python -m nipde.benchmarks.cards`.

## Weights

`nipde.load(NAME)` opens them; `nipde.training.pretrained.card(NAME)` has everything below and the whole recipe and
calibration. [The weights](conditioned.md#the-weights) has the commands that make data and weights again. Errors are
relative, in the norm of the grid, means over test systems and loads that are in no training:
`results/conditioned.json`, `results/conditioned-laws.json` and `results/solids-standard.json`.
"""
DATA = """\
## Data

No archive comes with nipde: a recipe and a seed make one, with the same packages always the same. `nipde info ARCHIVE`
prints the card of one that was made, `nipde verify ARCHIVE --rebuild 3` makes its fourth system again and compares.
[Generating data](generation.md) explains every option, [physics](physics.md) the equations.
"""


def page(results: Path) -> str:
    """All of it."""
    rows = [row for name in RECORDS for row in read_record(results, name)["measured"]["rows"]] + _solids(results)
    models = [model_card(name, [row for row in rows if row["weights"] == name]) for name in names()]
    return "\n".join([HEAD, *models, DATA, *map(data_card, PROBLEMS.values())]).rstrip() + "\n"


def model_card(name: str, measured: list[dict[str, Any]]) -> str:
    """Range of validity, training, errors and limits of weights that come with the package."""
    about = card(name)
    training, calibration = about["training"], about.get("calibration")
    recipe, found = training["recipe"], training["validation"]
    noise = [recipe["noise"]] if isinstance(recipe["noise"], float) else recipe["noise"]
    digests = training["data"].split("+")
    lines = [
        ("Range", about["about"]),
        ("Limits", about["limits"]),
        ("Model", _model(recipe["model"])),
        ("Training data", f"{len(digests)} archive{'s' * (len(digests) > 1)}, by digest {_digests(digests)}"),
        ("Training", f"contexts of {_listed(sorted(recipe['context']))} pairs; noise of {_shares(noise)} of "
                     f"the responses; step {training['step']:,} of {about['curve'][-1]['step']:,.0f} was the best; "
                     f"{about['curve'][-1]['seconds'] / 60:.0f} minutes, seed {recipe['seed']}"),
        ("Validation", f"held-out error {percent(found['held_out'])} with {recipe['context'][0]} pairs and "
                       f"{100 * noise[0]:g} % noise"),
        ("Bands and alarm", "none" if calibration is None else _calibration(calibration)),
    ]  # fmt: skip
    return f"### Weights `{name}`\n\n{_bullets(lines)}\n{_measured(measured)}"


def data_card(kind: type[Recipe]) -> str:
    """What a recipe makes unless told otherwise, whose work is inside, and how to make it again."""
    recipe, solid = kind(), kind.problem in EXTRAS
    quantities, nodes = recipe.quantities, recipe.grid.shape
    hidden, load, response = quantities.hidden, quantities.load, quantities.response
    loads = recipe.pairs * len(load.components) * (1 if recipe.shared_loads else kind.systems)
    others = kind.systems * (recipe.pairs * len(response.components) + len(hidden.components))
    size = (loads + others) * recipe.grid.weights.size * np.dtype(recipe.precision).itemsize
    sides = {axis.length for axis in recipe.grid.axes}
    extras = f"`pip install 'nipde[{EXTRAS[kind.problem]}]'`, then " if solid else ""
    inside = (
        f"contains {kind.attribution}; name them and share alike" if kind.attribution else "no work of others inside"
    )
    lines = [
        ("What", f"{kind.__doc__}"),
        *([("Equation", MINIMUM)] if solid else []),
        ("Fields", f"load: {_quantity(load)}; response: {_quantity(response)}; hidden: {_quantity(hidden)}"),
        ("Known of each system", _listed(name.replace("_", " ") for name in recipe.parameter_names)),
        ("Size", f"{kind.systems} systems × {recipe.pairs} pairs on {' × '.join(map(str, nodes))} nodes, sides of "
                 f"{_listed(f'{side:g}' for side in sides)}: {size / 2**20:.0f} MiB of values in "
                 f"{recipe.precision}"),
        ("Loads", "the same for every system" if recipe.shared_loads else "every system has its own"),
        ("Licence", f"made from a seed by code under Apache 2.0; {inside}"),
        ("Make it again", f"{extras}`nipde generate {kind.problem} --seed 0 --out {kind.problem}`"),
    ]  # fmt: skip
    return f"### Data `{kind.problem}`\n\n{_bullets(lines)}"


def _model(model: dict[str, Any]) -> str:
    more = " with drift" * model["drift"] + " with a head" * model.get("head", False)
    return (
        f"Conditioned NIPS, {model['prior']} prior{more}; {model['layers']} layers of {model['channels']} channels, "
        f"{model['terms']} terms"
    )


def _calibration(found: dict[str, Any]) -> str:
    what = "answers and log b" if found["strata"][0][0].get("material") else "answers"
    return (
        f"levels {_shares(found['levels'])}, for {what}; from {found['systems']} validation systems of "
        f"archive {_digests([found['archive']])}, with {_listed(found['pairs'])} pairs and noise of "
        f"{_shares(found['noise'])}; alarm above a score of {found['threshold']:.1f}"
    )


def _solids(results: Path) -> list[dict[str, Any]]:
    """Rows of the record of solids as those of other records."""
    found = read_record(results, "solids-standard")["measured"]
    rows = {row["name"]: row for row in found["rows"]}
    return [
        {"weights": weights, "systems_of": rows[name]["problem"], "pairs": found["context"], "noise": 0.0,
         "nodes": card(weights)["training"]["grid"]["axes"][0]["nodes"], "held_out": rows[name]["test"]["held_out"]}
        for weights, name in SOLIDS.items()
    ]  # fmt: skip


def _measured(rows: list[dict[str, Any]]) -> str:
    """Held-out errors: a row for each kind of system, grid and number of pairs, a column for each noise."""
    if not rows:
        return "No record in `results/` measures them yet.\n"
    noises = sorted({row["noise"] for row in rows})
    cases = dict.fromkeys((row["systems_of"], row["nodes"], row["pairs"]) for row in rows)
    found = {(row["systems_of"], row["nodes"], row["pairs"], row["noise"]): row for row in rows}
    cells = [
        (
            SYSTEMS.get(case[0], f"two phases, {case[0]}"),
            f"{case[1]}²",
            case[2],
            *(percent(found[*case, noise]["held_out"]["mean"]) if (*case, noise) in found else "–" for noise in noises),
        )
        for case in cases
    ]
    return table(("test systems", "grid", "pairs", *(f"held out, noise {100 * noise:g} %" for noise in noises)), cells)


def _bullets(lines: list[tuple[str, str]]) -> str:
    return "".join(f"- **{name}**: {text.rstrip('.')}.\n" for name, text in lines)


def _quantity(quantity: Quantity) -> str:
    parts = f" ({', '.join(quantity.components)})" if len(quantity.components) > 1 else ""
    return f"{quantity.name}{parts}" + ("" if quantity.unit == "1" else f" in {quantity.unit}")


def _digests(digests: Iterable[str]) -> str:
    return _listed(f"`{digest[:12]}…`" for digest in digests)


def _shares(shares: Iterable[float]) -> str:
    return _listed(f"{100 * share:g} %" for share in sorted(set(shares)))


def _listed(items: Iterable[Any]) -> str:
    return ", ".join(map(str, items))


if __name__ == "__main__":
    PAGE.write_text(page(Path("results")))

"""Cards of weights and data: docs/reference/cards.md, made from the weights' own cards, the recipes and results/.

`python docs/cards.py` writes the page.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from nipde.data.problems import PROBLEMS
from nipde.data.recipe import Recipe
from nipde.data.system import Quantity
from nipde.weights import card, names

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from benchmarks.record import read_record  # noqa: E402  (in the top folder)
from benchmarks.tables.markdown import percent, table  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "cards.md"
#: Records with rows that name the weights they measure.
RECORDS = ("conditioned", "conditioned-laws")
#: Words of these records for their systems.
SYSTEMS = {"literal": "`darcy`", "mixed": "`darcy-mixed`", "advection": "`advection`", "mmnist": "`mmnist`",
           "tissue": "`tissue`", "consistent": "`darcy`, smooth loads"}  # fmt: skip
#: Weights that are rows of the record of solids.
SOLIDS = {"mmnist-gated": "mmnist-conditioned-solid", "tissue-gated": "tissue-conditioned-solid"}
#: Networks of the paper that are rows of the record of long trainings.
PAPER = {"nips-2-darcy": "darcy-consistent-21-nips-2-seed0", "nips-4-darcy": "darcy-consistent-21-nips-4-seed0"}
#: Extras that make a recipe's packages come along.
EXTRAS = {"mmnist": "mechanics,mmnist", "tissue": "mechanics"}
HEAD = """\
# Cards of weights and data

Made from the weights' records, the recipes and `results/` by `python docs/cards.py`.

## Weights

`nipde.weights.card(NAME)` has everything below, with the whole recipe, digests of the data and the calibration;
[Training](../how-to/training.md#train-the-shipped-weights-again) has the commands. Held-out errors are means over test
systems that are in no training, **on data of the same discretisation** unless they are called independent. Noise is
taken to be white; all sides at value zero.
"""
DATA = """\
## Data

A recipe and a seed make an archive. The code is under Apache 2.0. [Generate data](../how-to/generate-data.md) has the
options, [Physics](physics.md) the equations.
"""


def page(results: Path) -> str:
    """All of it."""
    rows = [row for name in RECORDS for row in read_record(results, name)["measured"]["rows"]]
    rows += [*_solids(results), *_of_the_paper(results), *_independent(results)]
    models = [model_card(name, [row for row in rows if row["weights"] == name]) for name in names()]
    return "\n".join([HEAD, *models, DATA, *map(data_card, PROBLEMS.values())]).rstrip() + "\n"


def model_card(name: str, measured: list[dict[str, Any]]) -> str:
    """Range of validity, training, errors and limits of weights that come with the package."""
    about = card(name)
    training, calibration = about["training"], about.get("calibration")
    recipe = training["recipe"]
    noise = [recipe["noise"]] if isinstance(recipe["noise"], float) else recipe["noise"]
    seconds = about["curve"][-1]["seconds"] + training.get("seconds_before", 0)
    lines = [
        ("Range", about["about"]),
        ("Limits", about["limits"]),
        ("Training", f"{_model(recipe['model'])}; {_pairs(recipe['context'])} pairs; noise {_shares(noise)}; "
                     f"{seconds / 60:.0f} minutes"),
        ("Bands", "none" if calibration is None else _calibration(calibration)),
    ]  # fmt: skip
    return f"### Weights `{name}`\n\n{_bullets(lines)}\n{_measured(measured)}"


def data_card(kind: type[Recipe]) -> str:
    """What a recipe makes by default, whose work it contains, and the command."""
    recipe, solid = kind(), kind.problem in EXTRAS
    quantities, nodes = recipe.quantities, recipe.grid.shape
    hidden, load, response = quantities.hidden, quantities.load, quantities.response
    loads = recipe.pairs * len(load.components) * (1 if recipe.shared_loads else kind.systems)
    others = kind.systems * (recipe.pairs * len(response.components) + len(hidden.components))
    size = (loads + others) * recipe.grid.weights.size * np.dtype(recipe.precision).itemsize
    extras = f", with the extras `{EXTRAS[kind.problem]}`" if solid else ""
    lines = [
        ("Law", f"{kind.__doc__}"),
        ("Fields", f"load: {_quantity(load)}; response: {_quantity(response)}; hidden: {_quantity(hidden)}"),
        ("Parameters", _listed(name.replace("_", " ") for name in recipe.parameter_names)),
        ("Size", f"{kind.systems} systems × {recipe.pairs} pairs{' (shared loads)' * recipe.shared_loads} on "
                 f"{' × '.join(map(str, nodes))} nodes, {size / 2**20:.0f} MiB"),
        *([("Licence", f"contains {kind.attribution}; name them and share alike")] if kind.attribution else []),
        ("Make it", f"`nipde generate {kind.problem} --seed 0 --out {kind.problem}`{extras}"),
    ]  # fmt: skip
    return f"### Data `{kind.problem}`\n\n{_bullets(lines)}"


def _pairs(context: int | list[int]) -> str:
    return str(context) if isinstance(context, int) else _listed(sorted(context))


def _model(model: dict[str, Any]) -> str:
    if model["kind"] == "nips":
        return f"NIPS, {model['layers']} layers of {model['channels']} channels"
    more = " with drift" * model["drift"] + " with a head" * model.get("head", False)
    sizes = f"{model['layers']} layers of {model['channels']} channels, {model['terms']} terms"
    return f"{model['prior']} prior{more}; {sizes}"


def _calibration(found: dict[str, Any]) -> str:
    what = "predictions and log b" if found["strata"][0][0].get("material") else "predictions"
    return (
        f"for {what}; {found['systems']} validation systems, {_listed(found['pairs'])} pairs, noise "
        f"{_shares(found['noise'])}; outlier above a score of {found['threshold']:.1f}"
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


def _of_the_paper(results: Path) -> list[dict[str, Any]]:
    """Rows of the record of long trainings as those of other records: loads that are in no training."""
    rows = {row["name"]: row for row in read_record(results, "darcy-long")["measured"]["rows"]}
    return [
        {"weights": weights, "systems_of": "consistent", "pairs": rows[name]["recipe"]["context"], "noise": 0.0,
         "nodes": rows[name]["nodes"], "held_out": rows[name]["unseen_loads"]["held_out"]}
        for weights, name in PAPER.items()
    ]  # fmt: skip


def _independent(results: Path) -> list[dict[str, Any]]:
    """Rows of the record on data of finite elements."""
    found = read_record(results, "independent")["measured"]
    return [
        {"weights": row["estimator"], "pairs": found["context"], "noise": row["noise"], "nodes": found["nodes"],
         "systems_of": f"independent, {row['family']}, loads α = {row['load_alpha']:g}, {row['load_waves']} waves",
         "held_out": {"mean": row["held_out"]}}
        for row in found["rows"]
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
            SYSTEMS.get(case[0], case[0] if case[0].startswith("independent") else f"two phases, {case[0]}"),
            f"{case[1]}²",
            case[2],
            *(percent(found[*case, noise]["held_out"]["mean"]) if (*case, noise) in found else "–" for noise in noises),
        )
        for case in cases
    ]
    return table(("test systems", "grid", "pairs", *(f"noise {100 * noise:g} %" for noise in noises)), cells)


def _bullets(lines: list[tuple[str, str]]) -> str:
    return "".join(f"- **{name}**: {text.rstrip('.')}.\n" for name, text in lines)


def _quantity(quantity: Quantity) -> str:
    parts = f" ({', '.join(quantity.components)})" if len(quantity.components) > 1 else ""
    return f"{quantity.name}{parts}" + ("" if quantity.unit == "1" else f" in {quantity.unit}")


def _shares(shares: Iterable[float]) -> str:
    return _listed(f"{100 * share:g} %" for share in sorted(set(shares)))


def _listed(items: Iterable[Any]) -> str:
    return ", ".join(map(str, items))


if __name__ == "__main__":
    PAGE.write_text(page(ROOT / "results"))

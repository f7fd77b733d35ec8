"""Which pairs trained NIPS reads, what their order does, and what it is worth to divide the channels from the start.

`shipped`: in the weights of the package a pair has one gain in common with others, or none. The channels of those are
learned fields, the same for every context: how much changes when these pairs are replaced. `orders`: errors under
random orders of the context, of the mean of their answers, and how far the answers are apart where loads are not of the
law of training. `rows`: NIPS whose channels are divided from the start, beside equal gains, at equal processor time.
"""

from concurrent.futures import as_completed
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks import campaign, darcy, recipes
from benchmarks.recipes import Recipe
from nipde.context.pairs import Pairs
from nipde.data.archive import Archive
from nipde.estimators.paper.nips import NIPS
from nipde.evaluation.metrics import relative_errors
from nipde.weights import load

SEED = recipes.SEED
SHIPPED = ("nips-2-darcy", "nips-4-darcy")
MINUTES, SEEDS, SYSTEMS = 3.0, 3, 40
ORDERS, AVERAGED = 32, (2, 8, 32)
COMPARED = tuple(Recipe("equal gains" if reads is None else f"{reads} pairs read", reads=reads) for reads in (None, 20))


def measure(*, quick: bool = False, work: Path | None = None, workers: int = 1) -> dict[str, Any]:
    """Both, on the Darcy set of the paper's tables with smooth loads."""
    minutes, seeds, compared = (0.01, 1, COMPARED[:2]) if quick else (MINUTES, SEEDS, COMPARED)
    with TemporaryDirectory() as scratch:
        place = work or Path(scratch)
        archive = darcy.data(recipes.LAW, recipes.NODES, place)
        rough = darcy.data(recipes.LAW, recipes.NODES, place, shift="load")
        shipped = [_roles(name, archive) for name in SHIPPED]
        orders = [_orders(name, each, loads) for name in SHIPPED
                  for each, loads in ((archive, "of training"), (rough, "rougher"))]  # fmt: skip
        with campaign.workers(workers) as pool:
            jobs = [(recipe, seed) for seed in range(seeds) for recipe in compared]
            running = {pool.submit(recipes.curve, *job, minutes, place): (job[0].name, job[1]) for job in jobs}
            curves = {running[done]: done.result() for done in as_completed(running)}
    rows = []
    for recipe in compared:
        each = [curves[recipe.name, seed] for seed in range(seeds)]
        last = [one[-1]["in_context"] for one in each]
        rows.append({
            "name": recipe.name, "reads": recipe.reads, "in_context": float(np.mean(last)),
            "spread": float(np.std(last)), "steps": int(np.mean([one[-1]["step"] for one in each])),
            "read_in_the_end": [one[-1]["read"] for one in each], "curves": each,
        })  # fmt: skip
    return {"law": recipes.LAW, "minutes": minutes, "seeds": seeds, "shipped": shipped, "orders": orders,
            "rows": rows}  # fmt: skip


@torch.no_grad()
def _roles(name: str, archive: Archive) -> dict[str, Any]:
    model = load(name)
    assert isinstance(model, NIPS)
    fields = model.input_norm.weight.view(2, *model.grid.shape, model.pairs)[:, 1:-1, 1:-1]  # at the edge u is 0
    gains = dict(zip(("load", "response"), fields.square().mean((1, 2)).sqrt(), strict=True))
    read = gains["load"] > gains["load"].max() / 2
    common = fields[..., read].mean(-1, keepdim=True)
    apart = (fields[..., read] - common).norm() / common.norm() / read.sum().sqrt()
    pairs = _pairs(archive, model.pairs)
    predicted = model(pairs).predict(pairs.loads)
    errors = relative_errors(archive.grid, predicted, pairs.responses)
    changes = {}
    for kind, chosen in (("read", read), ("others", ~read)):
        replaced = model(_with_another_system(pairs, chosen)).predict(pairs.loads)
        changes[kind] = float(relative_errors(archive.grid, replaced, predicted).mean())
    return {
        "name": name, "pairs": model.pairs, "read": int(read.sum()), "systems": SYSTEMS,
        "gains": {which: {"read": float(each[read].mean()), "others": float(each[~read].mean())}
                  for which, each in gains.items()},
        "gains_apart": float(apart),
        "errors": {"read": float(errors[:, read].mean()), "others": float(errors[:, ~read].mean())},
        "change_when_replaced": changes,
    }  # fmt: skip


@torch.no_grad()
def _orders(name: str, archive: Archive, loads: str) -> dict[str, Any]:
    """Under loads of the context."""
    model = load(name)
    assert isinstance(model, NIPS)
    pairs, generator = _pairs(archive, model.pairs), torch.Generator().manual_seed(SEED)
    answers = []
    for _ in range(ORDERS):
        order = torch.randperm(model.pairs, generator=generator)
        shuffled = Pairs(pairs.grid, pairs.loads[:, order], pairs.responses[:, order])
        answers.append(model(shuffled).predict(pairs.loads))
    stacked = torch.stack(answers)
    middle = stacked.mean(0)

    def errors(predicted: torch.Tensor) -> torch.Tensor:
        return relative_errors(pairs.grid, predicted, pairs.responses)

    each = [float(errors(one).mean()) for one in answers]
    apart = torch.stack([errors(pairs.responses + one - middle) for one in answers])
    return {
        "name": name, "loads": loads, "systems": SYSTEMS, "orders": ORDERS, "one": float(np.mean(each)),
        "best": min(each), "worst": max(each),
        "means": {str(count): float(errors(stacked[:count].mean(0)).mean()) for count in AVERAGED},
        "apart": float(apart.square().mean(0).sqrt().mean()),
    }  # fmt: skip


def _pairs(archive: Archive, count: int) -> Pairs:
    """Of test systems, under loads of training."""
    known = archive.read(archive.indices("test")[:SYSTEMS], pairs=archive.load_indices("train")[:count].tolist())
    return Pairs(archive.grid, *(torch.as_tensor(field) for field in (known.loads, known.responses)))


def _with_another_system(pairs: Pairs, chosen: torch.Tensor) -> Pairs:
    """Responses of the `chosen` pairs are those of the next system, as if they had been mixed up."""
    responses = pairs.responses.clone()
    responses[:, chosen] = pairs.responses.roll(1, dims=0)[:, chosen]
    return Pairs(pairs.grid, pairs.loads, responses)

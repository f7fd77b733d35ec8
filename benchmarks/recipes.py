"""Ways to train NIPS with 2 layers, at equal processor time: in-context error on validation systems, three seeds each.

The Darcy set of the paper's tables with smooth loads, on every second node: a step teaches about as much there as on
all of them and costs a quarter, which `grids` in the record shows. The rate always falls as a cosine of the time spent.
"""

import json
import time
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from math import cos, inf, pi
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import campaign, darcy
from benchmarks.darcy_cases import Law
from benchmarks.divided_channels import COUPLINGS, divide_channels
from benchmarks.optimisers import SOAP
from nipde.atomic import write_bytes
from nipde.context.pairs import Pairs
from nipde.data.archive import Archive
from nipde.estimators.paper.nips import NIPS, NIPSLayer
from nipde.evaluation.metrics import relative_errors
from nipde.grid import Grid

SEED = 2026
LAW: Law = "darcy-consistent"
NODES, CONTEXT, CHANNELS = 21, 50, 40
MINUTES, SEEDS, WARMUP, LOOKS = 0.75, 3, 100, 6
#: Systems whose loads and responses divided channels start from.
DIVIDED_BY = 20


@dataclass(frozen=True)
class Recipe:
    """One way to train; what is not said is as in 0.1.0."""

    name: str
    rate: float = 0.05
    #: Part of a parameter's name -> multiple of the rate.
    rates: dict[str, float] = field(default_factory=dict)
    batch: int = 40
    second_moment: float = 0.99
    optimiser: str = "Adam"
    #: Start from couplings near those that training finds.
    coupled: bool = False
    #: Decay of the running mean of the weights that is validated; 0: the weights themselves.
    average: float = 0.0
    #: Share of the loss that is the relative error of the gradient of u.
    gradient: float = 0.0
    precision: str = "float32"
    #: Every so many nodes of the grid.
    stride: int = 2
    layers: int = 2
    #: Pairs that are read from the start; all of them by default.
    reads: int | None = None


RECIPES = (
    Recipe("Adam, rate 0.05 (0.1.0)"),
    Recipe("rate 0.02", rate=0.02),
    Recipe("rate 0.1", rate=0.1),
    Recipe("batch 20", batch=20),
    Recipe("batch 80", batch=80),
    Recipe("second moment 0.999", second_moment=0.999),
    Recipe("3 × the rate for the first norm", rates={"input_norm": 3.0}),
    Recipe("0.3 × the rate for filters", rates={"filter": 0.3}),
    Recipe("0.3 × the rate for W_Q, W_K", rates={"maps": 0.3}),
    Recipe("couplings near their end", coupled=True),
    Recipe("mean of weights, decay 0.99", average=0.99),
    Recipe("half the loss on the gradient", gradient=0.5),
    Recipe("gradient and 3 × first norm", gradient=0.5, rates={"input_norm": 3.0}),
    Recipe("float64", precision="float64"),
    Recipe("SOAP, rate 0.03", rate=0.03, optimiser="SOAP"),
    Recipe("Muon for W_Q, W_K", optimiser="Muon"),
    Recipe("all nodes", stride=1),
    Recipe("every fourth node", stride=4),
)


class Samples:
    """The archive in memory on every `stride`-th node."""

    def __init__(self, archive: Archive, *, stride: int, precision: torch.dtype) -> None:
        self.grid = Grid.uniform((NODES - 1) // stride + 1)
        pairs = archive.load_indices("train").tolist()
        self.parts = {}
        for part in ("train", "validation"):
            read = archive.read(archive.indices(part), pairs=pairs)
            fields = (torch.as_tensor(values)[..., ::stride, ::stride] for values in (read.loads, read.responses))
            self.parts[part] = tuple(values.contiguous().to(precision) for values in fields)

    def draw(self, count: int, generator: torch.Generator) -> Pairs:
        """Random systems, each with random training loads in random order."""
        loads, responses = self.parts["train"]
        systems = torch.randint(len(responses), (count, 1), generator=generator)
        orders = torch.rand(count, responses.shape[1], generator=generator).argsort(1)[:, :CONTEXT]
        return Pairs(self.grid, loads[systems, orders], responses[systems, orders])

    def validation(self) -> Pairs:
        """Every validation system under the first loads."""
        loads, responses = (values[:, :CONTEXT] for values in self.parts["validation"])
        return Pairs(self.grid, loads, responses)


def measure(*, quick: bool = False, work: Path | None = None, workers: int = 1) -> dict[str, Any]:
    """Curves of every recipe and seed."""
    minutes, seeds, recipes = (0.01, 1, RECIPES[:2]) if quick else (MINUTES, SEEDS, RECIPES)
    with TemporaryDirectory() as scratch:
        place = work or Path(scratch)
        darcy.data(LAW, NODES, place)
        with campaign.workers(workers) as pool:
            jobs = [(recipe, seed) for seed in range(seeds) for recipe in recipes]
            done = {pool.submit(curve, recipe, seed, minutes, place): (recipe.name, seed) for recipe, seed in jobs}
            curves = {done[future]: future.result() for future in as_completed(done)}
    rows = []
    for recipe in recipes:
        each = [curves[recipe.name, seed] for seed in range(seeds)]
        last = [one[-1]["in_context"] for one in each]
        rows.append({**asdict(recipe), "in_context": float(np.mean(last)), "spread": float(np.std(last)),
                     "steps": int(np.mean([one[-1]["step"] for one in each])), "curves": each})  # fmt: skip
    return {"law": LAW, "minutes": minutes, "seeds": seeds, "layers": 2, "rows": rows}


def curve(recipe: Recipe, seed: int, minutes: float, work: Path) -> list[dict[str, float]]:
    """The curve in `work`, or measured now and kept there: an interrupted comparison goes on."""
    path = work / "recipes" / f"{sha256(repr((recipe, seed, minutes)).encode()).hexdigest()[:16]}.json"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        write_bytes(path, json.dumps(_train(recipe, seed, minutes, work)).encode())
    return list(json.loads(path.read_text()))


def _train(recipe: Recipe, seed: int, minutes: float, work: Path) -> list[dict[str, float]]:
    torch.set_num_threads(1)
    precision = getattr(torch, recipe.precision)
    samples = Samples(darcy.data(LAW, NODES, work), stride=recipe.stride, precision=precision)
    torch.manual_seed(seed)
    model = NIPS(samples.grid, pairs=CONTEXT, layers=recipe.layers, channels=CHANNELS).to(precision)
    if recipe.coupled:
        _couple(model)
    if recipe.reads is not None:
        loads, responses = (values[:DIVIDED_BY].flatten(0, 1) for values in samples.parts["train"])
        divide_channels(model, loads, responses, reads=recipe.reads)
    mean = {name: value.clone() for name, value in model.state_dict().items()}
    generator, optimisers = torch.Generator().manual_seed(1000 + seed), _optimisers(recipe, model)
    spent, step, seen, looks = 0.0, 0, [], [minutes * 60 * (look + 1) / LOOKS for look in range(LOOKS)]
    while looks:
        start = time.process_time()
        rate = recipe.rate * min(1.0, (step + 1) / WARMUP) * (1 + cos(pi * min(1.0, spent / 60 / minutes))) / 2
        pairs = samples.draw(recipe.batch, generator)
        model.zero_grad()
        _loss(model, pairs, recipe.gradient).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser in optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate * group["scale"]
            optimiser.step()
        for name, value in model.state_dict().items() if recipe.average else ():
            mean[name].lerp_(value, 1 - min(recipe.average, (step + 1) / (step + 10)))
        step, spent = step + 1, spent + time.process_time() - start
        if spent >= looks[0]:
            judged = model if not recipe.average else _with(model, mean)
            seen.append({"step": step, "seconds": spent, "in_context": _error(judged, samples.validation()),
                         "read": read_pairs(model)})  # fmt: skip
            looks = [look for look in looks if look > spent]
    return seen


def read_pairs(model: NIPS) -> int:
    """Pairs whose gain is above half of the largest; the channels of the others hold nearly the same fields always."""
    gains = model.input_norm.weight.detach().square().mean(0)
    return int((gains > gains.max() / 4).sum())


def _loss(model: NIPS, pairs: Pairs, gradient: float) -> Tensor:
    predicted = model(pairs).predict(pairs.loads)
    values = relative_errors(pairs.grid, predicted, pairs.responses).mean()
    if not gradient:
        return values
    off, true = (_slopes(field) for field in (predicted - pairs.responses, pairs.responses))
    return (1 - gradient) * values + gradient * (off / true).sqrt().mean()


def _slopes(field: Tensor) -> Tensor:
    """Sum of squared differences between neighbours."""
    along = [field.diff(dim=axis).square().flatten(2).sum(-1) for axis in (-1, -2)]
    return along[0] + along[1]


@torch.no_grad()
def _error(model: NIPS, pairs: Pairs) -> float:
    error = float(relative_errors(pairs.grid, model(pairs).predict(pairs.loads), pairs.responses).mean())
    return error if np.isfinite(error) else inf


def _with(model: NIPS, weights: dict[str, Tensor]) -> NIPS:
    other = NIPS.from_config(model.config).to(next(model.parameters()).dtype)
    other.load_state_dict(weights)
    return other


@torch.no_grad()
def _couple(model: NIPS) -> None:
    """W_Qᵀ W_K = c times one projection onto d_k directions, in both layers."""
    basis = torch.linalg.qr(torch.randn(CONTEXT, CONTEXT))[0][:, :CHANNELS].T.to(next(model.parameters()))
    for layer, size in zip(model.layers, COUPLINGS, strict=True):
        assert isinstance(layer, NIPSLayer)
        layer.maps.query.weight.copy_(basis * abs(size) ** 0.5 * (1 if size > 0 else -1))
        layer.maps.key.weight.copy_(basis * abs(size) ** 0.5)


def _optimisers(recipe: Recipe, model: NIPS) -> list[torch.optim.Optimizer]:
    groups = []
    for name, parameter in model.named_parameters():
        scale = next((value for part, value in recipe.rates.items() if part in name), 1.0)
        groups.append({"params": [parameter], "scale": scale, "matrix": "maps" in name and parameter.dim() == 2})
    if recipe.optimiser == "SOAP":
        return [SOAP(groups)]
    adam: dict[str, Any] = {"betas": (0.9, recipe.second_moment), "fused": True}
    if recipe.optimiser == "Muon":
        matrices, rest = ([group for group in groups if group["matrix"] is kind] for kind in (True, False))
        return [torch.optim.Muon(matrices, weight_decay=0.0), torch.optim.Adam(rest, **adam)]
    return [torch.optim.Adam(groups, **adam)]

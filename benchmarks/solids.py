"""Mechanical MNIST and tissue: estimators on two components and laws that are not linear, within a budget; resumable.

Contexts are 100 pairs of a test system under training loads, the paper's setting; `in_context` are answers to these
same loads, `held_out` answers to loads that were in no training and no context. Every network gets the same processor
time. Also: the same at two and four times the loads, with noise, and with responses of finer elements than estimators
assume; the digit inside, the fibres inside, and the data sets themselves.
"""

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import campaign
from benchmarks.campaign import check_cases, generated, judge, of_training, whole
from benchmarks.finished_rows import RESULT, finished, write_result
from benchmarks.learning_curves import curve, trend
from benchmarks.solids_material import Look, digits_inside, fibres_inside
from benchmarks.solids_mesh import finer_elements
from nipde.data.archive import Archive, open_archive
from nipde.data.generation import generate
from nipde.data.mechanics import MechanicalMnistRecipe, TissueRecipe
from nipde.data.plan import Plan
from nipde.errors import NipdeError
from nipde.estimators.base import Estimator
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.estimators.inverse.elastic_adjoint import ElasticGaussNewton
from nipde.estimators.inverse.elastic_balance import ElasticBalance
from nipde.estimators.regression.ridge import MinimumNorm, Ridge
from nipde.physics.elastic import NEWTON
from nipde.training.recipe import CASES
from nipde.weights import load

SEED = 0
CONTEXT = 100
KEPT = ("in_context", "held_out", "held_out_interior", "held_out_edge", "worst_decile")
#: Tissue has 25 loads more than the paper's 100: 100 to train with, the others for validation and test.
RECIPES: dict[str, MechanicalMnistRecipe | TissueRecipe] = {
    "mmnist": MechanicalMnistRecipe(),
    "tissue": TissueRecipe(pairs=125),
}
SYSTEMS = 500
#: Loads times these; few systems, all of them for the test.
AMPLITUDES, AMPLITUDE_SYSTEMS = (1.0, 2.0, 4.0), 10
#: Noise on displacements, and how many test systems it is tried on: with noise a body takes a minute.
NOISES, NOISE_SYSTEMS = (1e-3, 1e-2), 2
#: What is looked for inside.
LOOKS = (Look(50, pairs=CONTEXT), Look(50, pairs=10), Look(10, pairs=30, noise=1e-2))
INSIDE = {"mmnist": digits_inside, "tissue": fibres_inside}
#: Of these: none of their digits is among those that networks were trained on.
OTHER_SEED = 4


@dataclass(frozen=True)
class Row:
    """A network that is trained, and the paper's error in per cent."""

    problem: str
    label: str
    recipe: str
    paper: float | None = None
    #: Pairs of contexts in training, where the recipe's and its queries are more than there are.
    context: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """As a folder's name."""
        return f"{self.problem}-{self.recipe}"


ROWS = [
    Row("mmnist", "NIPS, 2 layers", "nips-2-solid", 2.11),
    Row("mmnist", "NAO, 2 layers", "nao-2-solid", 5.17),
    Row("mmnist", "NIPS, 4 layers", "nips-4-solid", 1.11),
    Row("mmnist", "NAO, 4 layers", "nao-4-solid", 5.27),
    Row("mmnist", "Conditioned NIPS, gated with head", "conditioned-solid"),
    Row("tissue", "NIPS, 4 layers", "nips-4-solid", 4.95),
    Row("tissue", "NIPS-mlp, 4 layers", "nips-mlp-4-solid", 4.52),
    Row("tissue", "NAO, 4 layers", "nao-4-solid", 5.62),
    Row("tissue", "Conditioned NIPS, gated with head", "conditioned-solid", context=(80, 25, 50)),
]
#: Minutes of processor time per network, by budget.
BUDGETS = {"trial": 0.05, "quick": 5.0, "standard": 40.0}
#: Budgets of networks alone: what needs no training has no budget, and is in the other records.
NETWORKS_ALONE = ("standard",)


#: Kind of work -> where it stands in the record.
KINDS = {"network": "rows", "classical": "rows", "material": "material", "amplitude": "amplitudes", "noise": "noises",
         "set": "sets", "mesh": "meshes"}  # fmt: skip


def untrained() -> dict[str, Estimator]:
    """What needs no training, by label."""
    return {
        "minimum norm": MinimumNorm(),
        "ridge, GCV": Ridge(),
        "linear elasticity, equilibrium gap": ElasticBalance(finite=False),
        "equilibrium gap": ElasticBalance(),
        "Conditioned NIPS, elastic": ConditionedNIPS(dimension=2, components=(2, 2), prior="elastic").double(),
    }


def measure(
    *,
    budget: str,
    work: Path,
    only: Sequence[str] = (),
    workers: int = 2,
    before: dict[str, dict[str, Any]] | None = None,
    progress: Callable[[str], None] = lambda finished: None,
) -> dict[str, Any]:
    """Run what is not finished in `work` or `before`, and put everything that is into one record."""
    if budget not in BUDGETS:
        raise NipdeError(expected=f"a budget among {', '.join(BUDGETS)}", got=repr(budget))
    jobs = _jobs(budget)
    check_cases(only, list(jobs))
    before = before or {}
    asked = [name for name in jobs if (name in only if only else name not in before)]
    for problem in RECIPES:
        if any(problem in name for name in asked):
            for amplitude in AMPLITUDES:  # before workers need them
                data(problem, work, amplitude=amplitude, trial=budget == "trial")
    with campaign.workers(workers) as pool:
        for done in as_completed([pool.submit(_do, name, budget, work) for name in asked]):
            progress(done.result())
    rows = finished(work / budget, before)
    parts: dict[str, list[dict[str, Any]]] = {place: [] for place in KINDS.values()}
    for name, (kind, *_) in jobs.items():
        if name in rows:
            more = {"trend": trend(rows[name]["curve"], rows[name]["paper"])} if kind == "network" else {}
            parts[KINDS[kind]].append({**rows[name], **more})
    pending = [name for name in jobs if name not in rows]
    return {"budget": budget, "minutes": BUDGETS[budget], "context": CONTEXT, **parts, "pending": pending}


def data(problem: str, work: Path, *, amplitude: float = 1.0, trial: bool = False) -> Archive:
    """The archive of a problem, generated once; for other amplitudes a small one."""
    recipe, name, systems, seed = RECIPES[problem], problem, SYSTEMS, SEED
    if amplitude != 1:
        recipe = replace(recipe, load_size=amplitude * recipe.load_size)
        name, systems, seed = f"{problem}-{amplitude:g}", AMPLITUDE_SYSTEMS, OTHER_SEED
    if trial:
        recipe, name, systems = replace(recipe, pairs=20), f"{name}-trial", 10
    place = work / "data" / name
    return generated(Plan(recipe, systems=systems, seed=seed), place)


def _jobs(budget: str) -> dict[str, tuple[Any, ...]]:
    """Every piece of work by name."""
    jobs: dict[str, tuple[Any, ...]] = {row.name: ("network", row) for row in ROWS}
    for problem in RECIPES if budget not in NETWORKS_ALONE else ():
        jobs |= {f"{problem}-{_plain(label)}": ("classical", problem, label) for label in untrained()}
        jobs[f"{problem}-material"] = ("material", problem)
        jobs[f"{problem}-set"] = ("set", problem)
        jobs[f"{problem}-mesh"] = ("mesh", problem)
        for noise in NOISES:
            jobs[f"{problem}-noise-{noise:g}"] = ("noise", problem, noise)
        for amplitude in AMPLITUDES[1:]:
            jobs[f"{problem}-amplitude-{amplitude:g}"] = ("amplitude", problem, amplitude)
    return jobs


def _do(name: str, budget: str, work: Path) -> str:
    torch.set_num_threads(1)
    out = work / budget / name
    if not (out / RESULT).exists():
        kind, *what = _jobs(budget)[name]
        write_result(out, WORK[kind](*what, budget=budget, work=work, out=out))
    return name


def _asked(budget: str) -> dict[str, Any]:
    """How everything is judged."""
    return {"context": 8 if budget == "trial" else CONTEXT, "loads": "train", "inversion": False, "kernels": False}


def _network(row: Row, *, budget: str, work: Path, out: Path) -> dict[str, Any]:
    archive = data(row.problem, work, trial=budget == "trial")
    length: dict[str, Any] = {"minutes": BUDGETS[budget], "clock": "cpu"}
    if row.context is not None:
        length["context"] = row.context
    if budget == "trial":
        length |= {"context": 8, "batch": 2, "queries": min(4, CASES[row.recipe].queries)}
    recipe = CASES[row.recipe].with_options(length)
    run = whole(recipe, archive, out)
    model = load(out)
    larger = {
        f"{amplitude:g}": _judge_larger(model, row.problem, amplitude, budget=budget, work=work)
        for amplitude in AMPLITUDES[1:]
    }
    return {
        "problem": row.problem, "label": row.label, "recipe": asdict(recipe), "paper": row.paper, "trained": True,
        **of_training(run, model), "curve": curve(out), "larger": larger,
        "test": judge(model, archive, kept=KEPT, **_asked(budget)),
    }  # fmt: skip


def _classical(problem: str, label: str, *, budget: str, work: Path, out: Path) -> dict[str, Any]:
    archive = data(problem, work, trial=budget == "trial")
    test = judge(untrained()[label], archive, kept=KEPT, **_asked(budget))
    return {"problem": problem, "label": label, "paper": None, "trained": False, "test": test}


def _amplitude(problem: str, amplitude: float, *, budget: str, work: Path, out: Path) -> dict[str, Any]:
    """What needs no training, on larger loads; a network's row says it of the network."""
    rows: list[dict[str, Any]] = []
    for label, estimator in untrained().items():
        try:
            test = _judge_larger(estimator, problem, amplitude, budget=budget, work=work)
        except NipdeError as error:
            rows.append({"label": label, "failed": str(error)})
        else:
            rows.append({"label": label, "test": test})
    return {"problem": problem, "amplitude": amplitude, "rows": rows}


def _judge_larger(estimator: Any, problem: str, amplitude: float, *, budget: str, work: Path) -> dict[str, Any]:
    archive = data(problem, work, amplitude=amplitude, trial=budget == "trial")
    return judge(estimator, archive, kept=("in_context", "held_out"), part="train", **_asked(budget))


def _noise(problem: str, noise: float, *, budget: str, work: Path, out: Path) -> dict[str, Any]:
    """What needs no training, with white noise on the context's responses."""
    archive = data(problem, work, trial=budget == "trial")
    rows = []
    every = {**untrained(), "displacements of a body": ElasticGaussNewton()}
    for label, estimator in every.items():
        asked = {**_asked(budget), "noise": noise, "systems": 1 if budget == "trial" else NOISE_SYSTEMS}
        rows.append({"label": label, "test": judge(estimator, archive, kept=("in_context", "held_out"), **asked)})
    return {"problem": problem, "noise": noise, "rows": rows}


def _set(problem: str, *, budget: str, work: Path, out: Path) -> dict[str, Any]:
    """The data set itself: whole, solved, and the same from one worker and from two."""
    archive = data(problem, work, trial=budget == "trial")
    archive.verify()
    told = [archive.read([number]).diagnostics for number in range(len(archive))]
    of = {name: np.stack([one[name][0] for one in told]) for name in told[0]}
    recipe, systems = RECIPES[problem], 20
    if budget == "trial":
        recipe, systems = replace(recipe, pairs=4), 2
    digests = []
    for workers in (1, 2):
        place = work / "data" / f"{problem}-{budget}-by-{workers}"
        shutil.rmtree(place, ignore_errors=True)
        generate(Plan(recipe, systems=systems, seed=SEED, shard_systems=5), place, workers=workers)
        digests.append(open_archive(place).digest)
        shutil.rmtree(place)
    return {
        "problem": problem, "systems": len(archive), "solves": int(of["residual"].size), "damaged_files": 0,
        "unsolved": int(np.sum(~(of["residual"] <= NEWTON.tolerance))), "largest_residual": float(of["residual"].max()),
        "iterations": float(of["iterations"].mean()), "most_iterations": int(of["iterations"].max()),
        "smallest_jacobian": float(of["smallest_jacobian"].min()), "digest": archive.digest,
        "subset": {"systems": systems, "same": digests[0] == digests[1], "digest": digests[0]},
    }  # fmt: skip


def _material(problem: str, *, budget: str, work: Path, out: Path) -> dict[str, Any]:
    """Materials identified in the test specimens, for context sizes and noise."""
    archive = data(problem, work, trial=budget == "trial")
    looks = (Look(2, pairs=8),) if budget == "trial" else LOOKS
    return {"problem": problem, "settings": INSIDE[problem](archive, looks)}


def _mesh(problem: str, *, budget: str, work: Path, out: Path) -> dict[str, Any]:
    """What needs no training, on responses of elements that are smaller or of higher degree."""
    archive, trial = data(problem, work, trial=budget == "trial"), budget == "trial"
    asked = {"count": 1, "pairs": 8, "queries": 2} if trial else {"count": 5, "pairs": CONTEXT, "queries": 10}
    estimators = {
        label: estimator for label, estimator in untrained().items() if not trial or "equilibrium gap" in label
    }
    return {"problem": problem, "settings": finer_elements(archive, estimators, **asked)}


def _plain(label: str) -> str:
    return label.lower().replace(",", "").replace(" ", "-")


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "network": _network,
    "classical": _classical,
    "material": _material,
    "amplitude": _amplitude,
    "noise": _noise,
    "set": _set,
    "mesh": _mesh,
}

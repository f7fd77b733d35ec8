"""The paper's Darcy tables, trained and judged: cases × laws × seeds within a budget, two at a time, resumable.

Every model gets the same processor time. Weights are chosen on validation systems; the figures are from 110 test
systems. `in_context`: the paper's error, of answers to the context's own loads, which training has seen. `held_out`:
context and queries are loads of which none was in training, and no query was in the context.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import campaign, darcy_cases
from benchmarks.campaign import check_cases, generated, judge, of_training, whole
from benchmarks.darcy_cases import ALL, LOAD_ALPHA, OURS, SHIFTS, Case, Law, Shift
from benchmarks.finished_rows import RESULT, finished, write_result
from benchmarks.learning_curves import curve, trend
from nipde.data.archive import Archive
from nipde.estimators.registry import FITTED, SCALAR
from nipde.evaluation.named import named
from nipde.training.recipe import TrainingRecipe
from nipde.weights import load

SEED = darcy_cases.DATA_SEED
#: Grid of the paper's table with shifted laws, where it also recovers the microstructure.
SHIFTED_NODES = 11
#: Methods that need no training by gradients.
METHODS = (*SCALAR, *FITTED)
#: Classical methods, and how many test systems of each setting, that stand beside in that table.
WIDE, WIDE_SYSTEMS, LOAD_NOISE = ("ridge", "equation-error", "adjoint", "adjoint-tv"), 20, (0.0, 0.01, 0.1)
#: What a summary of an evaluation keeps in the record.
KEPT = ("in_context", "held_out", "held_out_interior", "held_out_edge", "worst_decile", "kernel", "microstructure",
        "phase_accuracy")  # fmt: skip


@dataclass(frozen=True)
class Budget:
    """How long a model is trained, by nodes per axis, and which rows."""

    tables: tuple[str, ...]
    minutes: dict[int, float] | None
    seeds: int
    #: Rows that get all seeds, and rows that are trained on `darcy-literal` as well.
    repeated: tuple[str, ...] = ("21-nips-2", "21-nao-2")
    both_laws: tuple[str, ...] = ("21-nips-2", "21-nao-2")
    leaves_out: tuple[str, ...] = ()
    #: Samples per step where a run of this length learns more from another number than the recipe's.
    batch: dict[str, int] = field(default_factory=dict)
    #: Minutes for recipes of ours, which need fewer; so their rows are in the tables.
    ours: dict[str, float] = field(default_factory=dict)
    #: Minutes that NIPS is trained on 11² before it goes on, at `rate_after`, on 21², and from there on 41².
    coarse: float = 0.0
    rate_after: float = 0.02


BUDGETS: dict[str, Budget] = {
    "trial": Budget(("orders", "layers"), {21: 0.02}, seeds=1, leaves_out=("41-nips-4", "41-nao-4", "41-afno-4")),
    "quick": Budget(
        ("orders", "rank"), {11: 2.0, 21: 2.0, 41: 4.0}, seeds=3,
        repeated=tuple(f"21-nips-2-channels-{rank}-orders-50" for rank in (40, 50)),  # which end close to each other
    ),
    "standard": Budget(
        ("layers", "interpretability"), {11: 20.0, 21: 20.0, 41: 40.0}, seeds=3, leaves_out=("41-afno-4",),
        batch={"nips-2": 40, "nips-4": 40},
        ours={"conditioned-elliptic": 4.0, "conditioned-gated": 10.0, "conditioned-wide": 2.0},
    ),
    "long": Budget(
        ("layers",), {11: 100.0, 21: 60.0, 41: 120.0}, seeds=1, both_laws=(), leaves_out=("41-afno-4",),
        batch={"nips-2": 40, "nips-4": 40}, coarse=40.0,
    ),
    "paper": Budget(("layers", "orders", "rank", "interpretability"), None, seeds=5),
}  # fmt: skip
#: The paper's own length: 5,000 epochs of 90 steps, 100 samples each.
PAPER_LENGTH = {"steps": 450_000, "batch": 100, "minutes": None}


@dataclass(frozen=True)
class Job:
    """One run of one case."""

    case: Case
    law: Law
    seed: int

    @property
    def name(self) -> str:
        """As a folder's name."""
        return f"{self.law}-{self.case.name}-seed{self.seed}"


def jobs(budget: Budget, *, only: Sequence[str] = ()) -> list[Job]:
    """What a budget asks for, the first seeds first; the figures of a shift come with its unshifted case."""
    chosen = [
        case for case in (*ALL, *OURS)
        if case.table in budget.tables and case.name not in budget.leaves_out and not case.shift
        and (not case.ours or case.recipe in budget.ours)
    ]  # fmt: skip
    planned = []
    for seed in range(budget.seeds):
        for case in chosen:
            if seed and case.name not in budget.repeated and budget.minutes is not None:
                continue
            # The paper's table at 11² names the literal law, and can be reached on it.
            first: Law = "darcy-literal" if case.table == "interpretability" or case.ours else "darcy-consistent"
            planned.append(Job(case, first, seed))
            if budget.minutes is None or (case.name in budget.both_laws and not seed):
                planned.append(Job(case, "darcy-consistent" if first == "darcy-literal" else "darcy-literal", seed))
    names = sorted({job.case.name for job in planned})
    check_cases([name for name in only if name not in {job.name for job in planned}], [*names, *METHODS])
    return [job for job in planned if not only or job.name in only or job.case.name in only]


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
    plan, before = BUDGETS[budget], before or {}
    asked = [job for job in jobs(plan, only=only) if only or job.name not in before]
    laws = sorted({(job.law, job.case.nodes) for job in asked})
    for law, nodes in laws:
        for shift in (None, *SHIFTS) if nodes == SHIFTED_NODES else (None,):
            data(law, nodes, work, shift=shift)
        if nodes == SHIFTED_NODES:
            data(law, nodes, work, shift="load", same_systems=True)
    asked_for = [name for name in METHODS if name in only or not only]
    judged = [(law, name) for law in LOAD_ALPHA for name in asked_for if "layers" in plan.tables
              and (only or _classical_name(law, name) not in before)]  # fmt: skip
    for law, _ in judged:
        data(law, 21, work)
    inverted = [(name, noise) for name in asked_for if name in WIDE for noise in LOAD_NOISE
                if "interpretability" in plan.tables and (only or _wide_name(name, noise) not in before)]  # fmt: skip
    for shift in (None, *SHIFTS) if inverted else ():
        data("darcy-literal", SHIFTED_NODES, work, shift=shift)
    with campaign.workers(workers) as pool:
        trained = [pool.submit(_train_and_judge, job, budget, work) for job in asked]
        classical = [pool.submit(_judge_classical, which, budget, work) for which in judged]
        classical += [pool.submit(_judge_wide, which, budget, work) for which in inverted]
        for future in as_completed(trained + classical):
            progress(future.result())
    made = {job.name for job in jobs(plan)} | {_classical_name(law, name) for law in LOAD_ALPHA for name in METHODS}
    made |= {_wide_name(name, noise) for name in WIDE for noise in LOAD_NOISE}
    done = {name: row for name, row in finished(work / budget, before).items() if name in made}
    rows = [{"curve": curve(work / budget / name), **row} for name, row in sorted(done.items())]
    rows = [{**row, "trend": trend(row["curve"], row["paper"].get("in_context"))} for row in rows]
    pending = [job.name for job in jobs(plan) if job.name not in done]
    minutes = None if plan.minutes is None else {str(nodes): value for nodes, value in plan.minutes.items()}
    return {"budget": budget, "minutes": minutes, "systems": darcy_cases.SYSTEMS, "rows": rows, "pending": pending}


def data(law: Law, nodes: int, work: Path, *, shift: Shift = None, **options: bool) -> Archive:
    """The archive of a law and grid, generated once; `options` of its plan."""
    chosen = "".join(f"-{name.replace('_', '-')}" for name, value in options.items() if value)
    place = work / "data" / f"{law}-{nodes}{f'-{shift}-shifted' if shift else ''}{chosen}"
    return generated(darcy_cases.plan(law, nodes, shift=shift, **options), place)


def _train_and_judge(job: Job, budget: str, work: Path) -> str:
    torch.set_num_threads(1)
    out = work / budget / job.name
    if (out / RESULT).exists():
        return job.name
    archive, plan = data(job.law, job.case.nodes, work), BUDGETS[budget]
    length = PAPER_LENGTH if plan.minutes is None else {"minutes": plan.minutes[job.case.nodes], "clock": "cpu"}
    if job.case.recipe in plan.ours:
        length = {**length, "minutes": plan.ours[job.case.recipe]}
    batch = {"batch": plan.batch[job.case.recipe]} if job.case.recipe in plan.batch else {}
    recipe = job.case.training(seed=job.seed, **batch, **length)
    start = _coarser(job, budget, work, recipe)
    if start is not None:
        recipe = replace(recipe, start=str(start), learning_rate=plan.rate_after)
    run = whole(recipe, archive, out)
    model = load(out)
    asked = {
        "context": recipe.contexts[0],
        "load_noise": recipe.load_noise,
        "inversion": job.case.nodes == SHIFTED_NODES,
    }
    judged = {loads: judge(model, archive, kept=KEPT, loads=loads, **asked) for loads in ("train", "test")}
    shifted: dict[str, Any] = {
        shift: judge(model, data(job.law, job.case.nodes, work, shift=shift), kept=KEPT, loads="test", **asked)
        for shift in SHIFTS if job.case.nodes == SHIFTED_NODES
    }  # fmt: skip
    if shifted:  # as the paper's figures suggest: the context keeps the law of training, and only queries are shifted
        other = data(job.law, job.case.nodes, work, shift="load", same_systems=True)
        shifted["queries"] = judge(model, archive, kept=KEPT, loads="train", asked=other, **asked)
    write_result(out, {
        "case": job.case.name, "table": job.case.table, "row": job.case.row, "law": job.law, "nodes": job.case.nodes,
        "seed": job.seed, "paper": job.case.paper, "paper_seeds": job.case.paper_seeds,
        **of_training(run, model), "samples": run.step * recipe.batch,
        "rank": job.case.options.get("channels", recipe.model.channels),
        "paper_protocol": judged["train"], "unseen_loads": judged["test"], "shifted": shifted,
        "rank_floor": _rank_floor(archive, recipe.contexts[0], recipe.model.channels),
        "recipe": asdict(replace(recipe, start=None if start is None else start.name)),
    })  # fmt: skip
    return job.name


def _coarser(job: Job, budget: str, work: Path, recipe: TrainingRecipe) -> Path | None:
    """Where the network of the next coarser grid was trained, which is done now unless it has been."""
    plan = BUDGETS[budget]
    if not plan.coarse or not job.case.recipe.startswith("nips") or job.case.nodes not in (21, 41):
        return None
    if job.case.nodes == 41:
        coarser = next(case for case in ALL if case.name == job.case.name.replace("41-", "21-"))
        _train_and_judge(replace(job, case=coarser), budget, work)
        return work / budget / replace(job, case=coarser).name
    out = work / budget / f"{job.name}-coarse"
    whole(replace(recipe, minutes=plan.coarse), data(job.law, 11, work, few_loads=True), out)
    return out


def _classical_name(law: Law, name: str) -> str:
    return f"{law}-{name}"


def _wide_name(name: str, noise: float) -> str:
    return f"darcy-literal-{SHIFTED_NODES}-{name}{f'-load-noise-{noise:g}' if noise else ''}"


def _judge_classical(which: tuple[Law, str], budget: str, work: Path) -> str:
    torch.set_num_threads(1)
    law, name = which
    out = work / budget / _classical_name(law, name)
    if not (out / RESULT).exists():
        archive = data(law, 21, work)
        estimator = named(name, archive)
        systems = 3 if budget == "trial" else None
        judged = judge(estimator, archive, kept=KEPT, context=50, loads="test", systems=systems, inversion=False)
        write_result(out, {
            "case": name, "table": "classical", "row": name, "law": law, "nodes": 21, "seed": 0, "paper": {},
            "unseen_loads": judged,
        })  # fmt: skip
    return out.name


def _judge_wide(which: tuple[str, float], budget: str, work: Path) -> str:
    """A classical inversion in the paper's table at 11², noise on the loads included; some systems of each setting."""
    torch.set_num_threads(1)
    name, noise = which
    out = work / budget / _wide_name(name, noise)
    if not (out / RESULT).exists():
        judged = {}
        for shift in (None, *SHIFTS):
            archive = data("darcy-literal", SHIFTED_NODES, work, shift=shift)
            asked: dict[str, Any] = {"context": 150, "load_noise": noise, "systems": WIDE_SYSTEMS, "inversion": True}
            loads = "train" if shift is None else "test"
            judged[shift] = judge(named(name, archive), archive, kept=KEPT, loads=loads, **asked)
        write_result(out, {
            "case": name, "table": "inverted", "row": name, "law": "darcy-literal", "nodes": SHIFTED_NODES, "seed": 0,
            "paper": {}, "load_noise": noise, "unseen_loads": judged.pop(None), "shifted": judged,
        })  # fmt: skip
    return out.name


def _rank_floor(archive: Archive, context: int, rank: int) -> float:
    """Mean relative error of the best reconstruction of a context's responses, scaled to norm 1, from `rank` fields."""
    weights = np.sqrt(archive.grid.weights).reshape(-1)
    read = archive.read(archive.indices("test")[:20], pairs=archive.load_indices("train")[:context].tolist())
    errors = []
    for responses in read.responses.reshape(len(read.responses), context, -1):
        scaled = responses * weights
        scaled = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
        left, values, right = np.linalg.svd(scaled, full_matrices=False)
        values[:rank] = 0.0
        errors.append(np.linalg.norm((left * values) @ right, axis=1).mean())
    return float(np.mean(errors))

"""The paper's Darcy tables as data: every row is there, and is trained as the paper says."""

from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest

from benchmarks.darcy import BUDGETS, KEPT, jobs
from benchmarks.darcy_cases import ALL, LOAD_ALPHA, SHIFTS, Case, plan
from benchmarks.tables.darcy import darcy
from nipde.data.plan import indices_of
from nipde.errors import NipdeError
from nipde.grid import Grid

# Printed in the paper; typed again here, so that a wrong table cannot agree with itself.
LAYERS = {
    ("NIPS, 2 layers", 21): (2.28, 98_396),
    ("NAO, 2 layers", 21): (3.09, 101_134),
    ("NAO-f, 2 layers", 21): (3.45, 189_234),
    ("NAO-W^P, 2 layers", 21): (4.00, 1_658_746),
    ("AFNO, 2 layers", 21): (52.09, 101_200),
    ("NIPS, 4 layers", 21): (1.03, 108_692),
    ("NAO, 4 layers", 21): (1.45, 109_494),
    ("AFNO, 4 layers", 21): (52.84, 121_600),
    ("NIPS, 4 layers", 41): (1.14, 366_932),
    ("NAO, 4 layers", 41): (1.49, 357_494),
    ("AFNO, 4 layers", 41): (98.70, 364_000),
}
ORDERS = {1: 42.04, 2: 28.98, 5: 18.37, 10: 9.02, 25: 3.52, 50: 2.53, 100: 2.28}
RANKS = {5: 14.67, 10: 6.93, 20: 4.03, 30: 3.01, 40: 2.53, 50: 2.45}


def of_table(name):
    return [case for case in ALL if case.table == name]


def test_every_row_of_the_paper_is_there():
    assert Counter(case.table for case in ALL) == {"layers": 11, "orders": 7, "rank": 6, "interpretability": 12}
    assert {(case.row, case.nodes): case.paper["in_context"] for case in of_table("layers")} == {
        row: error for row, (error, _) in LAYERS.items()
    }
    assert {case.options["orders"]: case.paper["in_context"] for case in of_table("orders")} == ORDERS
    assert {case.options["channels"]: case.paper["in_context"] for case in of_table("rank")} == RANKS
    assert all(case.options["orders"] == 50 for case in of_table("rank"))
    rows = of_table("interpretability")
    assert Counter((case.shift, case.options.get("load_noise", 0.0)) for case in rows) == {
        (shift, noise): 1 if noise else 2 for shift in (None, "load", "field") for noise in (0.0, 0.01, 0.1)
    }
    assert all(case.paper.keys() == {"in_context", "kernel", "microstructure"} for case in rows)
    assert len({case.row for case in rows}) == 12


def test_names_are_names():
    names = Counter((case.name, case.shift) for case in ALL)
    assert max(names.values()) == 1
    assert all(case.name.replace("-", "").replace(".", "").isalnum() for case in ALL)  # folders, on any system


@pytest.mark.parametrize("row", LAYERS, ids=lambda row: f"{row[0]} {row[1]}")
def test_models_have_the_printed_number_of_parameters(row):
    (case,) = [case for case in of_table("layers") if (case.row, case.nodes) == row]
    recipe = case.training()
    # AFNO's printed totals are met on grids that lost one node per axis.
    grid = Grid.uniform(case.nodes - (recipe.model.kind == "afno"))
    model = recipe.model.build(grid, pairs=recipe.context)
    assert sum(value.numel() for value in model.parameters()) == LAYERS[row][1]


def test_the_small_models_have_the_printed_number_of_parameters():
    counts = {}
    for case in of_table("interpretability"):
        recipe = case.training()
        model = recipe.model.build(Grid.uniform(case.nodes), pairs=recipe.context)
        counts[case.recipe] = sum(value.numel() for value in model.parameters())
    assert counts == {"nips-3-wide": 327_744, "nao-3-wide": 331_554}


def test_recipes_are_those_of_the_rows():
    for case in ALL:
        recipe = case.training(steps=7, minutes=None, seed=3)
        assert (recipe.steps, recipe.minutes, recipe.seed) == (7, None, 3)
        for name, value in case.options.items():
            assert getattr(recipe.model if name == "channels" else recipe, name) == value
        assert recipe.context == (150 if case.nodes == 11 else 50)
        assert (recipe.noise, recipe.queries) == (0.0, 0)


# Data


@pytest.mark.parametrize("law", LOAD_ALPHA)
@pytest.mark.parametrize(("nodes", "loads"), [(21, 100), (41, 100), (11, 300)])
@pytest.mark.parametrize("shift", [None, *SHIFTS])
def test_ninety_systems_are_trained_on_under_the_paper_s_number_of_loads(law, nodes, loads, shift):
    made = plan(law, nodes, shift=shift)
    systems = {part: set(indices_of(made.splits["systems"], part).tolist()) for part in ("train", "validation", "test")}
    assert {part: len(some) for part, some in systems.items()} == {"train": 90, "validation": 20, "test": 110}
    assert sum(map(len, systems.values())) == len(set().union(*systems.values())) == made.systems == 220
    shared = {part: set(indices_of(made.splits["loads"], part).tolist()) for part in systems}
    assert len(shared["train"]) == loads
    assert sum(map(len, shared.values())) == len(set().union(*shared.values())) == made.recipe.pairs
    assert made.recipe.nodes == nodes
    context = 150 if nodes == 11 else 50
    assert len(shared["test"]) > context  # contexts and queries of unseen loads only
    assert len(shared["validation"]) >= 20


def test_a_shift_changes_one_law_and_the_seed():
    for law, alpha in LOAD_ALPHA.items():
        plans = {shift: plan(law, 11, shift=shift) for shift in (None, *SHIFTS)}
        assert {shift: (made.recipe.load_alpha, made.recipe.field_alpha) for shift, made in plans.items()} == {
            None: (alpha, 4.0), "load": (5.0 - alpha, 4.0), "field": (alpha, 1.0),
        }  # fmt: skip
        seeds = [{int(made.system_seed(system)) for system in range(220)} for made in plans.values()]
        assert len(set().union(*seeds)) == 3 * 220
        assert len({int(made.shared_seed) for made in plans.values()}) == 3


# Jobs


@pytest.mark.parametrize("name", BUDGETS)
def test_a_budget_asks_for_everything_once(name):
    budget, found = BUDGETS[name], jobs(BUDGETS[name])
    assert len({job.name for job in found}) == len(found)
    assert {job.case.table for job in found} == set(budget.tables)
    assert {job.seed for job in found} == set(range(budget.seeds))
    assert {job.law for job in found} <= set(LOAD_ALPHA)
    assert not any(job.case.shift for job in found)  # their figures come with the case they are a shift of
    left_out = {case.name for case in ALL if case.table in budget.tables} - {job.case.name for job in found}
    assert left_out == set(budget.leaves_out)
    if budget.minutes is not None:
        assert {job.case.nodes for job in found} <= budget.minutes.keys()
        assert set(budget.repeated) <= {case.name for case in ALL}
    seeds = [job.seed for job in found]
    assert seeds == sorted(seeds)


def test_every_row_of_the_paper_is_in_the_paper_s_budget_under_both_laws():
    names = {(job.case.name, job.law) for job in jobs(BUDGETS["paper"])}
    assert names == {(case.name, law) for case in ALL for law in LOAD_ALPHA}


def test_some_jobs_may_be_chosen():
    chosen = jobs(BUDGETS["quick"], only=["21-nips-2-orders-5"])
    assert [job.case.name for job in chosen] == ["21-nips-2-orders-5"]
    (job,) = jobs(BUDGETS["quick"], only=["darcy-consistent-21-nips-2-orders-5-seed0"])
    assert job.case is chosen[0].case
    with pytest.raises(NipdeError, match=r"expected cases among 21-nips-2-channels-10.*, got 21-nips-3"):
        jobs(BUDGETS["quick"], only=["21-nips-3"])


# Tables


def figures(share: float) -> dict:
    return {name: {"mean": share, "low": 0.9 * share, "high": 1.1 * share, "spread": 0.01} for name in KEPT}


def row_of(case: Case, law: str, seed: int, share: float) -> dict:
    recipe = case.training(minutes=2.0, seed=seed)
    curve = [{"step": step, "seconds": step / 10, "held_out": step**-0.5, "in_context": step**-0.5, "loss": 0.5}
             for step in range(100, 1100, 100)]  # fmt: skip
    return {
        "case": case.name, "table": case.table, "row": case.row, "law": law, "nodes": case.nodes, "seed": seed,
        "paper": case.paper, "paper_seeds": case.paper_seeds, "parameters": 5, "steps": 12_345, "samples": 123_450,
        "seconds": 120.0, "best_step": 1000, "validation": share, "rank": recipe.model.channels,
        "paper_protocol": figures(share), "unseen_loads": figures(2 * share), "rank_floor": 0.017,
        "shifted": {shift: figures(3 * share) for shift in SHIFTS}, "curve": curve, "recipe": asdict(recipe),
        "trend": {"power": -0.5, "intercept": 0.0, "steps_to_paper": 2222.0},
    }  # fmt: skip


@pytest.mark.parametrize("name", BUDGETS)
def test_tables_are_made_of_the_record_of_any_budget(name):
    budget = BUDGETS[name]
    rows = [row_of(job.case, job.law, job.seed, 0.01 * (1 + place)) for place, job in enumerate(jobs(budget))]
    rows.append({"case": "ridge", "table": "classical", "row": "ridge", "law": "darcy-consistent", "nodes": 21,
                 "seed": 0, "paper": {}, "paper_protocol": figures(0.5), "unseen_loads": figures(0.6)})  # fmt: skip
    minutes = None if budget.minutes is None else {str(nodes): value for nodes, value in budget.minutes.items()}
    record = {"budget": name, "minutes": minutes, "systems": (90, 20, 110), "rows": rows, "pending": ["one-more"]}
    text = darcy(record)
    for table, title in (("layers", "Models, "), ("orders", "Number of random orders"), ("rank", "Rank of the kernel"),
                         ("interpretability", "Kernel and microstructure")):  # fmt: skip
        assert (title in text) == (table in budget.tables)
        for case in of_table(table):
            label = f"| {case.nodes}², {case.row} |" if table == "layers" else f"| {case.row} |"
            lines = [line for line in text.splitlines() if line.startswith(label)]
            assert bool(lines) == (table in budget.tables and case.name not in budget.leaves_out), label
            assert all(f" {case.paper['in_context']:.2f} % " in line for line in lines), label
    assert ("ridge" in text) == ("layers" in budget.tables)
    assert "Not yet run: one-more" in text
    assert f"Budget `{name}`" in text
    for block in text.split("\n\n"):
        widths = {line.count("|") for line in block.splitlines() if line.startswith("|")}
        assert len(widths) <= 1, block


def test_figures_of_several_seeds_are_joined_and_no_others():
    case, other = of_table("layers")[0], of_table("layers")[1]
    shares = [0.02, 0.03, 0.04]
    rows = [row_of(case, "darcy-consistent", seed, share) for seed, share in enumerate(shares)]
    rows.append(row_of(other, "darcy-consistent", 0, 0.05))
    text = darcy({"budget": "standard", "minutes": {"21": 20.0}, "systems": (90, 20, 110), "rows": rows, "pending": []})
    first, second = (line for line in text.splitlines() if line.startswith("| 21², N") and "`" not in line)
    assert first.startswith("| 21², NIPS, 2 layers | 2.28 % (2.31 ± 0.03 %) | 3 ± 0.8 % | 6 ± ")
    assert second.startswith("| 21², NAO, 2 layers | 3.09 % | 5 % | 10 % |")
    assert np.mean(shares) == pytest.approx(0.03)
    assert "Not yet run" not in text

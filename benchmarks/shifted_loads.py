"""The paper's OOD scenario 1 at 11²: NIPS with 3 layers, trained under rough loads, where loads of a test are smooth.

The paper does not say whether the loads of the context change or only those that are asked for. Here both are
measured, on the same test systems: a context of either law, asked for loads of either law.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks import darcy, darcy_cases
from benchmarks.campaign import judge, whole
from nipde.training.recipe import CASES
from nipde.weights import load

SEED = darcy_cases.DATA_SEED
MINUTES = 20.0
KEPT = ("in_context", "held_out", "kernel", "microstructure")


def measure(*, quick: bool = False, work: Path | None = None) -> dict[str, Any]:
    """Errors by the law of the context and the law of the loads asked for; a run in `work` is taken up."""
    torch.set_num_threads(1)
    minutes, systems = (0.02, 2) if quick else (MINUTES, None)
    with TemporaryDirectory() as scratch:
        place = work or Path(scratch)
        laws = {
            "rough": darcy.data("darcy-literal", darcy.SHIFTED_NODES, place),
            "smooth": darcy.data("darcy-literal", darcy.SHIFTED_NODES, place, shift="load", same_systems=True),
        }
        recipe = CASES["nips-3-wide"].with_options({"minutes": minutes, "clock": "cpu"})
        run = whole(recipe, laws["rough"], place / "shifted-loads")
        model, rows = load(place / "shifted-loads"), []
        for context, archive in laws.items():
            for queries, other in laws.items():
                scenario = (context, queries) == ("rough", "smooth")  # a kernel far from any law takes long to invert
                asked = {"context": recipe.contexts[0], "loads": "train", "systems": systems, "inversion": scenario}
                measured = judge(model, archive, kept=KEPT, asked=other if other is not archive else None, **asked)
                rows.append({**measured, "context": context, "asked": queries})
    printed = {
        "rough": _printed(lambda case: case.shift is None),
        "smooth": _printed(lambda case: case.shift == "load"),
    }
    return {"rows": rows, "paper": printed, "steps": run.step, "minutes": minutes, "validation": run.best}


def _printed(chosen: Callable[[darcy_cases.Case], bool]) -> dict[str, float]:
    """The paper's figures for NIPS without noise."""
    return next(
        case.paper for case in darcy_cases.ALL
        if case.table == "interpretability" and case.recipe == "nips-3-wide" and not case.options and chosen(case)
    )  # fmt: skip

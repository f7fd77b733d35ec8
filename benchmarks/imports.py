"""What `nipde.load("darcy")` costs in a fresh process: seconds, and modules imported; torch alone beside it.

`--against FOLDER` measures another source tree in turns with this one, e.g. a worktree of an earlier release.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import nipde

SEED = 0
#: Heavy parts that reading weights does not need.
HEAVY = ("zarr", "scipy", "distributed", "torch.distributed.run", "nipde.training.loop")
CODE = """
import json, sys, time
before, start = set(sys.modules), time.perf_counter()
{statement}
seconds = time.perf_counter() - start
names = set(sys.modules) - before
print(json.dumps([seconds, sorted(names)]))
"""
STATEMENTS = {"nipde": 'import nipde; nipde.load("darcy")', "torch": "import torch"}


def measure(*, quick: bool, against: Path | None = None) -> dict[str, Any]:
    """Medians over rounds in which every tree has its turn; the first round fills the file cache and is not counted."""
    here = Path(nipde.__file__).parents[1]
    trees = {"torch alone": here, "this tree": here} | ({"before": against / "src"} if against else {})
    runs: dict[str, list[tuple[float, list[str]]]] = {name: [] for name in trees}
    for _ in range(2 if quick else 12):
        for name, tree in trees.items():
            runs[name].append(_run(STATEMENTS["torch" if name == "torch alone" else "nipde"], tree))
    return {"repeats": len(runs["this tree"]) - 1, "rows": [_row(name, result[1:]) for name, result in runs.items()]}


def _run(statement: str, tree: Path) -> tuple[float, list[str]]:
    command = [sys.executable, "-c", CODE.format(statement=statement)]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=tree)
    seconds, names = json.loads(done.stdout)
    return seconds, names


def _row(name: str, runs: list[tuple[float, list[str]]]) -> dict[str, Any]:
    modules = runs[-1][1]
    return {
        "name": name,
        "seconds": median(seconds for seconds, _ in runs),
        "modules": len(modules),
        "modules_of_nipde": sum(module.split(".")[0] == "nipde" for module in modules),
        "heavy": [module for module in HEAVY if module in modules],
    }

"""A context of 20 pairs to the kernel by Conditioned NIPS with its elliptic prior, from 81² to 1025² nodes.

Processor time of one thread and peak memory above what the pairs themselves hold, one estimate in a process of its own.
Every grid is kept when it is finished: a second call goes on.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.finished_rows import finished, write_result
from benchmarks.peak_memory import peak_of_first
from benchmarks.timing import exponent, in_fresh_process, seconds
from nipde.context.pairs import Pairs
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.grid import Grid
from nipde.kernels.elliptic import EllipticKernel
from nipde.physics.random_fields import GaussianField, TwoPhase

SEED = 2026
SIDES, PAIRS = (81, 161, 321, 641, 1025), 20
FOLDER = Path("runs/context-growth")


def measure(*, quick: bool) -> dict[str, Any]:
    """Time, memory, and their powers of the number of nodes; if quick, two grids and what was finished before."""
    rows = []
    for side in SIDES:
        if str(side) not in finished(FOLDER, {}) and not (quick and side > SIDES[1]):
            write_result(FOLDER / str(side), in_fresh_process(run_side, side))
        if str(side) in (done := finished(FOLDER, {})):
            rows.append(done[str(side)])
    sizes = [row["nodes"] for row in rows]
    growth = {what: exponent(sizes, [row[what] for row in rows]) for what in ("seconds", "bytes")}
    return {"pairs": PAIRS, "rows": rows, "exponents": growth}


@torch.no_grad()
def run_side(side: int) -> dict[str, Any]:
    """One grid; meant for a process of its own."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    model, context = ConditionedNIPS(dimension=2).eval(), _context(side)
    model(_context(21))  # libraries are loaded
    taken: list[float] = []
    memory = peak_of_first(lambda: taken.append(seconds(lambda: model(context))))
    return {"side": side, "nodes": side**2, "seconds": taken[0], "bytes": memory}


def _context(side: int) -> Pairs:
    """Pairs of one rock of two phases, contrast 4, with 1 % noise stated."""
    grid, rng = Grid.uniform(side), np.random.default_rng(SEED)
    rock = torch.tensor(TwoPhase()(GaussianField(4.0).sample(grid, rng=rng, count=1)[0]), dtype=torch.float32)
    loads = torch.tensor(GaussianField(1.0, rms=1.0).sample(grid, rng=rng, count=PAIRS), dtype=torch.float32)
    responses = EllipticKernel(grid, rock.log(), torch.ones(())).predict(loads[:, None])
    return Pairs(grid, loads[:, None], responses, noise=0.01 * float(responses.square().mean().sqrt()))

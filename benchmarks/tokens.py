"""How time and memory grow with the grid: NIPS up to 65,536 nodes, both forms of NAO as far as they fit.

One step is forward and backward of 4 layers, d = 50, d_k = 40, in one thread; each point in a fresh process. NAO's
memory is also predicted from its tensors, and the prediction at the paper's batch is held against the paper's table,
in which NAO runs out of 40 GB: nothing is run to a crash.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from benchmarks.peak_memory import peak_bytes
from benchmarks.timing import exponent, in_fresh_process, seconds
from nipde.context.pairs import Pairs
from nipde.estimators.paper.attention import Order
from nipde.estimators.paper.nao import NAO
from nipde.estimators.paper.nips import NIPS
from nipde.grid import Grid

SEED = 0
BATCH, PAIRS, CHANNELS, LAYERS = 4, 50, 40, 4
RETAINED = 16
NODES = (21, 41, 61, 81, 121, 181, 256)
NAO_NODES = (21, 31, 41)
#: The paper's table: nodes per axis -> GB on a 40 GB card at batch 100, None where it ran out.
PAPER_BATCH, PAPER_LIMIT = 100, 40e9
PAPER: dict[str, dict[int, float | None]] = {
    "quadratic": {21: 2.47, 41: 32.61, 61: None, 81: None, 101: None, 121: None},
    "linear": {21: 0.66, 41: 5.69, 61: 25.53, 81: None, 101: None, 121: None},
}


def measure(*, quick: bool) -> dict[str, Any]:
    """All points, exponents fitted to them, and the prediction for the paper's card."""
    plans = {
        f"NIPS, {RETAINED} modes per axis": ("nips", NODES[:2] if quick else NODES),
        "NIPS, all modes": ("nips-all", NODES[:2] if quick else NODES),
        "NAO, linear": ("linear", NAO_NODES[:1] if quick else NAO_NODES),
        "NAO, quadratic": ("quadratic", NAO_NODES[:1] if quick else NAO_NODES),
    }
    models = []
    for name, (kind, sizes) in plans.items():
        points = [_point(kind, nodes) for nodes in sizes]
        exponents = {
            what: exponent([point["nodes"] ** 2 for point in points], [point[what] for point in points])
            for what in ("seconds", "bytes")
        }
        models.append({"model": name, "points": points, "exponents": exponents})
    return {"batch": BATCH, "models": models, "paper": _against_paper()}


def predicted_bytes(form: str, nodes: int, *, batch: int) -> float:
    """What one NAO step must hold at once: tensors kept for backward, and the largest ones made in it.

    Kernel networks: per pair of nodes and field the input, both hidden layers before and after their activation, and
    the value. Quadratic form: scores of every layer, and two gradients of that size. The rest is linear in N.
    """
    size, fields = nodes**2, 2
    tokens = fields * size
    networks = fields * size**2 * (4 + 2 * 32 + 2 * 64 + 1)
    scores = batch * tokens**2 * (LAYERS - 1 + 2) if form == "quadratic" else 0
    linear = batch * tokens * (LAYERS * (2 * PAIRS + 2 * CHANNELS) + 3 * PAIRS)
    return 4.0 * (networks + scores + linear)


def run_point(kind: str, nodes: int) -> tuple[float, int]:
    """Seconds of processor time and peak bytes of one step; meant for a process of its own."""
    torch.set_num_threads(1)
    step = _step(kind, nodes)
    memory = peak_bytes(step)
    return median(seconds(step) for _ in range(3)), memory


def _step(kind: str, nodes: int) -> Callable[[], None]:
    torch.manual_seed(SEED)
    grid = Grid.uniform(nodes)
    model: NIPS | NAO
    if kind.startswith("nips"):
        kept = None if kind == "nips-all" else (min(RETAINED, nodes // 2 + 1),) * 2
        model = NIPS(grid, pairs=PAIRS, channels=CHANNELS, layers=LAYERS, modes=kept)
    else:
        form: Order = "linear" if kind == "linear" else "quadratic"
        model = NAO(grid, pairs=PAIRS, channels=CHANNELS, layers=LAYERS, attention=form, kernel_networks="plain")
    pairs = Pairs(grid, *torch.randn(2, BATCH, PAIRS, 1, *grid.shape))

    def step() -> None:
        model.zero_grad()
        (model(pairs) @ pairs.loads - pairs.responses).square().mean().backward()

    return step


def _point(kind: str, nodes: int) -> dict[str, Any]:
    taken, memory = in_fresh_process(run_point, kind, nodes)
    point: dict[str, Any] = {"nodes": nodes, "seconds": taken, "bytes": memory}
    if kind in PAPER:
        point["predicted_bytes"] = predicted_bytes(kind, nodes, batch=BATCH)
    return point


def _against_paper() -> list[dict[str, Any]]:
    return [
        {
            "form": form,
            "nodes": nodes,
            "predicted_gb": predicted_bytes(form, nodes, batch=PAPER_BATCH) / 1e9,
            "paper_gb": printed,
            "same_verdict": (predicted_bytes(form, nodes, batch=PAPER_BATCH) < PAPER_LIMIT) == (printed is not None),
        }
        for form, table in PAPER.items()
        for nodes, printed in table.items()
    ]

"""NIPS trained on random parts of the nodes of 81², beside all of them, for the same processor time.

Two layers, 16 modes per axis, smooth loads. Every network is judged on all nodes. Beside it: how far sums over a part
make the kernel of the network that was trained on all nodes scatter.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.campaign import of_training, whole
from benchmarks.resumed import FOLDER, resumed
from benchmarks.retained_modes import CONTEXT, JUDGED, data, judged
from nipde.data.archive import Archive
from nipde.estimators.paper.nips import NIPS
from nipde.estimators.paper.spread import spread
from nipde.spectral.sampled_nodes import SampledNodes
from nipde.training.recipe import CASES
from nipde.weights import load

SEED = 8122
NODES, MODES, MINUTES, BATCH = 81, 16, 6.0, 10
#: Lines per axis that a step learns from; None: all.
LINES = (None, 61, 41, 27)
#: Draws of a part, of the scatter.
DRAWS = 10


def measure(*, quick: bool) -> dict[str, Any]:
    """All networks; `quick` trains seconds on 21²."""
    torch.set_num_threads(1)
    nodes, modes, share = (21, 6, 0.02) if quick else (NODES, MODES, 1.0)
    lines = (None, 11) if quick else LINES
    folder, part = FOLDER / "sampled-nodes" / str(nodes), "quick-" if quick else ""
    archive = data(nodes, folder)
    rows = [resumed("sampled-nodes", f"{part}{count}", partial(trained, archive, folder, modes, count, share))
            for count in lines]  # fmt: skip
    model = load(folder / "all")
    assert isinstance(model, NIPS)
    scatter = [{"lines": count, "scatter": scattered(model, archive, count)} for count in lines if count is not None]
    return {
        "nodes": nodes, "modes": modes, "minutes": share * MINUTES, "batch": BATCH, "systems": JUDGED,
        "context": CONTEXT, "rows": rows, "scatter": scatter,
    }  # fmt: skip


def trained(archive: Archive, folder: Path, modes: int, lines: int | None, share: float) -> dict[str, Any]:
    """From the start, by the processor's clock."""
    recipe = CASES["nips-2"].with_options(
        {"modes": modes, "batch": BATCH, "minutes": share * MINUTES, "clock": "cpu", "sampled_lines": lines,
         "validate_every": 100, "validation_systems": 8}
    )  # fmt: skip
    out = folder / ("all" if lines is None else f"lines-{lines}")
    run = whole(recipe, archive, out)
    model = load(out)
    return {"lines": lines, **of_training(run, model), **judged(model, archive)}


@torch.no_grad()
def scattered(model: NIPS, archive: Archive, lines: int) -> float:
    """‖K_part f - K f‖ / ‖K f‖ at the nodes of the part, mean over draws and loads of one system."""
    pairs = archive.load_indices("test")[:CONTEXT].tolist()
    read = archive.read(archive.indices("test")[:1], pairs=pairs)
    loads, responses = (torch.as_tensor(one).float() for one in (read.loads, read.responses))
    whole_lines = tuple(tuple(range(nodes)) for nodes in archive.grid.shape)
    everywhere = SampledNodes(archive.grid, lines=whole_lines)
    exact = spread(model, loads, responses, partition=everywhere).predict(loads)
    found, rng = [], np.random.default_rng(SEED)
    for _ in range(DRAWS):
        part = SampledNodes.drawn(archive.grid, lines, rng=rng)
        cut = [part.cut(one) for one in (loads, responses)]
        apart = spread(model, cut[0], cut[1], partition=part).predict(cut[0]) - part.cut(exact)
        found.append(float((apart.flatten(2).norm(dim=2) / part.cut(exact).flatten(2).norm(dim=2)).mean()))
    return float(np.mean(found))

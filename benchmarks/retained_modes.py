"""Error against the number of modes that NIPS and gated Conditioned NIPS retain, on 21², 41² and 81² nodes.

Queries of NIPS are sums of its retained waves, and so are its responses: their best approximation by these waves is a
floor, known without training. NIPS of two layers is trained at every number of modes for the same processor time; on
finer grids it starts from the next coarser one. A gated prior serves all grids: it is trained on 21² with few modes and
judged on all. Weights of the package are judged, too, their prior cut off. Loads of NIPS are smooth, as there it can
reach the paper's figures (`darcy-consistent`); those of gated priors rough, as there the prior matters
(`darcy-literal`).
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.campaign import generated, judge, of_training, whole
from benchmarks.darcy_cases import LOAD_ALPHA
from benchmarks.resumed import FOLDER, resumed
from nipde.data.archive import Archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.plan import Plan
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.grid import Grid
from nipde.training.recipe import CASES, TrainingRecipe
from nipde.weights import load

SEED, GATED = 8121, "darcy-two-phase-gated"
SMOOTH, ROUGH = (LOAD_ALPHA[law] for law in ("darcy-consistent", "darcy-literal"))
#: Systems and pairs, both split alike into training, validation and test; test systems that are judged.
SYSTEMS, PAIRS, SPLIT, JUDGED = 150, 180, (0.55, 0.05, 0.40), 20
CONTEXT = 50
#: Where nothing is trained, most systems and pairs are for the test.
TEST_SYSTEMS, TEST_SPLIT = 24, (0.05, 0.05, 0.90)
#: Minutes of processor time by nodes per axis, and the modes per axis that are retained; the last are all of them.
MINUTES = {21: 4.0, 41: 5.0, 81: 6.0}
MODES = {21: (2, 4, 6, 8, 11), 41: (2, 4, 8, 12, 21), 81: (2, 4, 8, 16, 41)}
#: The floor costs nothing and is known for more of them.
FLOORS = {nodes: tuple(sorted({*range(2, 12, 2), 16, 24, 32, modes[-1], *modes})) for nodes, modes in MODES.items()}
#: Peak of the learning rate after a coarser grid.
RATE_AFTER = 0.02
#: Of a gated prior, half waves are counted: 19 are all of them on 21².
GATED_MINUTES, GATED_MODES = 5.0, (2, 4, 8, 19)
KEPT = ("in_context", "held_out")


def measure(*, quick: bool) -> dict[str, Any]:
    """All networks; `quick` trains seconds, on the coarsest grid."""
    torch.set_num_threads(1)
    share = 0.02 if quick else 1.0
    modes = {21: (4, 11)} if quick else MODES
    folder = FOLDER / "retained-modes"
    folder = folder / "quick" if quick else folder
    archives = {nodes: data(nodes, folder) for nodes in modes}
    rough = {nodes: data(nodes, folder, alpha=ROUGH, train=nodes == min(modes)) for nodes in modes}
    part = "quick-" if quick else ""
    counts = [(nodes, count) for nodes in modes for count in FLOORS[nodes] if count <= modes[nodes][-1]]
    floors = [{"nodes": nodes, "modes": count, "floor": floor(archives[nodes], count)} for nodes, count in counts]
    rows = [resumed("retained-modes", f"{part}nips-{nodes}-{count}",
                    partial(nips, archives, folder, nodes, count, share))
            for nodes in archives for count in modes[nodes]]  # fmt: skip
    gated = [row for count in (GATED_MODES[-1:] if quick else GATED_MODES) for row in resumed(
        "retained-modes", f"{part}gated-{count}", partial(trained_gated, rough, folder, count, share))]  # fmt: skip
    for nodes, archive in rough.items():
        gated += resumed("retained-modes", f"{part}cut-{nodes}", partial(cut_gated, archive))
    return {
        "systems": JUDGED, "context": CONTEXT, "minutes": {str(nodes): share * MINUTES[nodes] for nodes in modes},
        "gated_minutes": share * GATED_MINUTES, "floors": floors, "nips": rows, "gated": gated,
    }  # fmt: skip


def data(nodes: int, folder: Path, *, alpha: float = SMOOTH, train: bool = True) -> Archive:
    """The same law on every grid."""
    recipe = DarcyRecipe(nodes=nodes, pairs=PAIRS, shared_loads=True, load_alpha=alpha)
    systems, split = (SYSTEMS, SPLIT) if train else (TEST_SYSTEMS, TEST_SPLIT)
    place = folder / f"data-{nodes}-{alpha:g}{'' if train else '-test'}"
    return generated(Plan(recipe, systems=systems, seed=SEED, split=split), place)


def floor(archive: Archive, modes: int) -> float:
    """Mean relative error of the best approximation of responses by the retained waves, in the norm of the errors."""
    grid = archive.grid
    if modes == grid.shape[-1] // 2 + 1:
        return 0.0  # all of them
    read = archive.read(archive.indices("test")[:JUDGED], pairs=archive.load_indices("test")[:CONTEXT].tolist())
    root = np.sqrt(grid.weights).reshape(-1, 1)
    responses = root * read.responses.astype(np.float64).reshape(-1, grid.size).T
    waves = root * retained_waves(grid, modes)
    rest = responses - waves @ np.linalg.solve(waves.T @ waves, waves.T @ responses)
    return float((np.linalg.norm(rest, axis=0) / np.linalg.norm(responses, axis=0)).mean())


def retained_waves(grid: Grid, modes: int) -> np.ndarray:
    """Cosines and sines at the nodes: waves -m to m - 1 along the first axis, 0 to m - 1 along the last."""
    numbers = [(k, along) for along in range(modes) for k in range(-modes, modes) if along or k <= 0]
    places = [np.arange(nodes) / nodes for nodes in grid.shape]
    turns = 2 * np.pi * np.array([np.add.outer(k * places[0], along * places[1]).ravel() for k, along in numbers]).T
    alone = numbers.index((0, 0))
    return np.hstack([np.cos(turns), np.delete(np.sin(turns), alone, axis=1)])


def nips(archives: dict[int, Archive], folder: Path, nodes: int, modes: int, share: float) -> dict[str, Any]:
    """NIPS of two layers, on the coarsest grid from the start."""
    coarser = max((one for one in archives if one < nodes), default=None)
    recipe = CASES["nips-2"].with_options(
        {"modes": modes, "batch": 40 if nodes == 21 else 10, "minutes": share * MINUTES[nodes], "clock": "cpu",
         "validate_every": 100, "validation_systems": 8}
    )  # fmt: skip
    if coarser is not None:
        before = folder / f"nips-{coarser}-{max(count for count in MODES[coarser] if count <= modes)}"
        recipe = replace(recipe, start=str(before), learning_rate=RATE_AFTER)
    return trained(recipe, archives[nodes], folder / f"nips-{nodes}-{modes}", nodes=nodes, modes=modes)


def trained(recipe: TrainingRecipe, archive: Archive, out: Path, **row: Any) -> dict[str, Any]:
    """Trained to its end, and judged with loads of training and with others."""
    run = whole(recipe, archive, out)
    model = load(out)
    return {**row, **of_training(run, model), **judged(model, archive)}


def trained_gated(archives: dict[int, Archive], folder: Path, modes: int, share: float) -> list[dict[str, Any]]:
    """A gated prior that never had more modes: trained on the coarsest grid, judged on all."""
    recipe = CASES["conditioned-gated"].with_options(
        {"modes": modes, "minutes": share * GATED_MINUTES, "clock": "cpu", "validation_systems": 8}
    )
    out = folder / f"gated-{modes}"
    run = whole(recipe, archives[min(archives)], out)
    model = load(out)
    return [{"nodes": nodes, "modes": modes, "cut": False, **of_training(run, model), **held_out(model, archive)}
            for nodes, archive in archives.items()]  # fmt: skip


def cut_gated(archive: Archive) -> list[dict[str, Any]]:
    """The weights that come with the package, their prior cut off."""
    model, nodes = load(GATED), archive.grid.shape[0]
    assert isinstance(model, ConditionedNIPS)
    rows = []
    for modes in sorted({count for count in (*GATED_MODES, 16, 32) if count < nodes - 2} | {nodes - 2}):
        model.prior.modes = (modes,) * archive.grid.dimension
        rows.append({"nodes": nodes, "modes": modes, "cut": True, **held_out(model, archive)})
    return rows


def held_out(model: Any, archive: Archive) -> dict[str, Any]:
    """The error with loads outside the context."""
    found = judge(model, archive, kept=KEPT, loads="test", context=CONTEXT, systems=JUDGED, inversion=False)
    return {"held_out": found["held_out"]["mean"]}


def judged(model: Any, archive: Archive) -> dict[str, Any]:
    """Errors with loads that training saw, as the paper has them, and with others."""
    seen = judge(model, archive, kept=KEPT, loads="train", context=CONTEXT, systems=JUDGED, inversion=False)
    return {"in_context": seen["in_context"]["mean"], **held_out(model, archive)}

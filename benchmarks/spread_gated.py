"""Gated Conditioned NIPS over several processes: equal to one process, bytes on the wire, memory, time.

As in `spread`: processes are real and talk by gloo over the loopback interface, times are processor time of one thread,
the smallest of several. All modes are retained, so rows are exchanged for columns instead of summed. Gradients in
single precision are compared with the largest of all: those of a few parameters are a thousandth of it, and rounding.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

from benchmarks.ranks import in_ranks
from benchmarks.spread import PARTS, cost_of, joined, least_sent
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.estimators.conditioned.gated_prior import HALO
from nipde.estimators.conditioned.prior import LATENT
from nipde.estimators.conditioned.spread import spread_gated
from nipde.grid import Grid
from nipde.spectral.partition import Partition, slices
from nipde.spectral.transform import transform

SEED = 15
PAIRS, QUERIES, TERMS, CHANNELS = 20, 10, 12, 32
#: Nodes per axis: bytes; memory and time.
WIRE, COST = 96, 128


def measure(*, quick: bool) -> dict[str, Any]:
    """Groups of 2, 3 and 4 processes, and one alone."""
    wire, cost = (24, 32) if quick else (WIRE, COST)
    alone, *groups = (in_ranks(count, run_parts, wire, cost) for count in (1, *(PARTS[:1] if quick else PARTS)))
    return {
        "pairs": PAIRS, "queries": QUERIES, "terms": TERMS, "channels": CHANNELS, "wire_nodes": wire,
        "cost_nodes": cost, "groups": [joined(found, alone[0]["bytes_at_peak"]) for found in groups],
    }  # fmt: skip


def run_parts(wire: int, cost: int) -> dict[str, Any]:
    """All that is measured in one of several processes."""
    parts = distributed.get_world_size()
    found: dict[str, Any] = {"parts": parts}
    if parts > 1:
        found["equal"] = [gaps(drift, dtype) for drift in (False, True) for dtype in (torch.float32, torch.float64)]
        partition = Partition(Grid.uniform(wire), distributed.group.WORLD)
        found["wire"] = {"predicted": predicted_bytes(partition), "measured": least_sent(step_of(partition))}
    return found | cost_of(step_of, cost)


def predicted_bytes(partition: Partition) -> float:
    """What all processes send in one step; terms in the order of the code, in numbers of 4 bytes."""
    grid, parts = partition.grid, partition.parts
    columns = slices(transform(grid).shape[1], parts)
    sizes = [[part.stop - part.start for part in cut] for cut in (partition.all_rows, columns)]
    stays = sum(rows * width for rows, width in zip(*sizes, strict=True))
    exchanged = sum(sizes[0]) * sum(sizes[1]) - stays  # of one transform of one field
    # Forward: loads, responses, whitened responses in double precision; the prior on the context, both fields of the
    # correction, the prior on the queries, each there and back. Backward: all that depends on weights.
    forward = 4 * PAIRS + 2 * (TERMS * PAIRS + 2 * PAIRS + TERMS * QUERIES)
    backward = forward - 2 * PAIRS
    halo = 2 * PAIRS * 2 * HALO * (parts - 1) * grid.shape[1]  # forward and backward
    weights = sum(one.numel() for one in model_of(torch.float32).parameters())
    ring = weights + 2 * CHANNELS * LATENT**2 + 2 * (PAIRS + QUERIES) * PAIRS + 2 * 2 * PAIRS**2
    return 4 * (exchanged * (forward + backward) + halo + 2 * (parts - 1) * ring)


def gaps(drift: bool, dtype: torch.dtype) -> dict[str, Any]:
    """Largest differences from the same network with all rows in this process, over the largest values."""
    grid, parts = Grid.uniform((23, 18)), distributed.get_world_size()
    model = model_of(dtype, drift=drift)
    fields = fields_of(grid, batch=2, dtype=dtype)
    counts = (23 - 5 * (parts - 1), *(5,) * (parts - 1))
    both = []
    for partition in (Partition(grid), Partition(grid, distributed.group.WORLD, counts)):
        loads, responses = (partition.cut(field).contiguous() for field in fields)
        kernel = spread_gated(model, loads, responses, noise=0.01, partition=partition)
        gradients = torch.autograd.grad(kernel.errors(loads, responses).mean(), list(model.parameters()))
        both.append([partition.gathered(kernel.predict(loads).detach()), *gradients])
    (answer, *slopes), (other, *others) = both
    largest = max(float(slope.abs().max()) for slope in slopes)
    floor = largest if dtype == torch.float32 else 1e-3 * largest
    apart = [float((one - two).abs().max()) / max(float(one.abs().max()), floor)
             for one, two in zip(slopes, others, strict=True)]  # fmt: skip
    return {
        "model": f"gated{', drift' if drift else ''}", "precision": str(dtype)[6:], "rows": counts,
        "answers": float((other - answer).abs().max() / answer.abs().max()), "gradients": max(apart),
    }  # fmt: skip


def model_of(dtype: torch.dtype, *, drift: bool = False) -> ConditionedNIPS:
    """Weights near those of the start."""
    torch.manual_seed(SEED)
    model = ConditionedNIPS(dimension=2, prior="gated", drift=drift, channels=CHANNELS, terms=TERMS).double().train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return model.to(dtype)


def fields_of(grid: Grid, *, batch: int, dtype: torch.dtype, count: int = PAIRS) -> tuple[Tensor, Tensor]:
    """Loads, and responses of a medium that varies."""
    rng, waves = np.random.default_rng(SEED), transform(grid)
    loads = torch.tensor(rng.standard_normal((batch, count, 1, *grid.shape)))
    smooth = waves.synthesis(waves.analysis(loads) * waves.inverse_laplacian(loads))
    return loads.to(dtype), (smooth * torch.tensor(rng.uniform(0.8, 1.2, grid.shape))).to(dtype)


def step_of(partition: Partition) -> Callable[[], None]:
    """Forward and backward on this process's rows of one sample."""
    model = model_of(torch.float32)
    loads, responses = (partition.cut(field).contiguous()
                        for field in fields_of(partition.grid, batch=1, dtype=torch.float32))  # fmt: skip

    def step() -> None:
        model.zero_grad()
        kernel = spread_gated(model, loads, responses, noise=0.01, partition=partition)
        kernel.errors(loads[:, :QUERIES], responses[:, :QUERIES]).mean().backward()

    return step

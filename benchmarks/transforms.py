"""From which size on does the FFT beat the matrix product?"""

from functools import partial
from statistics import median
from typing import Any

import torch

from benchmarks.timing import in_turns
from nipde.boundary import BOUNDARIES
from nipde.grid import Grid
from nipde.spectral.transform import DenseTransform, FastTransform, Transform

SEED = 0
NODES = (21, 41, 121, 257, 513, 1025)


def measure(*, quick: bool) -> dict[str, Any]:
    """Round trips of float32 fields, forward and backward through autograd, one thread, interleaved, medians of
    processor time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = [_row(nodes, repeats=3 if quick else 5) for nodes in (NODES[:2] if quick else NODES)]
    finally:
        torch.set_num_threads(threads)
    return {"rows": rows}


def _row(nodes: int, *, repeats: int) -> dict[str, Any]:
    ratios, count = {}, max(1, 200_000 // nodes**2)
    for name, boundary in BOUNDARIES.items():
        grid = Grid.uniform(nodes, boundary=boundary)
        fields = torch.randn(count, *grid.shape, generator=torch.Generator().manual_seed(SEED), requires_grad=True)
        forms = {"dense": DenseTransform(grid), "fft": FastTransform(grid)}
        trips = {form: partial(_round_trip, transform, fields) for form, transform in forms.items()}
        dense, fft = map(median, in_turns(trips, rounds=repeats).values())
        ratios[name] = fft / dense
    return {"nodes": nodes, "fields": count, "fft_over_dense": ratios}


def _round_trip(transform: Transform, fields: torch.Tensor) -> None:
    torch.autograd.grad(transform.synthesis(transform.analysis(fields)).sum(), fields)

"""What Conditioned NIPS costs: one context of 50 pairs to the kernel, and one query.

`ratio`: its time over that of the bare transforms and products it needs. These are recorded as they happen (matrix
products, factors, solves, convolutions, Fourier transforms) and done again with the same operands and nothing around
them, in the same process, in turns. The elliptic prior also multiplies with sparse matrices, its local operator and
the derivatives of it, written as shifts: `ratio_with_local` counts these products as needed, too. `growth`: time and
peak memory against the number of nodes, as fitted powers.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.peak_memory import peak_bytes
from benchmarks.timing import exponent, in_fresh_process, in_turns, seconds
from nipde.context.pairs import Pairs
from nipde.discretisation.operator import EllipticOperator, TensorSensitivity
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.grid import Grid
from nipde.kernels.elliptic import EllipticKernel
from nipde.physics.random_fields import GaussianField, TwoPhase

SEED = 2026
PRIORS = ("elliptic", "gated")
#: Words in the names of operations that count as transforms and products.
COUNTED = ("mm", "cholesky", "linalg", "convolution", "fft", "solve")
#: And of those that make up a local product.
ARITHMETIC = ("mul", "sub", "add", "add_", "sum", "div")
NODES, PAIRS, REPEATS, THREADS = 41, 50, 9, 2
#: Nodes per axis and pairs of the growth; the last grid has 262,144 nodes.
SIDES, FEW_PAIRS = (64, 128, 256, 512), 5


def measure(*, quick: bool) -> dict[str, Any]:
    """Both priors."""
    nodes, rounds, sides = (15, 3, SIDES[:2]) if quick else (NODES, REPEATS, SIDES)
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        ratios = [{"prior": prior, **_ratio(prior, nodes, rounds)} for prior in PRIORS]
    finally:
        torch.set_num_threads(before)
    growth = []
    for prior in PRIORS:
        points = [_point(prior, side) for side in sides]
        exponents = {what: exponent([point["nodes"] for point in points], [point[what] for point in points])
                     for what in ("seconds", "bytes")}  # fmt: skip
        growth.append({"prior": prior, "points": points, "exponents": exponents})
    return {
        "nodes": nodes**2,
        "pairs": PAIRS,
        "growth_pairs": FEW_PAIRS,
        "threads": THREADS,
        "ratios": ratios,
        "growth": growth,
    }


@torch.no_grad()
def run_point(prior: str, side: int) -> tuple[float, int]:
    """Seconds of processor time and peak bytes of one estimate and query; meant for a process of its own."""
    torch.set_num_threads(1)
    call = _call(prior, side, FEW_PAIRS)
    memory = peak_bytes(call)
    return seconds(call), memory


@torch.no_grad()
def _ratio(prior: str, nodes: int, rounds: int) -> dict[str, float]:
    call = _call(prior, nodes, PAIRS)
    with _Recorder() as recorder, _watched(recorder):
        call()
    runs = {"whole": call, "bare": _again(recorder.calls), "with_local": _again(recorder.with_local)}
    whole, bare, local = map(median, in_turns(runs, rounds=rounds, clock=time.perf_counter).values())
    return {"ratio": whole / bare, "ratio_with_local": whole / local, "seconds": whole, "products": len(recorder.calls)}


def _again(calls: list[tuple[Any, Any, Any]]) -> Callable[[], None]:
    def run() -> None:
        for function, given, named in calls:
            function(*given, **named)

    return run


class _Recorder(TorchDispatchMode):
    """Keeps every transform and product with its operands."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, Any, Any]] = []
        self.with_local: list[tuple[Any, Any, Any]] = []
        self.inside = 0

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        counted = any(word in str(function) for word in COUNTED)
        if counted:
            self.calls.append((function, given, named or {}))
        if counted or (self.inside and any(f"aten.{word}." in str(function) for word in ARITHMETIC)):
            self.with_local.append((function, given, named or {}))
        return function(*given, **(named or {}))


@contextmanager
def _watched(recorder: _Recorder) -> Iterator[None]:
    """Tells the recorder when a local product is under way."""
    places = [(EllipticOperator, "__call__"), (TensorSensitivity, "jvp"), (TensorSensitivity, "vjp")]
    kept = [getattr(owner, name) for owner, name in places]

    def telling(product: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            recorder.inside += 1
            try:
                return product(*given, **named)
            finally:
                recorder.inside -= 1

        return call

    try:
        for (owner, name), product in zip(places, kept, strict=True):
            setattr(owner, name, telling(product))
        yield
    finally:
        for (owner, name), product in zip(places, kept, strict=True):
            setattr(owner, name, product)


def _call(prior: str, nodes: int, pairs: int) -> Callable[[], None]:
    """An estimate from pairs of one rock, and an answer."""
    torch.manual_seed(SEED)
    model = ConditionedNIPS(dimension=2, prior="elliptic" if prior == "elliptic" else "gated").eval()
    grid, rng = Grid.uniform(nodes), np.random.default_rng(SEED)
    rock = torch.tensor(TwoPhase()(GaussianField(4.0).sample(grid, rng=rng, count=1)[0]), dtype=torch.float32)
    loads = torch.tensor(GaussianField(1.0, rms=1.0).sample(grid, rng=rng, count=pairs + 1), dtype=torch.float32)
    truth = EllipticKernel(grid, rock.log(), torch.ones(()))
    with torch.no_grad():
        responses = truth.predict(loads[:, None])
    context = Pairs(grid, loads[:pairs, None], responses[:pairs], noise=0.01 * float(responses.square().mean().sqrt()))

    def call() -> None:
        model(context).predict(loads[pairs:, None])

    return call


def _point(prior: str, side: int) -> dict[str, Any]:
    taken, memory = in_fresh_process(run_point, prior, side)
    return {"nodes": side**2, "seconds": taken, "bytes": memory}

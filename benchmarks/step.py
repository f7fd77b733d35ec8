"""One training step of NIPS, forward and backward: ours, the plain transcription, and the bare products.

Times are processor time of one thread, interleaved, medians; memory is the peak of the process above its inputs and
parameters, each form in a fresh process. The bare products ("floor") are the matrix products our step cannot do
without, on the same tiles and with nothing between them: transforms, multiplier, Gram matrix, mode mixing, projections
and the kernel's action, forward and backward.
"""

from collections.abc import Callable
from statistics import median
from typing import Any, cast

import torch
from torch import Tensor

from benchmarks.peak_memory import peak_bytes
from benchmarks.timing import in_fresh_process, in_turns
from nipde.context.pairs import Pairs
from nipde.data.freed_memory import keep_freed_memory
from nipde.estimators.paper import fourier_attention as parts
from nipde.estimators.paper import nips as tiling
from nipde.estimators.paper.attention import coupling, linear_attention
from nipde.estimators.paper.nips import NIPS, NIPSLayer
from nipde.grid import Grid
from nipde.spectral.partition import Partition
from nipde.spectral.waves import analysis, synthesis
from tests.oracles.transcription import convolve, plain_nips

SEED = 0
BATCH, PAIRS, CHANNELS, LAYERS = 20, 50, 40, 4
#: Nodes per axis, and modes per axis (None: all).
CASES = ((21, None), (41, None), (41, 12), (121, 16))


def measure(*, quick: bool) -> dict[str, Any]:
    """Every case; quick takes the smallest and few repeats."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    keep_freed_memory(2**31 - 1)  # what a training run would ask for; the plain form gains as well
    try:
        cases = CASES[:1] if quick else CASES
        rows = [_row(*case, repeats=3 if quick else 15 if case[0] < 100 else 5) for case in cases]
    finally:
        torch.set_num_threads(threads)
    return {"batch": BATCH, "pairs": PAIRS, "channels": CHANNELS, "layers": LAYERS, "rows": rows}


def peak_of(form: str, nodes: int, modes: int | None) -> int:
    """Peak bytes of one step; meant for a process of its own."""
    torch.set_num_threads(1)
    return peak_bytes(_forms(nodes, modes)[form])


def _row(nodes: int, modes: int | None, *, repeats: int) -> dict[str, Any]:
    forms = _forms(nodes, modes)
    times = in_turns(forms, rounds=repeats)
    seconds = {name: median(result) for name, result in times.items()}
    layer = _layer_speedup(nodes, modes, repeats=repeats)
    memory = {form: in_fresh_process(peak_of, form, nodes, modes) for form in ("plain", "ours")}
    return {
        "nodes": nodes,
        "modes": modes,
        "milliseconds": {name: 1000 * result for name, result in seconds.items()},
        "speedup": _speedup(times),
        "layer_speedup": layer,
        "profile": _profile(forms["ours"]),
        "over_floor": seconds["ours"] / seconds["floor"],
        "peak_mib": {form: result / 2**20 for form, result in memory.items()},
        "memory_ratio": memory["ours"] / memory["plain"],
    }


def _forms(nodes: int, modes: int | None) -> dict[str, Callable[[], None]]:
    torch.manual_seed(SEED)
    grid = Grid.uniform(nodes)
    kept = None if modes is None else (modes, modes)
    model = NIPS(grid, pairs=PAIRS, channels=CHANNELS, layers=LAYERS, modes=kept)
    pairs = Pairs(grid, *torch.randn(2, BATCH, PAIRS, 1, *grid.shape))
    sizes = torch.linalg.vector_norm(pairs.responses.flatten(2), dim=-1)

    def step(predicted: Callable[[], Tensor]) -> None:
        model.zero_grad()
        errors = torch.linalg.vector_norm((predicted() - pairs.responses).flatten(2), dim=-1)
        (errors / sizes).mean().backward()

    return {
        "plain": lambda: step(lambda: plain_nips(model, pairs)),
        "ours": lambda: step(lambda: model(pairs) @ pairs.loads),
        "floor": _floor(model),
    }


#: What torch's operations are spent on; the rest of a step is calls, views and Python.
GROUPS = {
    "products": ("aten::bmm", "aten::mm", "aten::addmm", "aten::addmm_", "aten::baddbmm_", "aten::addmv_"),
    "norms": ("aten::native_layer_norm", "aten::native_layer_norm_backward", "aten::linalg_vector_norm"),
    "passes over memory": (
        "aten::copy_", "aten::cat", "aten::add", "aten::add_", "aten::mul", "aten::div", "aten::sub", "aten::sum",
        "aten::fill_", "aten::masked_fill_",
    ),
}  # fmt: skip


def _profile(step: Callable[[], None]) -> dict[str, float]:
    """Share of a step's time per group, from torch's profiler; what it adds to every call is in `calls`."""
    with torch.profiler.profile() as result:
        step()
    spent = {event.key: event.self_cpu_time_total for event in result.key_averages()}
    total = sum(spent.values())
    shares = {group: sum(spent.get(name, 0) for name in names) / total for group, names in GROUPS.items()}
    return {**shares, "calls": 1 - sum(shares.values())}


def _layer_speedup(nodes: int, modes: int | None, *, repeats: int) -> float:
    """One layer's attention alone, without norms and residual, as the paper's cost estimate counts it."""
    torch.manual_seed(SEED)
    grid = Grid.uniform(nodes)
    kept = None if modes is None else (modes, modes)
    model = NIPS(grid, pairs=PAIRS, channels=CHANNELS, layers=2, modes=kept)
    layer, scale = cast(NIPSLayer, model.layers[0]), model.attention_scale(CHANNELS)
    leaves = [*layer.maps.parameters(), layer.filter.weight]
    tokens = torch.randn(BATCH, model.tokens, PAIRS, requires_grad=True)
    samples = _tile_samples(model)
    tiles = [
        tile.detach().transpose(0, 1).reshape(model.fields, *grid.shape, -1, PAIRS).requires_grad_()
        for tile in tokens.split(samples)
    ]
    above = torch.randn_like(tokens)
    above_tiles = [
        tile.transpose(0, 1).reshape(like.shape) for tile, like in zip(above.split(samples), tiles, strict=True)
    ]

    def plain() -> None:
        asking = convolve(layer.filter, tokens)
        torch.autograd.grad(linear_attention(asking, tokens, layer.maps.projections(), scale), [tokens, *leaves], above)

    def ours() -> None:
        blocks, couple = layer.filter.blocks(), coupling(layer.maps.projections(), scale)
        matrices, whole = layer.filter.matrices(tokens), Partition(grid)
        result = [parts.fourier_attention(tile, blocks, couple, matrices=matrices, partition=whole) for tile in tiles]
        torch.autograd.grad(result, [*tiles, *leaves], above_tiles)

    return _speedup(in_turns({"plain": plain, "ours": ours}, rounds=repeats))


def _speedup(times: dict[str, list[float]]) -> float:
    return median(plain / ours for plain, ours in zip(times["plain"], times["ours"], strict=True))


def _tile_samples(model: NIPS) -> int:
    return min(BATCH, max(1, tiling.TILE_BYTES // (model.tokens * PAIRS * 4)))


def _floor(model: NIPS) -> Callable[[], None]:
    """The products of one step, tile by tile."""
    grid, fields = model.grid, model.fields
    samples = _tile_samples(model)
    tokens = torch.randn(fields, *grid.shape, samples * PAIRS)
    half = tokens[: fields // 2]
    last = cast(NIPSLayer, model.layers[-1])
    matrices, blocks = last.filter.matrices(tokens), last.filter.blocks().detach()
    modes = analysis(tokens, matrices)
    rows = tokens.view(-1, samples, PAIRS)
    like = tokens.unflatten(-1, (samples, PAIRS))
    mode_rows = modes.view(-1, samples, PAIRS)
    mixer, thin = torch.randn(samples, PAIRS, PAIRS), torch.randn(CHANNELS, PAIRS)
    queries = torch.randn(half[..., 0].numel() * samples, CHANNELS)
    flat = half.reshape(-1, PAIRS)
    factors = queries.view(-1, samples, CHANNELS).transpose(0, 1)
    loads = torch.randn(samples, PAIRS, factors.shape[1])
    amounts = torch.randn(samples, PAIRS, CHANNELS)

    def layer() -> None:
        analysis(tokens, matrices), analysis(tokens, matrices)
        synthesis(modes, matrices), synthesis(modes, matrices)
        blocks @ modes, blocks.mT @ modes, modes @ modes.mT
        parts._cross(rows, rows), torch.bmm(rows.transpose(0, 1), mixer)
        parts._mix(modes, mixer, like), parts._mix(modes, mixer, like)
        parts._cross(mode_rows, mode_rows)

    def head() -> None:
        analysis(tokens, matrices), analysis(half, matrices)
        synthesis(modes[: fields // 2], matrices), synthesis(modes, matrices)
        blocks @ modes, blocks.mT @ modes, modes @ modes.mT
        for _ in range(2):  # queries and keys: forward, and both gradients
            flat @ thin.T, queries @ thin, queries.T @ flat
        loads @ factors, amounts @ factors.mT  # the kernel acts, and both factors and amounts get gradients
        loads @ factors, loads.mT @ amounts, loads.mT @ amounts

    def floor() -> None:
        with torch.no_grad():
            for _ in range(-(-BATCH // samples)):
                for _ in range(LAYERS - 1):
                    layer()
                head()

    return floor

"""One system over several processes, and over tiles of rows: equal to one process, bytes, memory, time, kills.

Processes are real and talk by gloo over the loopback interface. Times are processor time of one thread, the smallest of
several; one process and several take turns. A finished section is kept in runs/spread, with its commit; to measure it
again, remove its file.
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from benchmarks.peak_memory import peak_bytes, status
from benchmarks.processes import killed_run, same_state, trained
from benchmarks.ranks import in_ranks
from benchmarks.record import commit
from benchmarks.timing import exponent, in_fresh_process, seconds
from nipde.data.darcy import DarcyRecipe
from nipde.data.freed_memory import keep_freed_memory, return_freed_memory
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.estimators.paper.nips import NIPS, NIPSMLP
from nipde.estimators.paper.spread import relative_errors, spread
from nipde.grid import Grid
from nipde.spectral.partition import Partition

SEED = 14
PARTS = (2, 3, 4)
PAIRS, CHANNELS, LAYERS, RETAINED = 50, 40, 4, 16
#: Nodes per axis: bytes, memory and time.
WIRE, COST = 128, 384
#: Nodes per axis with tiles of so many rows; the last one takes minutes and gigabytes.
LARGE, TILE_ROWS = (21, 64, 128, 256, 512, 1024, 2048), 64
#: The paper's table at 14,641 nodes and a batch of 100, GB.
PAPER_GB, PAPER_NODES, PAPER_BATCH = 14.39, 121, 100
STEPS, KILLS = 100, 10
FOLDER = Path("runs") / "spread"


def measure(*, quick: bool) -> dict[str, Any]:
    """Every section, or what is not finished of it."""
    parts, sizes, kills = (PARTS[:1], LARGE[:2], 1) if quick else (PARTS, LARGE, KILLS)
    cost = 64 if quick else COST
    alone, *groups = (section(f"parts-{count}", quick, in_ranks, count, run_parts, cost) for count in (1, *parts))
    points = [section(f"nodes-{size}", quick, in_fresh_process, run_large, size) for size in sizes]
    return {
        "pairs": PAIRS, "channels": CHANNELS, "layers": LAYERS, "retained": RETAINED,
        "cost_nodes": cost, "wire_nodes": WIRE, "tile_rows": TILE_ROWS,
        "groups": [joined(found, alone[0]["bytes_at_peak"]) for found in groups],
        "large": points,
        "exponents": {
            what: exponent([point["nodes"] ** 2 for point in points[-4:]], [point[what] for point in points[-4:]])
            for what in ("seconds", "bytes")
        },
        "paper": {"nodes": PAPER_NODES, "gb_per_sample": PAPER_GB / PAPER_BATCH},
        "kills": section("kills", quick, run_kills, 20 if quick else STEPS, kills),
        "commits": sorted({json.loads(path.read_text())["commit"] for path in _files(quick)}),
    }  # fmt: skip


def section(name: str, quick: bool, work: Callable[..., Any], *given: object) -> Any:
    """The result of some work, from its file if it was done before."""
    path = FOLDER / f"{name}{'-quick' if quick else ''}.json"
    if path.exists():
        return json.loads(path.read_text())["found"]
    made = {"commit": commit(), "found": work(*given)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made))
    return made["found"]


def _files(quick: bool) -> list[Path]:
    return [path for path in FOLDER.glob("*.json") if path.stem.endswith("-quick") == quick]


def predicted_bytes(parts: int, *, batch: int, network: NIPS) -> float:
    """What all processes send in one step, 2 (P - 1) times what a ring of P reduces; terms in the order of the code."""
    coefficients = network.fields * 4 * (RETAINED + 1) * RETAINED * PAIRS  # waves of both axes, cos and sin of each
    forward = batch * (LAYERS * coefficients + (LAYERS - 1) * PAIRS**2)
    backward = batch * (LAYERS - 0.5) * coefficients  # the last layer has summed its two fields
    maps = 2 * (LAYERS - 1) * PAIRS + 2 * CHANNELS * (PAIRS + 1) + 2 * PAIRS
    amounts = 2 * batch * PAIRS * CHANNELS + 2 * batch * PAIRS
    return 4 * 2 * (parts - 1) * (forward + backward + maps + amounts)


def run_parts(cost: int) -> dict[str, Any]:
    """All that is measured in one of several processes."""
    parts = distributed.get_world_size()
    found: dict[str, Any] = {"parts": parts}
    if parts > 1:
        found["equal"] = [_gaps(kind, dtype) for kind in (NIPS, NIPSMLP) for dtype in (torch.float32, torch.float64)]
        found["wire"] = _wire(parts)
    return found | cost_of(_step, cost)


def cost_of(step_of: Callable[[Partition], Callable[[], None]], nodes: int) -> dict[str, Any]:
    """Peak memory of a step on this process's rows; of two processes also its time, in turns with that of one alone."""
    step = step_of(Partition(Grid.uniform(nodes), distributed.group.WORLD))
    return_freed_memory()  # what is held, not what the C library keeps
    found: dict[str, Any] = {"bytes_at_peak": peak_bytes(step)}
    keep_freed_memory()
    if distributed.get_world_size() != 2:
        return found
    alone = step_of(Partition(Grid.uniform(nodes))) if distributed.get_rank() == 0 else None
    times: dict[str, list[float]] = {"alone": [], "spread": []}
    for _ in range(3):
        if alone is not None:
            times["alone"].append(seconds(alone))
        distributed.barrier()
        times["spread"].append(seconds(step))
    return found | {"seconds": {name: min(values, default=0.0) for name, values in times.items()}}


def run_large(nodes: int) -> dict[str, Any]:
    """A training step with Adam, one sample, tiles of rows; also the peak of the whole process."""
    torch.set_num_threads(1)
    return_freed_memory()  # as training with tiles does
    step = _step(Partition(Grid.uniform(nodes)), tile_rows=TILE_ROWS, adam=True)
    if nodes <= 256:
        step()  # libraries warm up; a large step does not notice
    before = status("VmRSS")
    taken = seconds(step)
    whole = status("VmHWM")
    return {"nodes": nodes, "seconds": taken, "bytes": whole - before, "process_bytes": whole}


def _gaps(kind: type[NIPS | NIPSMLP], dtype: torch.dtype) -> dict[str, Any]:
    """Largest differences from the same network with all rows in this process, over the largest values."""
    grid, parts = Grid.uniform((23, 18)), distributed.get_world_size()
    torch.manual_seed(SEED)
    model = kind(grid, pairs=10, channels=8, layers=LAYERS).to(dtype)
    fields = [torch.randn(3, 10, 1, *grid.shape, dtype=dtype) for _ in range(2)]
    counts = (23 - 5 * (parts - 1), *(5,) * (parts - 1))
    both = []
    for partition in (Partition(grid), Partition(grid, distributed.group.WORLD, counts)):
        loads, responses = (partition.cut(field).contiguous() for field in fields)
        answer = spread(model, loads, responses, partition=partition).predict(loads)
        slopes = torch.autograd.grad(
            relative_errors(answer, responses, partition=partition).mean(), list(model.parameters())
        )
        both.append([partition.gathered(answer.detach()), *slopes])
    gaps = [float((one - other).abs().max() / other.abs().max()) for other, one in zip(*both, strict=True)]
    name = "NIPS" if kind is NIPS else "NIPS-mlp"
    return {"model": name, "precision": str(dtype)[6:], "rows": counts, "answers": gaps[0], "gradients": max(gaps[1:])}


def _wire(parts: int) -> dict[str, float]:
    """Bytes on the loopback interface in one step; others use it too, so the least of several counts."""
    network, batch = _network(Grid.uniform(WIRE)), 2
    step = _step(Partition(network.grid, distributed.group.WORLD), batch=batch)
    return {"predicted": predicted_bytes(parts, batch=batch, network=network), "measured": least_sent(step)}


def least_sent(step: Callable[[], None]) -> int:
    """Bytes that all processes send in a step."""
    seen = []
    for _ in range(5):
        distributed.barrier()
        before = _sent()
        step()
        distributed.barrier()
        seen.append(_sent() - before)
    return min(seen)


def _sent() -> int:
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])


def _network(grid: Grid) -> NIPS:
    torch.manual_seed(SEED)
    kept = (min(RETAINED, grid.shape[0] // 2),) * 2
    return NIPS(grid, pairs=PAIRS, channels=CHANNELS, layers=LAYERS, modes=kept, gains="pair")


def _step(
    partition: Partition, *, batch: int = 1, tile_rows: int | None = None, adam: bool = False
) -> Callable[[], None]:
    """Forward, backward and if wanted Adam, on this process's rows of one sample."""
    network = _network(partition.grid)
    network.tile_rows = tile_rows
    optimiser = torch.optim.Adam(network.parameters(), fused=True) if adam else None
    loads, responses = torch.randn(2, batch, PAIRS, 1, *partition.shape).unbind()

    def step() -> None:
        network.zero_grad()
        spread(network, loads, responses, partition=partition).errors(loads, responses).mean().backward()
        if optimiser is not None:
            optimiser.step()

    return step


def joined(found: list[dict[str, Any]], alone: int) -> dict[str, Any]:
    """Of all processes of a group the worst."""
    parts = found[0]["parts"]
    equal = [
        {**rows[0], "answers": max(row["answers"] for row in rows), "gradients": max(row["gradients"] for row in rows)}
        for rows in zip(*(one["equal"] for one in found), strict=True)
    ]
    memory = max(one["bytes_at_peak"] for one in found)
    joined = {
        "parts": parts, "equal": equal, "wire": found[0]["wire"], "bytes": memory, "bytes_alone": alone,
        "memory_times_parts": memory * parts / alone, "time_ratio": None,
    }  # fmt: skip
    if "seconds" in found[0]:
        before, taken = found[0]["seconds"]["alone"], max(one["seconds"]["spread"] for one in found)
        joined |= {"seconds": taken, "seconds_alone": before, "time_ratio": taken / before}
    return joined


def run_kills(steps: int, kills: int) -> dict[str, Any]:
    """Two processes share every grid under torchrun; one of them is killed again and again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(Plan(DarcyRecipe(load_alpha=4.0), systems=20, seed=SEED), folder / "data", workers=1)
        calm = trained(folder, "calm", steps, "--devices=2", "--space=2")
        killed = killed_run(folder, steps, kills, "--space=2")
        return {"steps": steps, "kills": killed["kills"], "bitwise": same_state(calm, killed["out"])}

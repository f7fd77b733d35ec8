"""What does generation cost beyond the bare numerics, does a second worker pay, does memory stay flat?"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sparse
import zarr
from scipy.sparse.linalg import splu

from benchmarks.timing import in_fresh_process
from nipde.data.archive import BY_SYSTEM
from nipde.data.cluster import local_cluster
from nipde.data.darcy import DarcyRecipe
from nipde.data.freed_memory import keep_freed_memory
from nipde.data.generation import generate
from nipde.data.layout import metadata_files, stored, write_shard
from nipde.data.plan import Plan
from nipde.data.storage import Storage
from nipde.data.system import System
from nipde.spectral.basis import Cosine

SEED = 0
#: What dask sets for its workers: hand back freed memory early.
DASK_WORKER = {"MALLOC_TRIM_THRESHOLD_": "65536"}


def measure(*, quick: bool) -> dict[str, Any]:
    """Cost against bare calls, two workers against one, memory against size, and the sets of the paper."""
    few = 0.02 if quick else 1.0
    sizes = [(21, 2000, 3), (41, 200, 5), (121, 20, 5)]
    sets = [(21, 100, True), (41, 100, True), (121, 100, True), (21, 2000, False)]
    return {
        "pairs": 100,
        "cost": [_cost(nodes, max(4, int(systems * few)), repeats) for nodes, systems, repeats in sizes],
        "breakdown_21": _breakdown(200 if not quick else 10),
        "two_workers": [_two_workers(nodes, max(8, int(systems * few))) for nodes, systems in ((21, 2000), (121, 40))],
        "memory": [_memory(max(20, int(systems * few))) for systems in (200, 2000)],
        "sets": [_set(nodes, max(4, int(systems * few)), shared) for nodes, systems, shared in sets],
    }


def bare_seconds(plan: Plan) -> float:
    """The plan's random fields, factorisations and solves as plain NumPy and SciPy calls; nothing else is timed."""
    recipe, axis = plan.recipe, plan.recipe.grid.axes[0]
    assert isinstance(recipe, DarcyRecipe)
    nodes, pairs = recipe.nodes, recipe.pairs
    cosines = Cosine(axis.length, 21).values(axis.coordinates)
    k2 = np.add.outer(Cosine(1.0, 21).wavenumbers ** 2, Cosine(1.0, 21).wavenumbers ** 2)
    smooth, rough = (k2 + 25.0) ** -2.0, (k2 + 25.0) ** -0.5
    rng, total = np.random.default_rng(plan.seed), 0.0
    for _ in range(plan.systems):
        start = time.perf_counter()
        field = cosines @ (smooth * rng.standard_normal((21, 21))) @ cosines.T
        loads = cosines @ (rough * rng.standard_normal((pairs, 21, 21))) @ cosines.T
        permeability = np.where(field < 0, 12.0, 3.0)
        total += time.perf_counter() - start
        matrix = _five_points(permeability)
        right = loads[:, 1:-1, 1:-1].reshape(pairs, -1).T / (nodes - 1) ** 2
        start = time.perf_counter()
        factor = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        factor.solve(right)
        total += time.perf_counter() - start
    return total


def _five_points(b: np.ndarray) -> sparse.csc_array:
    """The Darcy matrix as a plain script writes it: unknowns row by row, harmonic face means."""
    x, y = (2 * b[1:] * b[:-1] / (b[1:] + b[:-1]))[:, 1:-1], (2 * b[:, 1:] * b[:, :-1] / (b[:, 1:] + b[:, :-1]))[1:-1]
    inside, columns = b[1:-1, 1:-1].size, b.shape[1] - 2
    right = np.pad(-y[:, 1:-1], ((0, 0), (0, 1))).ravel()[:-1]
    middle = (x[1:] + x[:-1] + y[:, 1:] + y[:, :-1]).ravel()
    down = -x[1:-1].ravel()
    bands = [down, right, middle, right, down]
    return sparse.diags_array(bands, offsets=[-columns, -1, 0, 1, columns], shape=(inside, inside)).tocsc()


def _cost(nodes: int, systems: int, repeats: int) -> dict[str, Any]:
    """One worker against the bare calls, interleaved, each in a fresh process of its own."""
    plan = Plan(DarcyRecipe(nodes=nodes), systems=systems, seed=SEED)
    bare, ours = [], []
    for _ in range(repeats):
        bare.append(in_fresh_process(bare_seconds, plan))
        ours.append(in_fresh_process(_alone_seconds, plan))
    ratios = [one / other for one, other in zip(ours, bare, strict=True)]
    return {
        "grid": nodes, "systems": systems, "repeats": repeats, "bare_seconds": statistics.median(bare),
        "seconds": statistics.median(ours), "ratio": statistics.median(ratios), "ratios": ratios,
    }  # fmt: skip


def _breakdown(systems: int) -> dict[str, float]:
    """Milliseconds per system at 21²: bare numerics, building a system, writing it; and two alternatives."""
    plan = Plan(DarcyRecipe(), systems=systems, seed=SEED, shard_systems=systems)
    built = [plan.recipe.build(plan.system_seed(index)) for index in range(systems)]
    rounds: dict[str, list[float]] = {}
    for _ in range(5):
        parts = {
            "bare": in_fresh_process(bare_seconds, plan),
            "build": in_fresh_process(_build_keeping_memory, plan, environment=DASK_WORKER),
            "build_returning_freed_memory": in_fresh_process(_build_seconds, plan, environment=DASK_WORKER),
        }
        with _folder() as folder:
            start = time.perf_counter()
            write_shard(plan, 0, built, Storage(str(folder)))
            parts["write"] = time.perf_counter() - start
            start = time.perf_counter()
            _write_with_zarr(plan, built, folder / "zarr")
            parts["write_by_zarr_without_digest"] = time.perf_counter() - start
        for name, seconds in parts.items():
            rounds.setdefault(name, []).append(seconds * 1e3 / systems)
    return {name: statistics.median(times) for name, times in rounds.items()}


def _write_with_zarr(plan: Plan, systems: list[System], folder: Path) -> None:
    """The same arrays by zarr-python's own writer; it computes no digests."""
    for key, data in metadata_files(plan).items():
        Storage(str(folder)).write(key, data)
    group = zarr.open_group(folder, mode="r+")
    for name in BY_SYSTEM:
        group[name][:] = np.stack([stored(name, system) for system in systems])  # type: ignore[index]


def _build_keeping_memory(plan: Plan) -> float:
    keep_freed_memory()
    return _build_seconds(plan)


def _build_seconds(plan: Plan) -> float:
    """Time to build a plan's systems, one after the other."""
    plan.recipe.build(0)
    start = time.perf_counter()
    for index in range(plan.systems):
        plan.recipe.build(plan.system_seed(index))
    return time.perf_counter() - start


def _two_workers(nodes: int, systems: int) -> dict[str, Any]:
    """Clusters of one and two worker processes, interleaved; without and with the time to start them."""
    plan = Plan(DarcyRecipe(nodes=nodes), systems=systems, seed=SEED)
    running: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(3):
        for workers, times in running.items():
            with local_cluster(workers) as address:
                times.append(_seconds(plan, scheduler=address))
    speedups = [one / two for one, two in zip(running[1], running[2], strict=True)]
    return {
        "grid": nodes, "systems": systems, "one_worker_seconds": statistics.median(running[1]),
        "two_workers_seconds": statistics.median(running[2]), "speedup": statistics.median(speedups),
        "speedups": speedups,
        "speedup_with_start_against_one_process": _seconds(plan, workers=1) / _seconds(plan, workers=2),
    }  # fmt: skip


def _memory(systems: int) -> dict[str, Any]:
    """Peak resident memory of each of two fresh workers after generating so many systems at 21²."""
    from distributed import Client

    with local_cluster(2) as address, Client(address) as client:
        before = client.run(_peak_mib)
        _seconds(Plan(DarcyRecipe(), systems=systems, seed=SEED), scheduler=address)
        after = client.run(_peak_mib)
    return {"systems": systems, "peak_mib": sorted(after.values()), "idle_mib": sorted(before.values())}


def _set(nodes: int, systems: int, shared: bool) -> dict[str, Any]:
    """One data set as a user makes it, with all cores; then every byte verified and ten systems made again."""
    plan = Plan(DarcyRecipe(nodes=nodes, shared_loads=shared), systems=systems, seed=SEED)
    with _folder() as folder:
        start = time.perf_counter()
        archive = generate(plan, folder / "set")
        seconds = time.perf_counter() - start
        archive.verify()
        for system in range(0, systems, -(-systems // 10)):
            archive.rebuild(system)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        residuals = [archive[slice(at, at + 50)].diagnostics["residual"].max() for at in range(0, systems, 50)]
    return {
        "grid": nodes, "systems": systems, "pairs": 100, "shared_loads": shared, "seconds": seconds,
        "mebibytes": size / 2**20, "largest_residual": float(max(residuals)), "digest": archive.digest,
    }  # fmt: skip


def _seconds(plan: Plan, *, workers: int | None = None, scheduler: str | None = None) -> float:
    with _folder() as folder:
        start = time.perf_counter()
        generate(plan, folder / "archive", workers=workers, scheduler=scheduler)
        return time.perf_counter() - start


def _alone_seconds(plan: Plan) -> float:
    return _seconds(plan, workers=1)


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="nipde-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _peak_mib() -> float:
    """High-water mark of this process; getrusage would count the parent's from before it started us."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

"""What is inside, from pairs: phases by every readout, bands on b, and the inversion that needs no prior.

Test systems are `darcy-literal` at 21², in neither training nor calibration. Nodes counted are the free ones. Phases
come from Otsu's threshold of each readout's field; `discover` is what a user gets, who lets held-out pairs choose
between the weights as they are and those piecewise_constant for few phases.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from benchmarks.readouts import READOUTS, nearest_law
from nipde.context.noise import with_white_noise_each
from nipde.context.pairs import Pairs
from nipde.data.archive import Archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.discovery.discover import selected, split
from nipde.discovery.material import NORMAL, material_of, phases_of
from nipde.errors import NipdeError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.kernels.elliptic import EllipticKernel
from nipde.weights import load

SEED = 52967
WEIGHTS, NODES, LEVEL = "darcy-two-phase", 21, 0.9
SYSTEMS, PAIRS, NOISE = 100, 50, (0.0, 0.01)
#: The inversion by matching a kernel takes seconds: so many systems are enough to see what it does.
MATCHED = 10
#: Contexts and noise of bands on b; the bootstrap sees fewer systems.
STRATA = ((5, 0.01), (20, 0.002), (20, 0.01), (50, 0.01))
RESAMPLED, DRAWS = 20, 24
#: Noise and share of gaps at 20 pairs; and how many systems and queries of each.
GAPS, GAPPY, QUERIES = ((0.0, 0.2), (0.002, 0.05), (0.01, 0.2)), 50, 15
DIRECTIONS = 50

#: As in README.
QUICKSTART = """
import nipde
measurement = nipde.read(nipde.sample())
found = nipde.discover(measurement, nipde.SensorInversion())
found.save({folder!r})
"""

Field = Float[np.ndarray, "*space"]


@torch.no_grad()
def measure(*, quick: bool) -> dict[str, Any]:
    """All of it; `quick` sees 2 systems and less of each."""
    systems = 2 if quick else SYSTEMS
    model = load(WEIGHTS)
    recipe = DarcyRecipe(nodes=NODES, pairs=PAIRS)
    with TemporaryDirectory() as folder:
        plan = Plan(recipe, systems=systems, seed=SEED, split=(0.0, 0.0, 1.0))
        archive = generate(plan, Path(folder) / "family", workers=1)
        matched = 1 if quick else MATCHED
        readouts = [_readouts(model, archive, noise, matched=matched) for noise in (NOISE[1:] if quick else NOISE)]
        strata = STRATA[:1] if quick else STRATA
        bands = [_bands(model, archive, pairs, noise) for pairs, noise in strata]
        gappy = [_gappy(model, archive, noise, gaps, min(GAPPY, systems)) for noise, gaps in GAPS[: 1 if quick else 3]]
        resampled = _resampled(model, archive, min(RESAMPLED, systems), draws=3 if quick else DRAWS)
    return {
        "weights": WEIGHTS, "nodes": NODES, "pairs": PAIRS, "systems": systems, "matched": matched,
        "level": LEVEL, "readouts": readouts, "bands": bands, "bootstrap": resampled, "gaps": gappy,
        "inversion": _inversion(nodes=11 if quick else 41),
        "taylor": _taylor(directions=3 if quick else DIRECTIONS),
        "first_look": _first_look(repeats=1 if quick else 5),
    }  # fmt: skip


def _drawn(archive: Archive, pairs: int, noise: float, *, systems: int | None = None) -> tuple[Pairs, np.ndarray]:
    """Noisy pairs of the first systems, and their permeability."""
    chosen = np.arange(len(archive) if systems is None else systems)
    read = archive.read(chosen, pairs=list(range(pairs)))
    exact = Pairs.from_arrays(read.loads, read.responses, grid=read.grid).to(dtype=torch.float64)
    noisy = with_white_noise_each(exact, share=noise, seeds=[SEED + int(number) for number in chosen])
    return noisy.to(dtype=torch.float32), read.hidden[:, 0].astype(np.float64)


def _readouts(model: ConditionedNIPS, archive: Archive, noise: float, *, matched: int) -> dict[str, Any]:
    """Phase agreement and error of b by readout, in the mean over systems."""
    noisy, hidden = _drawn(archive, PAIRS, noise)
    piecewise_constant = model.with_piecewise_constant_prior()
    ways: dict[str, Callable[[Any, Any], Field]] = {
        **{name: _of_kernel(way) for name, way in READOUTS.items()},
        "inferred field, piecewise constant": lambda pairs, kernel: (
            piecewise_constant(pairs).coefficient.double().numpy()
        ),
        "discover": _discovered(model),
    }
    result: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number, truth in enumerate(hidden):
        pairs = noisy.system(number)
        kernel = model(pairs)
        for name, way in ways.items():
            if name != "nearest law" or number < matched:
                result[name].append(_judged(way(pairs, kernel), truth, np.asarray(archive.grid.unknown)))
    rows = [
        {"readout": name, "systems": len(pairs), "phases": float(phases), "error": float(error)}
        for name, pairs in result.items()
        for phases, error in (np.mean(pairs, axis=0),)
    ]
    return {"noise": noise, "rows": rows}


def _of_kernel(way: Callable[[Any], Field]) -> Callable[[Any, Any], Field]:
    return lambda pairs, kernel: way(kernel)


def _discovered(model: ConditionedNIPS) -> Callable[[Any, Any], Field]:
    """As `nipde discover` does it."""

    def result(pairs: Pairs, kernel: Any) -> Field:
        coefficient = selected(model, split(pairs))[0](pairs).coefficient
        assert coefficient is not None
        return coefficient.double().numpy()

    return result


def _judged(field: Field, truth: Field, free: np.ndarray) -> tuple[float, float]:
    """Agreement of the phases, and ‖b - b₀‖ / ‖b₀‖."""
    usable = np.isfinite(field) & (field > 0)
    if not usable[free].any():
        raise NipdeError(expected="a field", got="none", remedy="look at the readout")
    field = np.where(usable, field, np.median(field[usable & free]))
    labels = phases_of(field, deviation=np.ones_like(field), among=free).labels
    error = np.linalg.norm((field - truth)[free]) / np.linalg.norm(truth[free])
    upper = truth > np.sqrt(truth.min() * truth.max())
    return float(np.mean((labels == upper)[free])), float(error)


def _bands(model: ConditionedNIPS, archive: Archive, pairs: int, noise: float) -> dict[str, Any]:
    """Coverage and median width of bands on b, plain and piecewise_constant; and coverage by the posterior alone."""
    noisy, hidden = _drawn(archive, pairs, noise)
    free = np.asarray(archive.grid.unknown)
    row: dict[str, Any] = {"pairs": pairs, "noise": noise, "systems": len(hidden)}
    for name, one in (("plain", model), ("piecewise_constant", model.with_piecewise_constant_prior())):
        shares = []
        for number, truth in enumerate(hidden):
            own = noisy.system(number)
            kernel = one(own)
            material, _ = material_of(kernel, level=LEVEL)
            error = np.abs(np.log(material.values / truth))
            half = np.log(material.high / material.low) / 2
            alone = NORMAL[LEVEL] * kernel.posterior.deviation().double().numpy()
            shares.append([
                (error <= half)[free].mean(), np.expm1(np.median(half[free])), error[free].mean(),
                (error <= alone)[free].mean(),
            ])  # fmt: skip
        row[name] = dict(zip(("coverage", "width", "error", "posterior"), np.mean(shares, 0).tolist(), strict=True))
    return row


def _resampled(model: ConditionedNIPS, archive: Archive, systems: int, *, draws: int) -> dict[str, Any]:
    """Bands from a bootstrap over pairs: b · exp(± 1.645 deviation of log b)."""
    noisy, hidden = _drawn(archive, 20, 0.01, systems=systems)
    free = np.asarray(archive.grid.unknown)
    shares = []
    for number, truth in enumerate(hidden):
        own = noisy.system(number)
        coefficient = model(own).coefficient
        assert coefficient is not None
        spread = np.log(_bootstrap(model, own, draws=draws, seed=number)).std(0)
        log = np.abs(np.log(coefficient.double().numpy() / truth))
        shares.append(((log <= NORMAL[LEVEL] * spread)[free].mean(), np.expm1(np.median(NORMAL[LEVEL] * spread[free]))))
    coverage, width = np.mean(shares, axis=0)
    return {"pairs": 20, "noise": 0.01, "systems": systems, "draws": draws, "coverage": float(coverage),
            "width": float(width)}  # fmt: skip


def _bootstrap(model: ConditionedNIPS, pairs: Pairs, *, draws: int, seed: int) -> Float[np.ndarray, "draw *space"]:
    """The coefficient from as many pairs drawn with replacement, `draws` times."""
    generator = torch.Generator().manual_seed(seed)
    drawn = (torch.randint(pairs.count, (pairs.count,), generator=generator) for _ in range(draws))
    return torch.stack([model(pairs.take(some)).coefficient.double().cpu() for some in drawn]).numpy()


def _gappy(model: ConditionedNIPS, archive: Archive, noise: float, gaps: float, systems: int) -> dict[str, Any]:
    """Coverage of bands on b and on responses to other loads, a share of the responses missing at random."""
    noisy, hidden = _drawn(archive, 20, noise, systems=systems)
    read = archive.read(np.arange(systems), pairs=list(range(20, 20 + QUERIES)))
    asked = Pairs.from_arrays(read.loads, read.responses, grid=read.grid).to(dtype=torch.float32)
    mask = torch.rand(noisy.responses.shape, generator=torch.Generator().manual_seed(SEED)) >= gaps
    free = np.asarray(archive.grid.unknown)
    shares = []
    for number, truth in enumerate(hidden):
        own, queries = replace(noisy, mask=mask).system(number), asked.system(number)
        kernel = model(own)
        material, _ = material_of(kernel, level=LEVEL)
        low, high = kernel.band(queries.loads, level=LEVEL)
        held = ((low <= queries.responses) & (queries.responses <= high))[..., torch.tensor(free)]
        within = (material.low <= truth) & (truth <= material.high)
        shares.append((within[free].mean(), float(held.double().mean()), float(kernel.outlier_test.is_outlier)))
    return {"pairs": 20, "noise": noise, "gaps": gaps, "systems": systems,
            **dict(zip(("material", "responses", "outliers"), np.mean(shares, 0).tolist(), strict=True))}  # fmt: skip


def _inversion(*, nodes: int) -> dict[str, Any]:
    """b of the law nearest to a kernel that Conditioned NIPS made of 20 pairs with 1 % noise."""
    model = load(WEIGHTS)
    plan = Plan(DarcyRecipe(nodes=nodes, pairs=20), systems=1, seed=SEED + 1, split=(0.0, 0.0, 1.0))
    with TemporaryDirectory() as folder:
        archive = generate(plan, Path(folder) / "large", workers=1)
        noisy, hidden = _drawn(archive, 20, 0.01)
    kernel = model(noisy.system(0))
    begun, used = time.perf_counter(), time.process_time()
    field = nearest_law(kernel)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - used
    free = np.asarray(archive.grid.unknown)
    phases, error = _judged(field, hidden[0], free)
    return {"nodes": nodes, "unknowns": int(free.sum()), "seconds": seconds, "cpu_seconds": cpu, "phases": phases,
            "error": error, "threads": torch.get_num_threads()}  # fmt: skip


def _first_look(*, repeats: int) -> dict[str, float]:
    """Seconds of importing nipde after torch, and from a new process to a folder with what is inside the sample."""

    def seconds(code: str) -> float:
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begun

    bare, with_us = zip(
        *((seconds("import torch"), seconds("import torch, nipde; nipde.Pairs")) for _ in range(repeats)), strict=True
    )
    with TemporaryDirectory() as folder:
        quickstart = seconds(QUICKSTART.format(folder=folder))
    return {"import": float(np.median(with_us) - np.median(bare)), "quickstart": quickstart}


def _taylor(*, directions: int) -> dict[str, Any]:
    """Order of |J(θ + hδ) - J(θ) - h ∇J·δ| in h, J the misfit of responses, θ = log b: 2 if the adjoint is right."""
    generator = torch.Generator().manual_seed(SEED)
    plan = Plan(DarcyRecipe(nodes=NODES, pairs=5), systems=1, seed=SEED + 2, split=(0.0, 0.0, 1.0))
    with TemporaryDirectory() as folder:
        archive = generate(plan, Path(folder) / "one", workers=1)
        pairs, hidden = _drawn(archive, 5, 0.0)
    exact = pairs.system(0).to(dtype=torch.float64)
    point = torch.from_numpy(np.log(hidden[0])) + 0.1 * torch.randn(NODES, NODES, generator=generator).double()

    def misfit(log: torch.Tensor) -> torch.Tensor:
        kernel = EllipticKernel(archive.grid, log, log.new_ones(()))
        return (kernel.predict(exact.loads) - exact.responses).square().sum() / 2

    with torch.enable_grad():
        start = point.clone().requires_grad_(True)
        value = misfit(start)
        (gradient,) = torch.autograd.grad(value, start)
    rates = []
    for _ in range(directions):
        change = torch.randn(point.shape, generator=generator).double()
        left = [
            float((misfit(point + step * change) - value - step * (gradient * change).sum()).abs())
            for step in (2e-3, 1e-3, 5e-4)
        ]
        rates.append(float(np.log2(left[1] / left[2])))
    return {"directions": directions, "lowest": min(rates), "median": float(np.median(rates))}

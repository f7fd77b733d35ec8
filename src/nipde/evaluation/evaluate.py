"""Errors of an estimator on systems it was not trained on, against held-out responses and the true law.

Errors are relative L² norms, means over a system's functions, then over systems; true responses have no noise, also
those of the context. Noise is white, on the context's responses or loads, a share of their root mean square. A mean
has a 90 % interval by the bootstrap over systems: the middle 90 % of the means of as many, drawn with replacement.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn

from nipde.context.noise import with_white_noise_each
from nipde.context.pairs import Pairs
from nipde.data.archive import Archive
from nipde.data.recipe import LinearLaw
from nipde.discretisation.links import FaceMean
from nipde.errors import NipdeError
from nipde.estimators.base import Estimator
from nipde.estimators.inverse.adjoint import permeability_of
from nipde.evaluation.metrics import kernel_error, material_error, phase_accuracy, relative_errors
from nipde.evaluation.protocol import USUAL, choose, pairs_of, shares_loads
from nipde.evaluation.truth import true_laws
from nipde.kernels.base import Kernel, Predictor
from nipde.physics.darcy import Darcy

#: Resamples of the bootstrap, and the share of them in an interval.
RESAMPLES = 2000
COVERAGE = 0.9
#: Errors of solvers and linear algebra for a kernel that is near no law.
HOPELESS = (NipdeError, ArithmeticError, RuntimeError, np.linalg.LinAlgError)
#: Systems that a network estimates together.
BATCH = 10
#: Kernels on more nodes are not compared value by value: they would not fit in memory.
DENSE_NODES = 4096
MEASURES = (
    "held_out", "in_context", "held_out_interior", "held_out_edge", "kernel",
    "microstructure", "phase_accuracy", "phase_accuracy_inside", "phase_accuracy_edge",
)  # fmt: skip

Scores = dict[str, list[float]]


@dataclass(frozen=True)
class Mean:
    """A mean over systems, its interval, and the standard deviation of the systems themselves."""

    mean: float
    low: float
    high: float
    spread: float


@dataclass(frozen=True)
class Evaluation:
    """Errors of an estimator over systems; a measure that does not apply is None."""

    held_out: Mean
    in_context: Mean
    held_out_interior: Mean | None
    held_out_edge: Mean | None
    kernel: Mean | None
    microstructure: Mean | None
    phase_accuracy: Mean | None
    phase_accuracy_inside: Mean | None
    phase_accuracy_edge: Mean | None
    #: Held-out error of the tenth of the systems where it is largest.
    worst_decile: Mean
    #: Systems whose kernel is near no law.
    microstructure_failed: int | None
    systems: int
    pairs: int
    #: Noise of responses and loads, as shares of their rms.
    noise: float
    load_noise: float
    queries: int
    loads: str
    part: str
    seed: int
    seconds_per_system: float
    #: Digest of the archive.
    archive: str
    #: Numbers of the systems, and their held-out and in-context errors.
    per_system: dict[str, list[float]]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


@torch.no_grad()
def evaluate(
    estimator: Estimator,
    archive: Archive,
    *,
    part: str = "test",
    context: int = USUAL,
    noise: float = 0.0,
    load_noise: float = 0.0,
    systems: int | None = None,
    seed: int = 0,
    loads: str = "test",
    asked: Archive | None = None,
    inversion: bool = True,
    kernels: bool = True,
    progress: Callable[[int], None] = lambda finished: None,
) -> Evaluation:
    """Means over systems with their intervals.

    Kernels are compared where the recipe states its operator, microstructures for Darcy flow. `inversion=False` spares
    the microstructure, which takes far longer than the estimate where that knows no law, `kernels=False` the comparison
    of kernels. `loads` as in `choose`; with `asked`, an archive of the same systems under loads of another law, those
    are held out instead. `progress` hears of systems as they are finished.
    """
    archive.check_fills_box()
    draw = choose(archive, part=part, context=context, loads=loads, systems=systems, seed=seed)
    scores: Scores = defaultdict(list)
    together = BATCH if isinstance(estimator, nn.Module) else 1
    with _at_rest(estimator):
        for places in np.array_split(np.arange(len(draw.systems)), -(-len(draw.systems) // together)):
            read = archive.read(draw.systems[places])
            exact, queries = (pairs_of(read, pairs[places]) for pairs in (draw.contexts, draw.queries))
            if asked is not None:
                queries = _asked(asked, draw.systems[places], read.hidden, queries.count)
            seeds = draw.seeds[places].tolist()
            measured = with_white_noise_each(exact, share=noise, load_share=load_noise, seeds=seeds)
            start = time.process_time()
            predictor = estimator(_for(estimator, measured))
            scores["seconds"].append(time.process_time() - start)
            _extend(scores, _responses(estimator, predictor, exact, queries))
            for kernel, law in zip(_kernels(predictor), true_laws(archive, read), strict=False):
                _extend(scores, _readings(kernel, law, inversion=inversion, values=kernels))
            progress(len(places))
    means: dict[str, Any] = {name: mean(scores[name]) if scores[name] else None for name in MEASURES}
    return Evaluation(
        **means,
        worst_decile=worst_decile(scores["held_out"]),
        microstructure_failed=int(sum(scores["failed"])) if scores["failed"] else None,
        systems=len(draw.systems),
        pairs=context,
        noise=noise,
        load_noise=load_noise,
        queries=draw.queries.shape[1],
        loads=loads if shares_loads(archive) else "own",
        part=part,
        seed=seed,
        seconds_per_system=sum(scores["seconds"]) / len(draw.systems),
        archive=archive.digest,
        per_system={"system": draw.systems.tolist(), **{name: scores[name] for name in ("held_out", "in_context")}},
    )


def _asked(archive: Archive, systems: Int[np.ndarray, " system"], hidden: Any, count: int) -> Pairs:
    """The first pairs of the same systems in another archive."""
    read = archive.read(systems, pairs=list(range(count)))
    if not np.array_equal(read.hidden, hidden):
        raise NipdeError(
            expected="an archive of the same systems", got=f"others in {archive.storage.address}",
            remedy="generate it with the seed and the split of the first",
        )  # fmt: skip
    return pairs_of(read, np.tile(np.arange(count), (len(systems), 1)))


def permeability_in(kernel: Kernel, *, face_mean: FaceMean) -> Float[np.ndarray, "*space"]:
    """The coefficient of one system where its kernel has one, else that of the nearest law; NaN if none is near."""
    if kernel.coefficient is not None:
        return kernel.coefficient.double().cpu().numpy()
    try:
        return permeability_of(kernel, face_mean=face_mean)[0].double().cpu().numpy()
    except HOPELESS:
        return np.full(kernel.grid.shape, np.nan)


def _for(estimator: Estimator, pairs: Pairs) -> Pairs:
    """In the precision and place of a network's parameters; as they are for everything else."""
    first = next(estimator.parameters(), None) if isinstance(estimator, nn.Module) else None
    return pairs if first is None else pairs.to(dtype=first.dtype, device=first.device)


def _responses(estimator: Estimator, predictor: Predictor, exact: Pairs, queries: Pairs) -> Scores:
    """Errors of responses."""
    grid = exact.grid
    inside, outside = (
        predictor.predict(_for(estimator, pairs).loads).to(exact.responses) for pairs in (exact, queries)
    )
    scores = {
        "in_context": relative_errors(grid, inside, exact.responses),
        "held_out": relative_errors(grid, outside, queries.responses),
    }
    for name, where in (("held_out_interior", grid.interior), ("held_out_edge", grid.edge)):
        if where.any():
            scores[name] = relative_errors(grid, outside, queries.responses, where=where)
    return {name: errors.mean(-1).tolist() for name, errors in scores.items()}


def _readings(kernel: Kernel, law: LinearLaw, *, inversion: bool, values: bool) -> Scores:
    """Errors of a kernel's values, and of its coefficient, where the law is known."""
    grid, scores = law.grid, {}
    if values and grid.size <= DENSE_NODES:
        truth = torch.from_numpy(law.green())
        scores["kernel"] = [float(kernel_error(grid, kernel.dense().to(truth), truth))]
    if not (inversion and isinstance(law, Darcy)):
        return scores
    estimate, hidden = permeability_in(kernel, face_mean=law.face_mean), law.permeability
    if not np.isfinite(estimate).all():
        return {**scores, "failed": [1]}
    return {
        **scores,
        "failed": [0],
        "microstructure": [float(material_error(grid, estimate, hidden))],
        "phase_accuracy": [float(phase_accuracy(grid, estimate, hidden))],
        "phase_accuracy_inside": [float(phase_accuracy(grid, estimate, hidden, where=grid.unknown))],
        "phase_accuracy_edge": [float(phase_accuracy(grid, estimate, hidden, where=grid.edge))],
    }


def _kernels(predictor: Predictor) -> list[Kernel]:
    """One per system; of predictors that are not linear, the kernel inside."""
    kernel = predictor.linear_part
    return [] if kernel is None else [kernel.system(number) for number in range(kernel.batch[0])]


def _extend(scores: Scores, more: Scores) -> None:
    for name, values in more.items():
        scores[name] += values


@contextmanager
def _at_rest(estimator: Estimator) -> Iterator[None]:
    """A network as it is used, not as it is trained; left as it came."""
    if not isinstance(estimator, nn.Module):
        yield
        return
    training = estimator.training
    estimator.eval()
    try:
        yield
    finally:
        estimator.train(training)


def mean(values: Sequence[float], *, seed: int = 0) -> Mean:
    """Over all systems."""
    return _summary(values, selected=lambda rows: rows, seed=seed)


def worst_decile(values: Sequence[float], *, seed: int = 0) -> Mean:
    """Over the tenth of the systems with the largest values, at least one."""
    count = max(1, len(values) // 10)
    return _summary(values, selected=lambda rows: np.sort(rows, axis=-1)[..., -count:], seed=seed)


def _summary(values: Sequence[float], *, selected: Callable[[np.ndarray], np.ndarray], seed: int) -> Mean:
    systems: Float[np.ndarray, " system"] = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(len(systems), size=(RESAMPLES, len(systems)))
    low, high = np.quantile(selected(systems[drawn]).mean(-1), [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    kept = selected(systems)
    return Mean(float(kept.mean()), float(low), float(high), float(kept.std()))

"""Bands and an alarm for Conditioned NIPS from systems it was not trained on: conformal quantiles over systems.

In every stratum of pairs and noise, |error| / spread is pooled over nodes and queries, every system with the same
weight and one more, of which nothing is known, counted as missed. A new system is then like one of those: the share of
its nodes within the band is, on average over systems, at least the level.
"""

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from nipde.context.noise import level_like, with_white_noise_each
from nipde.context.pairs import Pairs
from nipde.context.sampling import Draw
from nipde.data.archive import Archive
from nipde.data.finer_mesh import FinerMeshRecipe
from nipde.data.system import System
from nipde.errors import ArchiveError
from nipde.estimators.conditioned.calibration import Calibration, Stratum, noise_share, signature
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.evaluation.evaluate import BATCH
from nipde.evaluation.protocol import choose, pairs_of
from nipde.evaluation.truth import states_coefficient

#: The strata, the levels, and how many queries of a system count.
PAIRS, NOISE = (3, 5, 10, 20, 50, 100), (0.0, 0.002, 0.01, 0.03, 0.05)
LEVELS, QUERIES = (0.5, 0.8, 0.9, 0.95), 15
#: How many systems at most give bands on the material: each needs a matrix as large as the grid.
MATERIALS = 50
#: Share of contexts of calibration that raise the alarm.
FALSE_ALARMS = 0.02
#: Numbers of a signature that differ by less are alike, however narrow their spread in calibration: 5 %.
LEAST_DEVIATION = 0.05

Places = Int[np.ndarray, " place"]
Ratios = Float[np.ndarray, "system number"]


def calibrated(
    model: ConditionedNIPS,
    archive: Archive,
    *,
    part: str = "validation",
    pairs: Sequence[int] = PAIRS,
    noise: Sequence[float] = NOISE,
    systems: int | None = None,
    seed: int = 0,
    piecewise_constant: bool = False,
    progress: Callable[[int], None] = lambda finished: None,
) -> ConditionedNIPS:
    """The same weights with a calibration; `part` must be of systems that no training has seen.

    A calibration on reference data that the weights have already is kept for grids coarser than the archive's.
    `piecewise_constant` also calibrates the coefficient under the piecewise-constant prior, for systems of few phases;
    `progress` hears of contexts as they are finished.
    """
    calibrated = copy.deepcopy(model).eval()
    calibrated.calibration = None
    table, scores = [], []
    edges = calibrated.with_piecewise_constant_prior() if piecewise_constant else calibrated
    known = calibrated.infers_coefficient and states_coefficient(archive)
    for context in sorted(pairs):
        row = []
        for share in sorted(noise):
            drawn = contexts(archive, part=part, context=context, noise=share, systems=systems, seed=seed)
            inside, edge, numbers = _measured(calibrated, drawn, progress)
            of: dict[str, Any] = {"part": part, "context": context, "noise": share, "systems": systems, "seed": seed}
            materials = [
                material_ratios(one, archive, **of) if wanted else None
                for one, wanted in ((calibrated, known), (edges, known and piecewise_constant))
            ]
            row.append(_stratum(inside, edge, numbers, *materials))
            scores.append(_worst(row[-1], numbers))
        table.append(tuple(row))
    made = Calibration(
        pairs=tuple(sorted(pairs)),
        noise=tuple(sorted(noise)),
        strata=tuple(table),
        levels=LEVELS,
        names=tuple(numbers),
        threshold=_threshold(np.stack(scores, 1)),
        systems=len(scores[0]),
        archive=archive.digest,
        widened=True,
        reference=archive.grid.shape if isinstance(archive.plan.recipe, FinerMeshRecipe) else (),
    )
    calibrated.calibration = made if model.calibration is None else model.calibration.with_finer(made)
    return calibrated


def contexts(
    archive: Archive, *, part: str, context: int, noise: float, systems: int | None = None, seed: int = 0
) -> Iterator[tuple[Pairs, Pairs]]:
    """Some systems at a time: noisy pairs as `choose` draws them, and up to `QUERIES` others without noise."""
    draw = choose(archive, part=part, context=context, loads=part, systems=systems, seed=seed)
    for read, places in _batches(archive, draw):
        yield _noisy(read, draw, places, noise), pairs_of(read, draw.queries[places, :QUERIES])


@torch.no_grad()
def material_ratios(
    model: ConditionedNIPS, archive: Archive, *, part: str, context: int, noise: float, systems: int | None, seed: int
) -> Ratios:
    """|error of log b| over its widened deviation at all free nodes of up to `MATERIALS` systems of known b."""
    weight = next(model.parameters())
    at_most = MATERIALS if systems is None else min(systems, MATERIALS)
    draw = choose(archive, part=part, context=context, loads=part, systems=at_most, seed=seed)
    free, ratios = torch.tensor(archive.grid.unknown), []
    for read, places in _batches(archive, draw):
        pairs = _noisy(read, draw, places, noise).to(dtype=weight.dtype, device=weight.device)
        kernel = model(pairs)
        for number, hidden in enumerate(torch.from_numpy(read.hidden[:, 0]).double()):
            posterior = kernel.system(number).posterior
            assert posterior is not None
            errors = (posterior.coefficient.double().cpu() / hidden).log().abs()
            ratios.append((errors / posterior.deviation().double().cpu() / posterior.widening)[free])
    return torch.stack(ratios).numpy()


def _batches(archive: Archive, draw: Draw) -> Iterator[tuple[System, Places]]:
    """What was drawn, some systems at a time, and their places in the draw."""
    archive.check_fills_box()
    for places in np.array_split(np.arange(len(draw.systems)), -(-len(draw.systems) // BATCH)):
        yield archive.read(draw.systems[places]), places


def _noisy(read: System, draw: Draw, places: Places, noise: float) -> Pairs:
    """Contexts as they were drawn."""
    exact = pairs_of(read, draw.contexts[places])
    return with_white_noise_each(exact, share=noise, seeds=draw.seeds[places].tolist())


def conformal_quantile(ratios: Float[np.ndarray, "system number"], level: float) -> float:
    """Smallest bound on a share `level` of the numbers of all systems and of one more that has none within."""
    systems, numbers = ratios.shape
    rank = math.ceil(level * (systems + 1) * numbers - 1e-9)
    if rank > ratios.size:
        raise ArchiveError(
            f"too few systems for bands of {level:g}", expected=f"at least {math.ceil(level / (1 - level) - 1e-9)}",
            got=systems, remedy="generate more systems, or calibrate on another part",
        )  # fmt: skip
    return float(np.partition(ratios, rank - 1, axis=None)[rank - 1])


Numbers = dict[str, Float[np.ndarray, " system"]]


@torch.no_grad()
def _measured(
    model: ConditionedNIPS, drawn: Iterator[tuple[Pairs, Pairs]], progress: Callable[[int], None]
) -> tuple[Ratios, Ratios, Numbers]:
    """|error| / spread inside and at the edge, and the signature, of every context."""
    weight = next(model.parameters())
    inside: list[Ratios] = []
    edge: list[Ratios] = []
    by_name = defaultdict(list)
    for context, queries in drawn:
        given = context.to(dtype=weight.dtype, device=weight.device)
        kernel = model(given)
        loads = queries.loads.to(weight)
        errors = (kernel.predict(loads).to(queries.responses) - queries.responses).abs()
        spread = kernel.spread(loads).to(errors)
        ratios = errors / spread[(..., None, *(None,) * kernel.grid.dimension)]
        for some, where in ((inside, kernel.grid.interior), (edge, kernel.grid.edge)):
            some.append(ratios[..., torch.tensor(where)].flatten(1).cpu().numpy())
        assert given.noise is not None  # contexts are drawn with theirs
        share = noise_share(level_like(given.noise, given.responses), given.responses)
        for name, number in signature(kernel, share).items():
            by_name[name].append(number.double().cpu().numpy())
        progress(len(ratios))
    numbers = {name: np.concatenate(values) for name, values in by_name.items()}
    return np.concatenate(inside), np.concatenate(edge), numbers


def _stratum(inside: Ratios, edge: Ratios, numbers: Numbers, *materials: Ratios | None) -> Stratum:
    """Grids without an edge, or without an inside, have one factor for both."""
    inside, edge = inside if inside.size else edge, edge if edge.size else inside
    # As many deviations as in a normal distribution, from quantiles that few odd systems do not move.
    deviations = [float(np.diff(np.quantile(values, (0.05, 0.95)))[0]) / 3.29 for values in numbers.values()]
    return Stratum(
        inside=tuple(conformal_quantile(inside, level) for level in LEVELS),
        edge=tuple(conformal_quantile(edge, level) for level in LEVELS),
        median=tuple(float(np.median(values)) for values in numbers.values()),
        deviation=tuple(max(value, LEAST_DEVIATION) for value in deviations),
        **{name: _factors(ratios) for name, ratios in zip(("material", "piecewise_constant"), materials, strict=True)},
    )


def _factors(ratios: Ratios | None) -> tuple[float, ...]:
    return () if ratios is None else tuple(conformal_quantile(ratios, level) for level in LEVELS)


def _worst(stratum: Stratum, numbers: Numbers) -> Float[np.ndarray, " system"]:
    """Largest score of every context."""
    entries = zip(numbers.values(), stratum.median, stratum.deviation, strict=True)
    return np.max([np.abs(values - median) / deviation for values, median, deviation in entries], axis=0)


def _threshold(scores: Float[np.ndarray, "system stratum"]) -> float:
    """Of all contexts together; of few systems, the largest score of all."""
    kept = min(1.0, (1 - FALSE_ALARMS) * (1 + 1 / len(scores)))
    return float(np.quantile(scores, kept, method="higher"))

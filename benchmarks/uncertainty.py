"""Coverage of the bands, and which systems the outlier test detects; pretrained weights for Darcy flow.

Test systems are `darcy-literal` at 21², in neither training nor calibration. How bands are interpolated and how often
the alarm may be wrong was settled on systems of another seed; this one was chosen afterwards, and run once. A band
should hold its share of the true responses at the unknown nodes; shares and widths are means over queries and systems,
widths relative to the root mean square of a system's true responses. Strangers are systems, or mistakes, that the
weights were not made for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.data.archive import Archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.data.problems import AdvectionRecipe
from nipde.data.recipe import Recipe
from nipde.errors import KernelError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.evaluation.calibrate import QUERIES, contexts
from nipde.kernels.conditioned import ConditionedKernel
from nipde.kernels.prediction_bands import OutlierTest
from nipde.weights import load

SEED = 91823
WEIGHTS, NODES, LEVEL = "darcy-two-phase", 21, 0.9
SYSTEMS, STRANGERS = 200, 60
PAIRS, NOISE = (3, 5, 10, 20, 50, 100), (0.0, 0.01, 0.03, 0.05)
#: Where the table of the calibration has no entry.
BETWEEN = ((4, 0.0), (7, 0.005), (14, 0.001), (30, 0.02), (70, 0.04))
#: Where nobody says how noisy the responses are.
UNSTATED = ((5, 0.0), (5, 0.01), (50, 0.0), (50, 0.01))
#: Where the outlier test is tried.
TRIED = tuple((pairs, noise) for pairs in (5, 50) for noise in (0.0, 0.01))

Change = Callable[[Pairs], Pairs]


@dataclass(frozen=True)
class Strangers:
    """Systems of another recipe, or a mistake made with pairs of the family."""

    name: str
    recipe: Recipe | None = None
    change: Change = lambda pairs: pairs
    #: Whether detection is required, or only of interest.
    required: bool = True


def strangers() -> tuple[Strangers, ...]:
    """Systems that must be detected, and one that may be."""
    size: dict[str, Any] = {"nodes": NODES, "pairs": 51}
    stirred = AdvectionRecipe(**size)
    return (
        Strangers("contrast × 4: phases 48 and 3", DarcyRecipe(**size, phases=(48.0, 3.0))),
        Strangers("contrast × 4: phases 12 and 0.75", DarcyRecipe(**size, phases=(12.0, 0.75))),
        Strangers("axes of the responses swapped", change=swapped),
        Strangers("loads × 1000", change=lambda pairs: pairs.scaled(load=1e3)),
        Strangers("responses × 1000", change=lambda pairs: pairs.scaled(response=1e3)),
        Strangers(f"advection, speed up to {stirred.speed:g}, diffusivity 1", stirred),
        Strangers("the same, as stiff as the rocks are", stirred, lambda pairs: pairs.scaled(response=1 / 6)),
        Strangers("arithmetic face means", DarcyRecipe(**size, face_mean="arithmetic"), required=False),
    )


def swapped(pairs: Pairs) -> Pairs:
    """x of a response taken for y."""
    return replace(pairs, responses=pairs.responses.mT.contiguous())


def measure(*, quick: bool) -> dict[str, Any]:
    """All rows; `quick` sees 4 systems, and few strata."""
    return measured(load(WEIGHTS), quick=quick)


def measured(model: ConditionedNIPS, *, quick: bool) -> dict[str, Any]:
    """The same of any calibrated weights for these systems."""
    calibration = model.calibration
    assert calibration is not None
    known = calibration.pairs
    count, few = (4, 4) if quick else (SYSTEMS, STRANGERS)
    with _archive(DarcyRecipe(nodes=NODES, pairs=PAIRS[-1] + QUERIES), count) as family:
        rows = [
            {**_coverage(model, family, pairs=pairs, noise=noise), "in_table": pairs in known, "noise_given": True}
            for pairs in (PAIRS[1:2] if quick else PAIRS) for noise in (NOISE[:2] if quick else NOISE)
        ]  # fmt: skip
        others = [
            {**_coverage(model, family, pairs=pairs, noise=noise, given=given), "in_table": False, "noise_given": given}
            for strata, given in ((BETWEEN, True), (UNSTATED, False)) for pairs, noise in strata[: 1 if quick else None]
        ]  # fmt: skip
        result = [row for one in strangers() for row in _found(model, family, one, few, TRIED[: 1 if quick else None])]
    return {
        "weights": WEIGHTS,
        "nodes": NODES,
        "level": LEVEL,
        "systems": count,
        "queries": QUERIES,
        "calibration": {"systems": calibration.systems, "threshold": calibration.threshold},
        "overall": {name: float(np.mean([row[name] for row in rows])) for name in SHARES},
        "lowest": {name: float(min(row[name] for row in rows)) for name in SHARES[:3]},
        "rows": [*rows, *others],
        "out_of_distribution": result,
        "least_detected": min(row["outliers"] for row in result if row["required"]),
    }


SHARES = ("coverage", "interior", "edge", "width", "outliers")


def _coverage(
    model: ConditionedNIPS, archive: Archive, *, pairs: int, noise: float, given: bool = True
) -> dict[str, Any]:
    """Share of true values within bands, their width, and how many systems are flagged as outliers."""
    result: dict[str, list[Tensor]] = {name: [] for name in SHARES}
    grid = archive.grid
    places = {"coverage": grid.unknown, "interior": grid.interior, "edge": grid.edge}
    for kernel, queries in _kernels(
        model, archive, (pairs, noise), lambda some: _without_noise(some) if not given else some
    ):
        low, high = (side.to(queries.responses) for side in kernel.band(queries.loads, level=LEVEL))
        within = (low <= queries.responses) & (queries.responses <= high)
        for name, where in places.items():
            result[name].append(within[..., torch.tensor(where)].double().flatten(1).mean(1))
        size = queries.responses.square().flatten(1).mean(1).sqrt()
        result["width"].append((high - low)[..., torch.tensor(grid.unknown)].flatten(1).mean(1) / size)
        result["outliers"].append(_test(kernel).is_outlier.double())
    return {
        "pairs": pairs,
        "noise": noise,
        **{name: float(torch.cat(values).double().mean()) for name, values in result.items()},
    }


def _found(
    model: ConditionedNIPS, family: Archive, who: Strangers, systems: int, tried: tuple[tuple[int, float], ...]
) -> Iterator[dict[str, Any]]:
    """How many systems of another law are flagged, and by which score."""
    with _archive(who.recipe, systems) if who.recipe is not None else nullcontext(family) as archive:
        for pairs, noise in tried:
            alarms = [_test(kernel) for kernel, _ in _kernels(model, archive, (pairs, noise), who.change, systems)]
            scores = {name: torch.cat([alarm.scores[name] for alarm in alarms]) for name in alarms[0].scores}
            yield {
                "name": who.name,
                "required": who.required,
                "systems": systems,
                "pairs": pairs,
                "noise": noise,
                "outliers": float(torch.cat([alarm.is_outlier for alarm in alarms]).double().mean()),
                "least_score": float(torch.stack(list(scores.values())).abs().amax(0).min()),
                "median_scores": {name: float(values.median()) for name, values in scores.items()},
            }


@torch.no_grad()
def _kernels(
    model: ConditionedNIPS, archive: Archive, stratum: tuple[int, float], change: Change, systems: int | None = None
) -> Iterator[tuple[ConditionedKernel, Pairs]]:
    weight, (pairs, noise) = next(model.parameters()), stratum
    for context, queries in contexts(archive, part="test", context=pairs, noise=noise, systems=systems, seed=SEED):
        yield model(change(context.to(dtype=weight.dtype, device=weight.device))), queries


def _without_noise(pairs: Pairs) -> Pairs:
    return replace(pairs, noise=None)


@contextmanager
def _archive(recipe: Recipe, systems: int) -> Iterator[Archive]:
    """Test systems only, gone afterwards."""
    with TemporaryDirectory() as folder:
        plan = Plan(recipe, systems=systems, seed=SEED, split=(0.0, 0.0, 1.0))
        yield generate(plan, Path(folder) / "systems", workers=1)


def _test(kernel: ConditionedKernel) -> OutlierTest:
    if kernel.outlier_test is None:
        raise KernelError(expected="calibrated weights", got="a kernel without an outlier test")
    return kernel.outlier_test

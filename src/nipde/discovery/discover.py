"""Material identification from a measurement: kernel, coefficient, bands, phases, held-out error, recommended loads."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

import nipde
from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.discovery.discovery import IDENTIFIABLE, Baseline, Discovery, HeldOut, check_text
from nipde.discovery.held_out_check import held_out_check
from nipde.discovery.material import check_options, inside_only, material_of, no_coefficient, phases_of
from nipde.discovery.recommended_loads import recommend
from nipde.errors import NipdeError, PairsError
from nipde.kernels.base import Predictor
from nipde.measurements.measurement import Measurement

Estimator = Callable[[Pairs], Predictor]
#: Context, queries held out of it, and the indices of the queries.
Split = tuple[Pairs, Pairs, tuple[int, ...]]

#: One pair in `EVERY` is held out, and at least one; of fewer pairs than `FEWEST` none is.
EVERY, FEWEST = 5, 3
#: The smooth prior is selected only where its held-out error is below this share of the piecewise-constant one's:
#: held-out pairs are few and noisy.
CLEARLY = 0.95
#: From so many pairs on the fit to all of them starts at that to the context.
ENOUGH = 10


@torch.no_grad()
def discover(
    measurement: Measurement,
    estimator: Estimator,
    *,
    quantity: str = "coefficient",
    phases: int = 2,
    piecewise_constant: bool | None = None,
    level: float = 0.9,
    baselines: Mapping[str, Estimator] | None = None,
    recommendations: int = 5,
    progress: Callable[[str], None] = lambda step: None,
) -> Discovery:
    """Identify the coefficient of one system, by an estimator whose kernels have a coefficient and its posterior.

    `quantity` is the user's name of the coefficient. `phases` is the number of phases, unless the fit itself compares
    materials of one phase and of more. `piecewise_constant` selects the piecewise-constant prior, None
    selects by the held-out error. `baselines` are other estimators to compare with, by name, such as
    `nipde.estimators.inverse.adjoint.BASELINES`. `progress` is called with the name of each step.
    """
    start = time.perf_counter()
    check_options(level=level, phases=phases)
    check_text(quantity, *vars(measurement.units).values(), *(source.name for source in measurement.sources))
    pairs = measurement.pairs
    if not getattr(estimator, "infers_coefficient", True):
        raise no_coefficient(estimator.name or type(estimator).__name__)  # type: ignore[attr-defined]
    if isinstance(estimator, nn.Module):
        weight = next(estimator.parameters())
        pairs = pairs.to(dtype=weight.dtype, device=weight.device)
    if pairs.batch:
        raise PairsError(expected="the pairs of one system", got=f"a batch {pairs.batch}", remedy="take one of them")
    progress("held-out pairs")
    parts = split(pairs)
    by_readings = getattr(estimator, "from_sensors", False)
    if measurement.specimen is not None and not by_readings:
        raise PairsError(
            expected="an estimator for specimens of any shape", got=type(estimator).__name__,
            remedy="use output error, the default of nipde discover",
        )  # fmt: skip
    readings = measurement.readings if by_readings else None
    subject: Any = pairs if readings is None else readings
    estimator = with_prior(estimator, piecewise_constant=piecewise_constant)
    if by_readings:
        estimate, held_out = warm_started(estimator, subject, parts)
    else:
        estimate, held_out = selected(estimator, parts, piecewise_constant=piecewise_constant)
        estimator = estimate
    progress("kernel")
    kernel: Any = _without_stiffness_score(estimate(subject))
    if by_readings:
        held_out = without_pairs(held_out, kernel.laws[0].faulty_pairs)
    progress("material")
    material, deviation = material_of(kernel, level=level, unit=measurement.units.coefficient, quantity=quantity)
    interior = kernel.interior
    if measurement.specimen is not None:
        material, deviation = inside_only(material, interior), np.where(interior, deviation, np.nan)
    identifiable = (material.identifiable >= IDENTIFIABLE) & interior
    fitted = getattr(kernel, "phases", None)
    # Phases of the fit have one value each, also where interfaces are uncertain: everywhere in a thin inclusion.
    among = interior if not identifiable.any() or (fitted or 1) > 1 else identifiable
    count = fitted or phases
    segmented = phases_of(material.values, deviation=deviation, among=among, count=count)
    compared = []
    context, queries = (parts[0], parts[1]) if parts else (pairs, None)
    judged_at = None
    if readings is not None and parts is not None:
        judged_at = readings.take(list(parts[2])).without_sensors_at(kernel.laws[0].faulty_positions)
    for name, other in (baselines or {}).items() if measurement.specimen is None else ():
        progress(name)
        compared.append(baseline(name, other, context, queries, judged_at=judged_at))
    progress("recommended loads")
    count, units = recommendations, measurement.units
    loads = recommend(kernel, subject, count=count, units=units, origin=measurement.origin)
    provenance = {
        "nipde": nipde.__version__,
        "torch": torch.__version__,
        **_identity(estimator),
        **({} if measurement.specimen_name is None else {"specimen": measurement.specimen_name}),
        **({} if measurement.date is None else {"measured_on": measurement.date}),
        "pairs": pairs.count,
        "files": [vars(source) for source in measurement.sources],
        "seconds": round(time.perf_counter() - start, 3),
    }
    name = str(provenance["weights"])
    return Discovery(
        measurement, name, kernel, material, segmented, held_out, tuple(compared), loads, provenance
    )  # fmt: skip


def split(pairs: Pairs) -> Split | None:
    """A share of the pairs held out, spread over the order of measurement."""
    if pairs.count < FEWEST:
        return None
    held_out = max(1, pairs.count // EVERY)
    queries = np.linspace(0, pairs.count - 1, held_out + 2)[1:-1].round().astype(int)
    context = np.setdiff1d(np.arange(pairs.count), queries)
    return pairs.take(context.tolist()), pairs.take(queries.tolist()), tuple(queries.tolist())


def predictions(
    kernel: Predictor, queries: Pairs, indices: tuple[int, ...], *, predicted: torch.Tensor | None = None
) -> HeldOut:
    """Predicted responses to the queries; errors count measured nodes only."""
    if predicted is None:
        with torch.no_grad():
            predicted = kernel.predict(queries.loads).to(queries.responses)
    mask = torch.ones_like(queries.responses, dtype=torch.bool)
    if queries.mask is not None:
        mask = queries.mask.expand_as(queries.responses)
    measured = torch.where(mask, queries.responses, 0)
    error, size = (queries.grid.norm(field) for field in (torch.where(mask, predicted - measured, 0), measured))
    # The error of a zero response is relative to the largest of the others.
    size = torch.where(size > 0, size, size.max())
    errors = torch.where(error > 0, error / size, 0)

    def array(field: torch.Tensor) -> np.ndarray:
        return np.asarray(field[:, 0].cpu())

    return HeldOut(indices, array(queries.loads), array(measured), array(predicted), array(mask), array(errors))


def warm_started(estimator: Any, subject: Pairs | SensorPairs, parts: Split | None) -> tuple[Estimator, HeldOut | None]:
    """The estimator for all pairs, started at the fit to the context where that is enough; held-out predictions.

    Errors of readings at points count these; fields show the readings between them.
    """
    if parts is None:
        return estimator, None
    _, queries, indices = parts
    kernel = estimator(subject.take(np.setdiff1d(np.arange(subject.count), indices).tolist()))
    law = kernel.laws[0]
    if isinstance(subject, SensorPairs):
        readings = subject.take(list(indices)).without_sensors_at(law.faulty_positions)
        loads = readings.loads[:, 0].numpy()
        fields = torch.as_tensor(law.solve(loads, readings.outline))[:, None]
        held_out = predictions(kernel, queries, indices, predicted=fields.to(queries.responses))
        if subject.specimen is not None:
            held_out = replace(held_out, predicted=np.where(law.inside, held_out.predicted, np.nan))
        at_sensors = law.readings(loads, readings.sensors.matrix, readings.outline)
        held_out = replace(held_out, errors=errors_at(readings, at_sensors))
    else:
        readings = SensorPairs.of(queries).without_sensors_at(law.faulty_positions)
        held_out = predictions(kernel, without_nodes(queries, law.faulty_positions), indices)
    held_out = replace(held_out, check=held_out_check(kernel, readings))
    return (partial(estimator.continued, kernel) if subject.count >= ENOUGH else estimator), held_out


def without_pairs(held_out: HeldOut | None, numbers: Sequence[int]) -> HeldOut | None:
    """Without pairs that turned out to be faulty; None if none is left. Their check counted them."""
    if held_out is None or not set(numbers) & set(held_out.indices):
        return held_out
    kept = ~np.isin(held_out.indices, numbers)
    if not kept.any():
        return None
    fields = {name: getattr(held_out, name)[kept] for name in ("loads", "measured", "predicted", "mask", "errors")}
    indices = tuple(number for number, keep in zip(held_out.indices, kept, strict=True) if keep)
    return replace(held_out, indices=indices, check=None, **fields)


def without_nodes(pairs: Pairs, positions: np.ndarray) -> Pairs:
    """As if nothing had been read at these nodes."""
    if not len(positions):
        return pairs
    nodes = np.rint(positions / np.array(pairs.grid.spacing)).astype(int)
    kept = torch.ones_like(pairs.responses, dtype=torch.bool)
    kept[..., *nodes.T] = False
    return replace(pairs, mask=kept if pairs.mask is None else kept & pairs.mask)


def errors_at(readings: SensorPairs, predicted: np.ndarray) -> np.ndarray:
    """Relative errors of predicted readings, by pair."""
    measured = readings.readings.numpy()
    off = np.where(np.isfinite(measured), predicted - measured, 0.0)
    sizes = np.linalg.norm(np.nan_to_num(measured), axis=1)
    return np.asarray(np.linalg.norm(off, axis=1) / np.where(sizes > 0, sizes, max(sizes.max(), 1e-300)))


def baseline(
    name: str, estimator: Estimator, context: Pairs, queries: Pairs | None, *, judged_at: SensorPairs | None = None
) -> Baseline:
    """Another estimator on the same context and queries; NaN where its fit fails or gives no coefficient.

    Errors are at the sensors of `judged_at`, if given, as those of the estimator itself.
    """
    start = time.perf_counter()
    values, error = np.full(context.grid.shape, np.nan), np.nan
    try:
        kernel = estimator(context.to(dtype=torch.float64))
    except (NipdeError, ArithmeticError, np.linalg.LinAlgError):
        return Baseline(name, values, error, time.perf_counter() - start)
    seconds = time.perf_counter() - start
    if kernel.coefficient is not None:
        values = kernel.coefficient.detach().double().cpu().numpy()
    if queries is not None:
        answers = predictions(kernel, queries.to(dtype=torch.float64), ())
        errors = answers.errors
        if judged_at is not None:
            at = judged_at.sensors.matrix(judged_at.grid)
            errors = errors_at(judged_at, (at @ answers.predicted.reshape(len(errors), -1).T).T)
        error = float(errors.mean())
    return Baseline(name, values, error, seconds)


def with_prior(estimator: Any, *, piecewise_constant: bool | None) -> Any:
    """An estimator that chooses its prior by itself, told of the choice if one was made."""
    if piecewise_constant is None or not getattr(estimator, "from_sensors", False):
        return estimator
    return replace(estimator, piecewise_constant=piecewise_constant)


def selected(
    estimator: Any, parts: Split | None, *, piecewise_constant: bool | None = None
) -> tuple[Estimator, HeldOut | None]:
    """The estimator with its smooth or its piecewise-constant prior, as given or by the held-out error.

    Estimators without `with_piecewise_constant_prior` have one prior only.
    """
    candidates = [estimator]
    alternative = getattr(estimator, "with_piecewise_constant_prior", None)
    if piecewise_constant:
        if alternative is None:
            raise PairsError(
                expected="an estimator with a piecewise-constant prior", got=type(estimator).__name__,
                remedy="leave out piecewise_constant",
            )  # fmt: skip
        candidates = [alternative()]
    elif piecewise_constant is None and parts is not None and alternative is not None:
        candidates.append(alternative())
    if parts is None:
        return candidates[0], None
    context, queries, indices = parts
    results = [predictions(one(context), queries, indices) for one in candidates]
    errors = [float(result.errors.mean()) for result in results]
    best = -1 if errors[-1] * CLEARLY <= errors[0] else 0
    return candidates[best], results[best]


def _identity(estimator: Any) -> dict[str, object]:
    """Name, digest of the weights and kind of prior."""
    digest = hashlib.sha256()
    if isinstance(estimator, nn.Module):
        for name, values in sorted(estimator.state_dict().items()):
            digest.update(name.encode() + values.detach().cpu().contiguous().numpy().tobytes())
    else:
        digest.update(repr(estimator).encode())
    return {
        "weights": getattr(estimator, "name", type(estimator).__name__),
        "weights_sha256": digest.hexdigest(),
        "piecewise_constant": bool(getattr(estimator, "piecewise_constant", False)),
    }


def _without_stiffness_score(kernel: Any) -> Any:
    """Stiffness depends on the units of the measurement: the outlier test leaves it out."""
    if kernel.bands is None:
        return kernel
    test = kernel.outlier_test
    if test is None or "stiffness" not in test.scores:
        return kernel
    scores = {name: score for name, score in test.scores.items() if name != "stiffness"}
    return replace(kernel, bands=replace(kernel.bands, outlier_test=replace(test, scores=scores)))

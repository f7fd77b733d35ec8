"""`nipde design FILE`: recommended loads, ranked; their fields can be written to a file."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from nipde.cli.arguments import new_file, non_negative, parser, whole
from nipde.cli.discover import OUTPUT_ERROR
from nipde.cli.estimators import add_weights
from nipde.cli.measurement import add_measurement, measurement_of
from nipde.cli.terminal import one_thread, progress, say, written
from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.discovery.a_optimal_design import Sensor
from nipde.discovery.candidates import KINDS, as_loads
from nipde.discovery.discovery import RecommendedLoads
from nipde.discovery.recommended_loads import Rank, by_kernel, by_material, queries_of, recommend, usual_rank
from nipde.errors import MeasurementError, PairsError
from nipde.estimators.registry import factory
from nipde.measurements.measurement import Measurement
from nipde.measurements.parse import parse
from nipde.weights import load

ABOUT = "Recommend the loads to apply next: those that reduce the remaining uncertainty of predictions most."
CANDIDATES = (
    "patches: uniform load on a fifth of every side, at the largest density applied so far; points: a well or a force "
    "at one place, with the largest total so far; doublets: half of it in at one place and out at another; waves: "
    "products of sines, for comparison; or a file with an array `loads` of your own. If left out, patches; points or "
    "doublets where the measured loads are such"
)


#: Below this share of measured nodes, weights that were trained on full fields are not used unless asked for.
FULL = 0.8


def run(words: list[str]) -> int:
    """Entry of the verb."""
    parsed = parser(
        "design", ABOUT, example="heads.csv --load rate --response head --units x=m,load=m/d,response=m --count 3"
    )
    add_measurement(parsed)
    add_weights(parsed, material=False, default="", more="output-error for few or scattered sensors")
    parsed.add_argument("--candidates", type=str, default="", help=CANDIDATES)
    parsed.add_argument(
        "--by", type=Literal["kernel", "material"] | None, default=None,
        help="reduce the uncertainty of the kernel, or that of the coefficient; if left out, that of the coefficient "
        "where weights infer one",
    )  # fmt: skip
    parsed.add_argument(
        "--noise", type=non_negative, default=None,
        help="noise of the sensor, as a share of the response, for --by material; if left out, that of the file",
    )  # fmt: skip
    parsed.add_argument("--relative", type=bool, default=False, help="whether the noise is relative to each response")
    parsed.add_argument("--count", type=whole(), default=5, help="number of loads to list")
    parsed.add_argument("--out", type=new_file(), default=None, help="npz file for the fields of these loads")
    options = parsed.parse_args(words)
    one_thread()
    measurement = measurement_of(options)
    say(measurement.interpretation())
    if measurement.specimen is not None:
        _check_for_outline(options)
    own = _own_candidates(options.candidates, measurement.pairs.grid.shape)
    context, kernel = _estimated(options.weights, measurement)
    ranked = _ranked(kernel, context, own, options, measurement)
    if not ranked.names:
        without = "only the outline was loaded, or no candidate acts inside of it"
        say(f"No load was ranked: {'the kernel has no uncertainty' if measurement.specimen is None else without}.")
        return 0
    say(f"share of the remaining variance of predictions that a load would remove ({context.count} pairs so far):")
    for name, gain in zip(ranked.names, ranked.gains, strict=True):
        say(f"  {100 * gain:5.1f} %  {name}")
    if options.out:
        stored: dict[str, Any] = {"loads": ranked.loads, "gains": ranked.gains, **measurement.positions}
        with written(options.out.with_suffix(".npz")) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **stored)
    return 0


def _check_for_outline(options: Any) -> None:
    """Loads of specimens with an outline are ranked by the posterior of output error."""
    usual = {"weights": ("", OUTPUT_ERROR), "by": (None,), "noise": (None,), "relative": (False,)}
    if others := [name for name, values in usual.items() if options[name] not in values]:
        raise PairsError(
            expected=f"no --{others[0]} for a specimen with an outline", got=options[others[0]],
            remedy="leave it out: loads are ranked by output error, with the noise of the file",
        )  # fmt: skip


def few_sensors(measurement: Measurement) -> bool:
    """Whether readings are at scattered points, or at a part of the nodes only."""
    mask = measurement.pairs.mask
    return measurement.readings is not None or (mask is not None and float(mask.double().mean()) < FULL)


def _estimated(weights: str, measurement: Measurement) -> tuple[Pairs | SensorPairs, Any]:
    """The pairs in the form that suits the estimator, and their kernel."""
    chosen = weights or (OUTPUT_ERROR if few_sensors(measurement) else "darcy")
    model: Any = factory(chosen)() if chosen == OUTPUT_ERROR else load(chosen)
    context: Pairs | SensorPairs = measurement.pairs
    if chosen != OUTPUT_ERROR:
        context = measurement.pairs.to(dtype=next(model.parameters()).dtype)
    elif measurement.readings is not None:
        context = measurement.readings
    with progress("kernel", 1) as advance, torch.no_grad():
        kernel = model(context)
        advance(1)
    return context, kernel


def _ranked(
    kernel: Any, context: Pairs | SensorPairs, own: np.ndarray | None, options: Any, measurement: Measurement
) -> RecommendedLoads:
    rank: Rank | None = None
    if options.by == "kernel":
        rank = by_kernel(kernel)
    elif options.by == "material" or options.noise is not None or options.relative:
        sensor = None
        if options.noise is not None or options.relative:
            sensor = Sensor(0.01 if options.noise is None else options.noise, options.relative)
        rank = by_material(kernel, context, sensor=sensor)
    if own is None:
        kind = options.candidates or None
        units, origin = measurement.units, measurement.origin
        return recommend(kernel, context, count=options.count, units=units, origin=origin, kind=kind, rank=rank)
    rank = usual_rank(kernel, context) if rank is None else rank
    if rank is None:
        return RecommendedLoads((), np.zeros(0), own[:0])
    fields = as_loads(context.grid, own)
    ranking = rank(fields, queries_of(fields, context.loads))
    order = ranking.order[: options.count].cpu().numpy()
    return RecommendedLoads(tuple(f"candidate {i}" for i in order), ranking.gains.cpu().numpy()[order], own[order])


def _own_candidates(word: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """Of a file; None for a kind of candidates."""
    if not word or word in KINDS:
        return None
    if not Path(word).is_file():
        raise MeasurementError(
            "--candidates", expected=f"{', '.join(KINDS)}, or a file with an array loads", got=repr(word),
            remedy="check the word or the path",
        )  # fmt: skip
    raw = parse(word)
    loads = raw.arrays.get("loads")
    if loads is None or loads.shape[1:] != shape:
        raise MeasurementError(
            f"{word}: candidates", expected=f"an array loads (candidate, {', '.join(map(str, shape))})",
            got=", ".join(f"{name} {values.shape}" for name, values in raw.arrays.items()) or "nothing",
            remedy="put them on the grid of the measurement, in its unit of load",
        )  # fmt: skip
    return np.asarray(loads, dtype=np.float64)

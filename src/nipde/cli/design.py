"""`nipde design FILE`: recommended loads, ranked; their fields can be written to a file."""

from typing import Any, Literal

import numpy as np
import torch

from nipde.cli.arguments import new_file, non_negative, parser, whole
from nipde.cli.estimators import add_weights
from nipde.cli.measurement import add_measurement, measurement_of
from nipde.cli.terminal import one_thread, progress, say, written
from nipde.discovery.a_optimal_design import Sensor
from nipde.discovery.recommended_loads import by_kernel, by_material, effort_of, long_waves, recommended_loads
from nipde.errors import MeasurementError
from nipde.measurements.parse import parse
from nipde.report.numbers import unit_symbol
from nipde.weights import load

ABOUT = "Recommend the loads to apply next: those that reduce the remaining uncertainty of predictions most."


def run(words: list[str]) -> int:
    """Entry of the verb."""
    parsed = parser(
        "design", ABOUT, example="heads.csv --load rate --response head --units x=m,load=m/d,response=m --count 3"
    )
    add_measurement(parsed)
    add_weights(parsed, material=False)
    parsed.add_argument(
        "--candidates", type=str, default="", help="file with an array `loads` to rank; long waves if left out"
    )
    parsed.add_argument(
        "--by", type=Literal["kernel", "material"], default="kernel",
        help="reduce the uncertainty of the kernel, or that of the coefficient (weights that infer one)",
    )  # fmt: skip
    parsed.add_argument(
        "--noise",
        type=non_negative,
        default=0.01,
        help="noise of the sensor, as a share of the response; for --by material",
    )
    parsed.add_argument("--relative", type=bool, default=False, help="whether the noise is relative to each response")
    parsed.add_argument("--count", type=whole(), default=5, help="number of loads to list")
    parsed.add_argument("--out", type=new_file(), default=None, help="npz file for the fields of these loads")
    options = parsed.parse_args(words)
    one_thread()
    model, measurement = load(options.weights), measurement_of(options)
    say(measurement.interpretation())
    candidates = _candidates(options.candidates, measurement.pairs.grid.shape) if options.candidates else None
    pairs = measurement.pairs.to(dtype=next(model.parameters()).dtype)
    with progress("kernel", 1) as advance, torch.no_grad():
        kernel = model(pairs)
        advance(1)
    rank = by_kernel(kernel)
    if options.by == "material":
        rank = by_material(kernel, pairs.loads, sensor=Sensor(options.noise, options.relative))
    if candidates is not None:
        ranking = rank(candidates, long_waves(pairs.grid), None)
        order = ranking.order[: options.count].numpy()
        names, gains, loads = [f"candidate {i}" for i in order], ranking.gains[order].numpy(), candidates[order]
    else:
        effort, unit = effort_of(pairs.loads), measurement.units.load
        ranked = recommended_loads(kernel, effort=effort, count=options.count, unit=unit, rank=rank)
        names, gains, loads = [unit_symbol(name) for name in ranked.names], ranked.gains, ranked.loads
    say(f"share of the remaining variance of predictions that one more load would remove ({pairs.count} pairs so far):")
    for name, gain in zip(names, gains, strict=True):
        say(f"  {100 * gain:5.1f} %  {name}")
    if options.out:
        stored: dict[str, Any] = {"loads": loads, "gains": gains, **measurement.positions}
        with written(options.out.with_suffix(".npz")) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **stored)
    return 0


def _candidates(path: str, shape: tuple[int, ...]) -> np.ndarray:
    raw = parse(path)
    loads = raw.arrays.get("loads")
    if loads is None or loads.shape[1:] != shape:
        raise MeasurementError(
            f"{path}: candidates", expected=f"an array loads (candidate, {', '.join(map(str, shape))})",
            got=", ".join(f"{name} {values.shape}" for name, values in raw.arrays.items()) or "nothing",
            remedy="put them on the grid of the measurement, in its unit of load",
        )  # fmt: skip
    return np.asarray(loads, dtype=np.float64)

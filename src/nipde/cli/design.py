"""`nipde design FILE`: which load to apply next, ranked; the fields to apply are written beside."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from nipde.cli.measurement import add_measurement, measurement_of
from nipde.cli.terminal import one_thread, parser, progress, say
from nipde.cli.weights import add_weights
from nipde.discovery.next_loads import by_kernel, by_material, effort_of, long_waves, next_loads
from nipde.discovery.sensor import Sensor
from nipde.errors import MeasurementError, PairsError
from nipde.measurements.parse import parse
from nipde.training.pretrained import load


def run(words: list[str]) -> int:
    """Entry of the verb."""
    options = parser("design", "Rank loads by how much of what is not yet known each would tell.")
    add_measurement(options)
    add_weights(options, material=False)
    options.add_argument("--candidates", type=str, default="", help="file with an array `loads` to rank; else waves")
    options.add_argument(
        "--by",
        type=Literal["kernel", "material"],
        default="kernel",
        help="what a load should tell: answers that no law explains, or the material (elliptic weights)",
    )
    options.add_argument(
        "--noise", type=float, default=0.01, help="of the sensor, a share of its readings; for --by material"
    )
    options.add_argument("--relative", type=bool, default=False, help="whether the sensor is set anew for every load")
    options.add_argument("--count", type=int, default=5, help="how many to list")
    options.add_argument("--out", type=Path | None, default=None, help="npz for the fields of the best")
    chosen = options.parse_args(words)
    if chosen.count < 1:
        raise PairsError(expected="--count: one load at least", got=chosen.count, remedy="leave it out for five")
    one_thread()
    measurement, model = measurement_of(chosen), load(chosen.weights)
    say(measurement.interpretation())
    weight = next(model.parameters())
    pairs = measurement.pairs.to(dtype=weight.dtype)
    with progress("kernel", 1) as advance, torch.no_grad():
        kernel = model(pairs)
        advance(1)
    effort, rank = effort_of(pairs.loads), by_kernel(kernel)
    if chosen.by == "material":
        rank = by_material(kernel, pairs.loads, sensor=Sensor(chosen.noise, chosen.relative))
    if chosen.candidates:
        loads = _candidates(chosen.candidates, pairs.grid.shape)
        ranking = rank(loads, long_waves(pairs.grid), None)
        order = ranking.order[: chosen.count].numpy()
        names_of, gains = tuple(f"candidate {number}" for number in order), ranking.gains[order].numpy()
        best = loads[order]
    else:
        found = next_loads(kernel, effort=effort, count=chosen.count, unit=measurement.units.load, rank=rank)
        names_of, gains, best = found.names, found.gains, found.loads
    say(f"share of what is not known of answers to long waves that one more load would remove ({pairs.count} so far):")
    for name, gain in zip(names_of, gains, strict=True):
        say(f"  {100 * gain:5.1f} %  {name}")
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        place = chosen.out.with_suffix(".npz")
        stored: dict[str, Any] = {"loads": best, "gains": gains, **measurement.positions}
        np.savez_compressed(place, **stored)
        say(f"written: {place}")
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

"""A measurement in plain words, and what about it looks like a mistake."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float

from nipde.context.sensor_pairs import SensorPairs
from nipde.discretisation.parts import Specimen
from nipde.errors import MeasurementError
from nipde.grid import AXES
from nipde.measurements.gridding import Gridded
from nipde.measurements.locate import place_words
from nipde.measurements.measurement import Note
from nipde.measurements.units import Units, factor, is_length

#: Responses on a Dirichlet boundary over those inside, as root mean squares.
EDGE = 0.05
#: Difference of the values that two sides are held at, over the root mean square of the responses.
HELD = 0.2

Fields = Float[np.ndarray, "pair component *space"]
Mask = Bool[np.ndarray, "pair component *space"]


def summary(data: Gridded, loads: Fields, units: Units, readings: SensorPairs | None = None) -> list[Note]:
    """How many, where, in which units, how large, and where the largest response lies; `readings` at points."""
    pairs, components = data.response.shape[:2]
    length, load, response = ("" if unit == "1" else f" {unit}" for unit in (units.length, units.load, units.response))
    specimen = None if readings is None else readings.specimen
    axes = [
        f"{name} from {first:g} to {first + axis.length:g}{length}, {axis.nodes} nodes"
        + (f", {axis.boundary.name}" if specimen is None else "")
        for name, first, axis in zip(AXES, data.origin, data.grid.axes, strict=False)
    ]
    known, values = data.mask, data.response
    nodes = [x.ravel() + first for x, first in zip(data.grid.coordinates, data.origin, strict=True)]
    if readings is not None:
        read = readings.readings.numpy()[:, None]
        known, values = np.isfinite(read), np.nan_to_num(read)
        nodes = list((readings.sensors.points + data.origin).T)
    inside = loads if specimen is None else loads[..., specimen.shape.holds_nodes(data.grid)]
    measured = values[known]
    texts = [
        f"{pairs} pair{'s' * (pairs != 1)}; {components} component{'s' * (components != 1)} of the response, "
        f"{loads.shape[1]} of the load.",
        f"Grid: {'; '.join(axes)}. Arrays run over ({', '.join(data.grid.axis_names)}).",
        f"Units: length {units.length}, load {units.load}, response {units.response}; so b is in {units.coefficient}.",
        f"Loads from {inside.min():.4g} to {inside.max():.4g}{load}."
        if np.any(inside) or specimen is None
        else "No loads inside: those on parts of the outline are below.",
        f"Responses from {measured.min():.4g} to {measured.max():.4g}{response}, "
        f"{100 * (1 - known.mean()):.3g} % of them missing.",
    ]
    for component in range(components):
        first, there = values[0, component].ravel(), known[0, component].ravel()
        place = int(np.where(there, np.abs(first), -1.0).argmax())
        which = f", component {component + 1}," if components > 1 else ""
        where = place_words([x[place] for x in nodes])
        texts.append(f"Largest response of pair 1{which} at {where}{length}: {first[place]:.4g}{response}.")
    return [Note("reading", text) for text in texts]


def warnings(
    data: Gridded, loads: Fields, units: Units, specimen: Specimen | None = None, *, outline: bool = False
) -> list[Note]:
    """What a person may have mixed up; of a `specimen` with loads on its `outline`, what does not depend on these."""
    texts = list(_counts(data, loads)) if not outline else []
    if loads.any() or not outline:
        texts += _sizes(data, loads, units)
    if specimen is None:
        texts += [*_swapped(data, loads), *_shapes(data, loads)]
    return [Note("warning", text) for text in texts]


def check_dirichlet_sides(data: Gridded) -> None:
    """Raise if the two sides of a Dirichlet axis are held at different values: as if at 0 they would be misread."""
    inside = float(np.sqrt(np.mean(data.response[data.mask] ** 2)))
    outline = "give an outline and the values of its parts, " if data.grid.dimension == 2 else ""
    for place, axis in enumerate(data.grid.axes):
        values, known = (np.moveaxis(array, place + 2, -1)[..., [0, -1]] for array in (data.response, data.mask))
        sides = np.where(known, values, np.nan).reshape(*data.response.shape[:2], -1, 2)
        if not axis.boundary.essential or (np.isfinite(sides).sum(2) < 3).all():
            continue
        sides = np.where(np.isfinite(sides).sum(2, keepdims=True) < 3, 0.0, sides)
        mean, spread = np.nanmean(sides, axis=2), np.nanstd(sides, axis=2)
        even = (spread <= 0.1 * np.abs(mean).max(-1, keepdims=True)).all(-1)
        held = even & (np.abs(mean[..., 0] - mean[..., 1]) > HELD * inside)
        if held.any():
            pair, component = np.argwhere(held)[0]
            first, last = mean[pair, component]
            raise MeasurementError(
                f"response of pair {pair + 1} on the sides of axis {AXES[place]}", expected="0 on a Dirichlet boundary",
                got=f"{first:.4g} and {last:.4g}", remedy=f"{outline}subtract the response without load, take out "
                'motion with rigid_motion = true, or give boundary = "neumann"',
            )  # fmt: skip


def _counts(data: Gridded, loads: Fields) -> Iterator[str]:
    if len(loads) == 1:
        yield "One pair only: nothing is left to check a result with."
        return
    first: dict[bytes, int] = {}
    for pair, fields in enumerate(zip(loads, data.response, data.mask, strict=True), start=1):
        before = first.setdefault(b"".join(field.tobytes() for field in fields), pair)
        if before != pair:
            yield f"Pair {pair} is the same as pair {before}: repeated, not measured again?"
    singular = np.linalg.svd(loads.reshape(len(loads), -1), compute_uv=False)
    if singular[0] > 0 and len(singular) > 1 and singular[1] < 1e-6 * singular[0]:
        yield "All loads are multiples of one another: together they show no more than one."


def _sizes(data: Gridded, loads: Fields, units: Units) -> Iterator[str]:
    largest = {"load": float(np.abs(loads).max()), "response": float(np.abs(data.response[data.mask]).max())}
    if is_length(units.length) and is_length(units.response):
        extent = max(axis.length for axis in data.grid.axes)
        relative = largest["response"] * factor(units.response, units.length, of="the response") / extent
        if relative > 1:
            yield f"The largest response is {relative:.3g} × the size of the grid: pixels taken for {units.response}?"
    for name, size in largest.items():
        if size > 1e12 or 0 < size < 1e-12:
            yield f"The largest {name} is {size:.1e}: check its unit."
    if not loads.any():
        yield "All loads are 0."
        return
    if (empty := _first_pair(not load.any() for load in loads)) is not None:
        yield f"The load of pair {empty} is 0 everywhere."


def _shapes(data: Gridded, loads: Fields) -> Iterator[str]:
    pairs = list(zip(data.response, data.mask, strict=True))
    if (gone := _first_pair(not mask.any() for _, mask in pairs)) is not None:
        yield f"Pair {gone} has no measured response at all."
    if (still := _first_pair(mask.any() and np.ptp(response[mask]) == 0 for response, mask in pairs)) is not None:
        yield f"The response of pair {still} is the same at all nodes."
    if loads.shape[1] == data.response.shape[1]:
        work = data.grid.integrate(np.where(data.mask, loads * data.response, 0.0)).sum(1)
        if np.mean(work < 0) > 0.5:
            yield "Responses point against the loads (∫ f u < 0): a sign or an axis reversed?"
    for place, axis in enumerate(data.grid.axes):
        if axis.boundary.essential:
            edge, inner = _rms_of_ends(data.response, data.mask, place - data.grid.dimension)
            if inner > 0 and edge > EDGE * inner:
                yield (
                    f"Responses at the ends of axis {AXES[place]} are {100 * edge / inner:.0f} % of those inside, "
                    f'where they should be 0: swapped axes, rigid motion, or boundary = "neumann"?'
                )


def _swapped(data: Gridded, loads: Fields) -> Iterator[str]:
    """A balance law smooths: a response that is rougher than its load is hardly one."""
    everywhere, dimension = np.ones(loads.shape, dtype=bool), data.grid.dimension
    rough_load, rough_response = (
        _roughness(loads, everywhere, dimension), _roughness(data.response, data.mask, dimension)
    )  # fmt: skip
    if rough_load is None or rough_response is None:
        return
    axes = [place - dimension for place, axis in enumerate(data.grid.axes) if axis.boundary.essential]
    ends = [(_rms_of_ends(loads, everywhere, axis), _rms_of_ends(data.response, data.mask, axis)) for axis in axes]
    loads_end = bool(ends) and all(f[0] < 1e-6 * f[1] and u[0] > EDGE * u[1] for f, u in ends)
    if (rough_response > 4 * rough_load and rough_response > 0.02) or loads_end:
        yield (
            f"Loads are smoother than responses (high waves {100 * rough_load:.2g} % and {100 * rough_response:.2g} %)"
            f"{', and 0 on the sides where responses are not' if loads_end else ''}: load and response swapped?"
        )


def _roughness(fields: Fields, mask: Mask, dimension: int) -> float | None:
    """Energy of second differences over the most they can be, of values less their mean; None if unknown."""
    values = fields[mask]
    if not values.size:
        return None
    spread = float(np.mean((values - values.mean()) ** 2))
    if spread <= 1e-24 * float(np.mean(values**2)):
        return 0.0
    energies = []
    for axis in range(-dimension, 0):
        field, known = (np.moveaxis(array, axis, -1) for array in (fields, mask))
        second = np.diff(field, n=2)[known[..., 2:] & known[..., 1:-1] & known[..., :-2]]
        if not second.size:
            return None
        energies.append(float(np.mean(second**2)) / 16)
    return float(np.mean(energies)) / spread


def _rms_of_ends(fields: Fields, mask: Mask, axis: int) -> tuple[float, float]:
    """Root mean square at the two ends of an axis, and between them."""
    values, known = (np.moveaxis(array, axis, -1) for array in (fields, mask))
    parts = [values[..., part][known[..., part]] for part in ([0, -1], slice(1, -1))]
    edge, inner = (float(np.sqrt(np.mean(part**2))) if part.size else 0.0 for part in parts)
    return edge, inner


def _first_pair(which: Iterator[bool]) -> int | None:
    return next((pair for pair, is_it in enumerate(which, start=1) if is_it), None)

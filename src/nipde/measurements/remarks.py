"""A measurement in plain words, and what about it wants to be looked at."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float

from nipde.grid import AXES, Grid
from nipde.measurements.measurement import Note
from nipde.measurements.units import Units, factor, is_length

#: Responses on a side where they are held at 0, over those inside, as root mean squares.
EDGE = 0.05

Fields = Float[np.ndarray, "pair component *space"]
Mask = Bool[np.ndarray, "pair component *space"]


def readings(
    grid: Grid, origin: tuple[float, ...], units: Units, loads: Fields, responses: Fields, mask: Mask
) -> list[Note]:
    """How many, where, in which units, how large, and where the largest response lies."""
    pairs, components = responses.shape[:2]
    axes = [
        f"{name} from {first:g} to {first + axis.length:g}{_unit(units.length)}, {axis.nodes} nodes, "
        f"{axis.boundary.name}"
        for name, first, axis in zip(AXES, origin, grid.axes, strict=False)
    ]
    texts = [
        f"{pairs} pair{'s' * (pairs != 1)}; {components} component{'s' * (components != 1)} of the response, "
        f"{loads.shape[1]} of the load.",
        f"Grid: {'; '.join(axes)}. Arrays run over ({', '.join('xyz'[: grid.dimension])}).",
        f"Units: length {units.length}, load {units.load}, response {units.response}; so b is in {units.coefficient}.",
        f"Loads from {loads.min():.4g} to {loads.max():.4g}{_unit(units.load)}.",
        f"Responses from {responses[mask].min():.4g} to {responses[mask].max():.4g}{_unit(units.response)}, "
        f"{100 * (1 - mask.mean()):.3g} % of them missing.",
    ]
    for component in range(components):
        values = np.where(mask[0, component], np.abs(responses[0, component]), -1.0)
        node = np.unravel_index(int(values.argmax()), grid.shape)
        at = ", ".join(
            f"{name} = {first + axis.coordinates[i]:g}"
            for name, first, axis, i in zip(AXES, origin, grid.axes, node, strict=False)
        )
        which = f", component {component + 1}," if components > 1 else ""
        value = responses[(0, component, *node)]
        texts.append(
            f"Largest response of pair 1{which} at {at}{_unit(units.length)}: {value:.4g}{_unit(units.response)}."
        )
    return [Note("reading", text) for text in texts]


def warnings(grid: Grid, units: Units, loads: Fields, responses: Fields, mask: Mask) -> list[Note]:
    """What a person may have mixed up."""
    found = [
        *_counts(loads, responses, mask),
        *_sizes(grid, units, loads, responses, mask),
        *_swapped(grid, loads, responses, mask),
        *_shapes(grid, loads, responses, mask),
    ]
    return [Note("warning", text) for text in found]


def _counts(loads: Fields, responses: Fields, mask: Mask) -> Iterator[str]:
    pairs = len(loads)
    if pairs == 1:
        yield "One pair only: nothing is left to check a result with."
        return
    seen: dict[bytes, int] = {}
    for pair in range(pairs):
        key = loads[pair].tobytes() + responses[pair].tobytes() + mask[pair].tobytes()
        if key in seen:
            yield f"Pair {pair + 1} is the same as pair {seen[key] + 1}: repeated, not measured again?"
        seen.setdefault(key, pair)
    flat = loads.reshape(pairs, -1)
    sizes = np.linalg.svd(flat, compute_uv=False)
    if sizes[0] > 0 and len(sizes) > 1 and sizes[1] < 1e-6 * sizes[0]:
        yield "All loads are multiples of one another: together they show no more than one."


def _sizes(grid: Grid, units: Units, loads: Fields, responses: Fields, mask: Mask) -> Iterator[str]:
    largest = float(np.abs(responses[mask]).max())
    extent = max(axis.length for axis in grid.axes)
    if is_length(units.length) and is_length(units.response):
        relative = largest * factor(units.response, units.length, of="the response") / extent
        if relative > 1:
            yield f"The largest response is {relative:.3g} × the size of the grid: pixels taken for {units.response}?"
    for name, values in (("load", np.abs(loads)), ("response", np.abs(responses[mask]))):
        size = float(values.max())
        if size > 1e12 or 0 < size < 1e-12:
            yield f"The largest {name} is {size:.1e}: check its unit."
    if not loads.any():
        yield "All loads are 0."
    empty = [pair + 1 for pair in range(len(loads)) if loads.any() and not loads[pair].any()]
    if empty:
        yield f"The load of pair {empty[0]} is 0 everywhere."
    gone = [pair + 1 for pair in range(len(mask)) if not mask[pair].any()]
    if gone:
        yield f"Pair {gone[0]} has no measured response at all."


def _shapes(grid: Grid, loads: Fields, responses: Fields, mask: Mask) -> Iterator[str]:
    still = [pair + 1 for pair in range(len(mask)) if mask[pair].any() and np.ptp(responses[pair][mask[pair]]) == 0]
    if still:
        yield f"The response of pair {still[0]} is the same at all nodes."
    if loads.shape[1] == responses.shape[1]:
        work = grid.integrate(np.where(mask, loads * responses, 0.0)).sum(1)
        if np.mean(work < 0) > 0.5:
            yield "Responses point against the loads (∫ f u < 0): a sign or an axis turned around?"
    for place, axis in enumerate(grid.axes):
        if axis.boundary.clamped:
            edge, inner = _rms_of_ends(responses, mask, place - grid.dimension)
            if inner > 0 and edge > EDGE * inner:
                yield (
                    f"Responses at the ends of axis {'xyz'[place]} are {100 * edge / inner:.0f} % of those inside, "
                    f'where they should be 0: turned axes, rigid motion, or boundary = "neumann"?'
                )


def _swapped(grid: Grid, loads: Fields, responses: Fields, mask: Mask) -> Iterator[str]:
    """A balance law smooths: a response that is rougher than its load is hardly one."""
    everywhere = np.ones(loads.shape, dtype=bool)
    rough_load, rough_response = (
        _roughness(loads, everywhere, grid.dimension), _roughness(responses, mask, grid.dimension)
    )  # fmt: skip
    if rough_load < 0 or rough_response < 0:
        return
    held = [place - grid.dimension for place, axis in enumerate(grid.axes) if axis.boundary.clamped]
    ends = [(_rms_of_ends(loads, everywhere, axis), _rms_of_ends(responses, mask, axis)) for axis in held]
    loads_end = bool(ends) and all(f[0] < 1e-6 * f[1] and u[0] > EDGE * u[1] for f, u in ends)
    if (rough_response > 4 * rough_load and rough_response > 0.02) or loads_end:
        yield (
            f"Loads are smoother than responses (high waves {100 * rough_load:.2g} % and {100 * rough_response:.2g} %)"
            f"{', and 0 on the sides where responses are not' if loads_end else ''}: load and response swapped?"
        )


def _roughness(fields: Fields, mask: Mask, dimension: int) -> float:
    """Energy of second differences over the most they can be, of values less their mean; < 0 if nothing can be said."""
    values = fields[mask]
    spread = float(np.mean((values - values.mean()) ** 2)) if values.size else 0.0
    if spread <= 1e-24 * float(np.mean(values**2)):
        return 0.0 if values.size else -1.0
    energies = []
    for axis in range(-dimension, 0):
        parts = [np.moveaxis(array, axis, -1) for array in (fields, mask)]
        second = parts[0][..., 2:] - 2 * parts[0][..., 1:-1] + parts[0][..., :-2]
        known = parts[1][..., 2:] & parts[1][..., 1:-1] & parts[1][..., :-2]
        if not known.any():
            return -1.0
        energies.append(float(np.mean(second[known] ** 2)) / 16)
    return float(np.mean(energies)) / spread


def _rms_of_ends(fields: Fields, mask: Mask, axis: int) -> tuple[float, float]:
    """Root mean square at the two ends of an axis, and between them."""
    values, there = (np.moveaxis(array, axis, -1) for array in (fields, mask))
    parts = [(values[..., [0, -1]], there[..., [0, -1]]), (values[..., 1:-1], there[..., 1:-1])]
    edge, inner = (float(np.sqrt(np.mean(v[t] ** 2))) if t.any() else 0.0 for v, t in parts)
    return edge, inner


def _unit(word: str) -> str:
    return "" if word == "1" else f" {word}"

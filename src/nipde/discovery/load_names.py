"""Names of candidate loads in the user's units: where, how large, how much.

patch of 0.20 × 0.20 m centred at (0.30, 0.70) m, 1.2 kPa
well at (120, 340) m, rate −800 m³/d
doublet of 400 m³/d at (120, 340) m and −400 m³/d at (620, 340) m
"""

import numpy as np
from jaxtyping import Float

from nipde.discovery.candidates import Candidates
from nipde.errors import MeasurementError
from nipde.grid import AXES, Grid
from nipde.measurements.measurement import powers
from nipde.measurements.units import Units, factor

#: Positions are given to this share of a spacing.
EXACT = 0.02


def load_name(
    candidates: Candidates, place: int, *, units: Units | None = None, origin: tuple[float, ...] | None = None
) -> str:
    """Of one candidate; `origin` is the position of the first node."""
    grid, effort = candidates.grid, candidates.effort
    if candidates.kind == "waves":
        load = candidates.fields[place, 0].numpy()
        return f"{_half_waves(grid, load)}, rms {_amount(abs(effort), '' if units is None else units.load)}"
    length = "" if units is None else _spaced(units.length)
    total = "" if units is None else units.total(grid.dimension)
    where = candidates.places[place] + (np.zeros(grid.dimension) if origin is None else np.array(origin))
    at = [f"{_positions(position, grid)}{length}" for position in where]
    if candidates.kind == "patches":
        size = f"{' × '.join(_length(one, grid) for one in candidates.size)}{length}"
        return f"patch of {size} centred at {at[0]}, {_amount(effort, '' if units is None else units.load)}"
    if candidates.kind == "doublets":
        return f"doublet of {_amount(effort, total)} at {at[0]} and {_amount(-effort, total)} at {at[1]}"
    if units is not None and _is_rate(total):
        return f"well at {at[0]}, rate {_amount(effort, total)}"
    return f"point load at {at[0]}, total {_amount(effort, total)}"


def _amount(value: float, unit: str) -> str:
    """Three digits; large and small numbers with a power of ten."""
    rounded = float(f"{value:.3g}")
    text = f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:g}"
    if value and not 1e-3 <= abs(value) < 1e6:
        front, power = f"{value:.2e}".split("e")
        text = powers(f"{float(front):g} × 10^{int(power)}")
    return text.replace("-", "−") + _spaced(unit)


def _spaced(unit: str) -> str:
    """A unit after a number; nothing for pure numbers."""
    return "" if unit in ("", "1") else f" {powers(unit).replace('*', '·').replace('delta_degC', '°C')}"


def _positions(position: Float[np.ndarray, " axis"], grid: Grid) -> str:
    words = [_length(x, grid) for x in position]
    return f"({', '.join(words)})" if len(words) > 1 else words[0]


def _length(value: float, grid: Grid) -> str:
    """With as many decimals as all nodes of the grid need, to 2 % of a spacing."""
    decimals = next(
        (count for count in range(-int(np.floor(np.log10(min(grid.spacing)))) + 3)
         if all(np.abs(axis.coordinates - axis.coordinates.round(count)).max() <= EXACT * axis.spacing
                for axis in grid.axes)),
        -int(np.floor(np.log10(min(grid.spacing)))) + 3,
    )  # fmt: skip
    return f"{value:.{decimals}f}".replace("-", "−")


def _is_rate(unit: str) -> bool:
    """Whether it is a volume per time."""
    try:
        factor(unit, "m^3/s", of="a total")
    except MeasurementError:
        return False
    return True


def _half_waves(grid: Grid, load: Float[np.ndarray, "*space"]) -> str:
    """A wave by its number of half waves along every axis."""
    counts = []
    for place, axis in enumerate(grid.axes):
        along = np.moveaxis(load, place, 0).reshape(load.shape[place], -1)
        line = along[:, np.argmax(np.abs(along).max(0))]
        signs = np.sign(line[np.abs(line) > 1e-6 * np.abs(line).max()])
        changes = int(np.count_nonzero(np.diff(signs)))
        counts.append(changes + changes % 2 if axis.boundary.periodic else changes + int(axis.boundary.essential))
    words = [f"{count} half wave{'s' if count > 1 else ''}" if count else "constant" for count in counts]
    return ", ".join(f"{word} along {axis}" for word, axis in zip(words, AXES, strict=False))

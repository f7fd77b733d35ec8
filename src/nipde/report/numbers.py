"""Numbers and units for people: 1,130 m²/d, 1.5 × 10⁻⁷, 0.2 %."""

import numpy as np

from nipde.measurements.measurement import RAISED, powers


def number(value: float, digits: int = 3) -> str:
    """So many significant digits; a dash for what is not a number."""
    if not np.isfinite(value):
        return "—"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        rounded = float(f"{value:.{digits}g}")
        text = f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:.{digits}g}"
        return text.replace("-", "−")
    front, power = f"{value:.{digits - 1}e}".split("e")
    return f"{front}\u00a0×\u00a010{str(int(power)).translate(RAISED)}".replace("-", "−")


def unit_symbol(unit: str) -> str:
    """`N*m^2` as N·m²."""
    return powers(unit).replace("*", "·").replace("delta_degC", "°C")


def unit_text(unit: str, before: str = " ") -> str:
    """A unit after a number or a name; nothing for pure numbers."""
    return "" if unit in ("", "1", "dimensionless") else f"{before}{unit_symbol(unit)}"


def percent(share: float) -> str:
    """Two digits or more, in percent."""
    if not np.isfinite(share):
        return "—"
    return (f"{100 * share:.0f}" if share >= 0.0995 else number(100 * share, 2)) + "\u00a0%"


def capitalised(text: str) -> str:
    """The first letter large, the others as they are: EI stays EI."""
    return text[:1].upper() + text[1:]

"""Where a response was measured: marks of the file, a mask, values that are no numbers, and agreed numbers."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from nipde.errors import MeasurementError

#: A value that fills so much of an array, and is its least or largest, is hardly a measured one.
REPEATED = 0.01
#: Share of exact zeros away from the sides that wants to be looked at.
ZEROS = 0.05


def measured(
    values: Float[np.ndarray, "*shape"], *, missing: Sequence[float] = (), zeros_missing: bool = False
) -> Bool[np.ndarray, "*shape"]:
    """True for finite values that are not agreed to stand for a gap."""
    there = np.isfinite(values)
    for mark in missing:
        # Files in single precision hold -1e30 as -1.00000001e30.
        there &= ~(np.abs(values - mark) <= 1e-6 * abs(mark))
    if zeros_missing:
        there &= values != 0
    return there


def as_mask(values: np.ndarray, *, of: str) -> Bool[np.ndarray, "*shape"]:
    """A stored mask as truth values; only 0 and 1 are understood."""
    if values.dtype == bool:
        return values
    odd = (values != 0) & (values != 1)
    if odd.any():
        raise MeasurementError(
            f"{of} is no mask", expected="1 where a response was measured, else 0",
            got=f"{values[odd].flat[0]} and {int(odd.sum()) - 1} others that are neither",
            remedy="name another array with the key mask",
        )  # fmt: skip
    return values == 1


def first_gap(values: Float[np.ndarray, "*shape"], *, missing: Sequence[float]) -> tuple[int, tuple[int, ...]] | None:
    """How many values are missing, and the index of the first, if any is."""
    gaps = ~measured(values, missing=missing)
    return (int(gaps.sum()), tuple(int(place) for place in np.argwhere(gaps)[0])) if gaps.any() else None


def suspicious(
    values: Float[np.ndarray, "*shape"], *, there: Bool[np.ndarray, "*shape"], inside: Bool[np.ndarray, "*shape"]
) -> list[str]:
    """What looks like unmarked gaps: zeros away from the sides, a repeated least or largest value."""
    found = []
    inner = values[there & inside]
    zeros = float(np.mean(inner == 0)) if inner.size else 0.0
    if zeros > ZEROS and zeros < 1:
        found.append(
            f"{100 * zeros:.0f} % of the values inside are exactly 0: if these are gaps, say zeros_missing = true"
        )
    some = values[there]
    for extreme in {float(some.min()), float(some.max())} if some.size else ():
        count = int(np.sum(some == extreme))
        if extreme and 5 <= count < some.size and count > REPEATED * some.size:
            which = "least" if extreme == some.min() else "largest"
            found.append(
                f"{count} values are exactly {extreme:g}, the {which} of all: "
                f"if these are gaps, say missing = {extreme:g}"
            )
    return found

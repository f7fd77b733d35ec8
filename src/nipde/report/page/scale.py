"""Colour limits of a coefficient: 1 % and 99 % of interior nodes; logarithmic where these are a factor 10 apart.

One bad node would otherwise take all colours for itself.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

#: Share of the nodes left out at either end; at least one of `FEWEST` nodes.
LEFT_OUT, FEWEST = 0.01, 20
#: From this ratio on the scale is logarithmic.
LOGARITHMIC = 10.0
#: A scale spans at least this share of its middle: rounding is not drawn as contrast.
NARROWEST = 0.02
#: Values this share of the scale beyond its ends count as beyond it.
BEYOND = 0.02


@dataclass(frozen=True)
class Scale:
    """From `low` to `high`; values beyond take the colour of the end."""

    low: float
    high: float
    log: bool = False
    #: Whether there are values below and above.
    beyond: tuple[bool, bool] = (False, False)

    @classmethod
    def of(
        cls, values: Float[ndarray, "*field_shown"], *, among: Bool[ndarray, "*shown"], from_zero: bool = False
    ) -> Self:
        """For these values, by those `among` them that are finite; by all of them where none is.

        `from_zero`: a linear scale begins at 0.
        """
        inner = values[..., among]
        sorted_values = np.sort(inner[np.isfinite(inner)])
        if not sorted_values.size:
            sorted_values = np.sort(values[np.isfinite(values)])
        if not sorted_values.size:
            return cls(0.0, 1.0)
        count = len(sorted_values)
        left_out = max(1, round(LEFT_OUT * count)) if count >= FEWEST else 0
        low, high = float(sorted_values[left_out]), float(sorted_values[-1 - left_out])
        middle = (low + high) / 2
        if high - low < NARROWEST * abs(middle):
            low, high = middle - NARROWEST * abs(middle) / 2, middle + NARROWEST * abs(middle) / 2
        log = low > 0 and high > LOGARITHMIC * low
        low = 0.0 if from_zero and not log else low
        shares = cls(low, high, log).shares(values[np.isfinite(values)])
        return cls(low, high, log, (bool((shares < -BEYOND).any()), bool((shares > 1 + BEYOND).any())))

    @property
    def remark(self) -> str:
        """How to read it, for the colour bar; empty for a linear scale that holds all values."""
        parts = ["log scale"] if self.log else []
        ends = (f"{100 * LEFT_OUT:g} %", f"{100 - 100 * LEFT_OUT:g} %")
        if any(self.beyond):
            cut = " and ".join(end for end, beyond in zip(ends, self.beyond, strict=True) if beyond)
            parts.append(f"ends at {cut} of interior nodes")
        return ", ".join(parts)

    def shares(self, values: Float[ndarray, "*any"]) -> Float[ndarray, "*any"]:
        """0 at the low end, 1 at the high one."""
        if not self.log:
            return (values - self.low) / (self.high - self.low or 1.0)
        return np.log(np.maximum(values, np.finfo(float).tiny) / self.low) / np.log(self.high / self.low)

"""Fields as 8-bit colours: code = 254 (value - low) / (high - low); 255, transparent, where there is no value.

On a logarithmic scale, logarithms stand for the values.
"""

import base64
import io
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Self

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from nipde.errors import needing
from nipde.report.page.scale import Scale

#: Codes run from 0 to here.
LAST = 254


@dataclass(frozen=True, eq=False)
class Colours:
    """Fields in 8 bits, each on its scale from `low` to `high`."""

    table: str
    low: Float[ndarray, " field"]
    high: Float[ndarray, " field"]
    codes: UInt8[ndarray, "field *shown"]
    log: bool = False

    @classmethod
    def on(cls, scale: Scale, fields: Float[ndarray, "field *shown"]) -> Self:
        """All fields on one scale."""
        low, high = (np.full(len(fields), end) for end in (scale.low, scale.high))
        return cls("batlow", low, high, encoded(scale.shares(fields)), scale.log)

    @classmethod
    def of(cls, fields: Float[ndarray, "field *shown"], *, table: str, low: ndarray, high: ndarray) -> Self:
        """On given scales; values beyond them take the last colour."""
        space = (..., *(None,) * (fields.ndim - 1))
        width = np.where(high > low, high - low, 1.0)
        return cls(table, low, high, encoded((fields - low[space]) / width[space]))

    @classmethod
    def between(cls, field: Float[ndarray, "*shown"], low: float, high: float) -> Self:
        """One field on a given scale."""
        return cls.of(field[None], table="batlow", low=np.array([low]), high=np.array([high]))

    @classmethod
    def fitted(cls, fields: Float[ndarray, "field *shown"], *, like: ndarray | None = None) -> Self:
        """Every field on a scale of its own, or that of the fields `like` it; around 0 where both signs occur."""
        both = fields if like is None else np.stack([fields, like], 1)
        flat = both.reshape(len(fields), -1)
        flat = np.where(np.isfinite(flat).any(1, keepdims=True), flat, 0.0)
        low, high = np.nanmin(flat, 1), np.nanmax(flat, 1)
        if low.min() < 0 < high.max():
            size = np.maximum(np.abs(low), np.abs(high))
            return cls.of(fields, table="vik", low=-size, high=size)
        return cls.of(fields, table="batlow", low=low, high=high)

    def png(self, number: int, part: tuple[slice, slice] = (slice(None), slice(None))) -> str:
        """A map, or a part of it, as a data address, y upwards, a pixel per node; without a value it is transparent."""
        from matplotlib.image import imsave

        codes, file = self.codes[number][part].T[::-1], io.BytesIO()
        alpha = np.where(codes > LAST, 0, 255).astype(np.uint8)
        imsave(file, np.dstack([colour_table(self.table)[codes], alpha]), format="png")
        return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()

    def to_json(self) -> dict[str, object]:
        """For the script."""
        scales = {name: [float(f"{v:.5g}") for v in getattr(self, name)] for name in ("low", "high")}
        return {
            "table": self.table,
            "log": self.log,
            **scales,
            "codes": base64.b64encode(self.codes.tobytes()).decode(),
        }

    @cached_property
    def shares(self) -> Float[ndarray, "field *shown"]:
        """0 at the low end of the scale, 1 at the high one, NaN where there is no value."""
        return np.where(self.codes > LAST, np.nan, self.codes / LAST)


def encoded(shares: Float[ndarray, "field *shown"]) -> UInt8[ndarray, "field *shown"]:
    """Codes of shares of the scale; those beyond its ends take the colour of the end."""
    codes = np.round(LAST * np.clip(np.nan_to_num(shares), 0, 1))
    return np.where(np.isnan(shares), LAST + 1, codes).astype(np.uint8)


@cache
def colour_table(name: str) -> UInt8[ndarray, "code 3"]:
    """A colour map of Crameri, readable without colour vision; 255 colours and one for no value."""
    with needing("cmcrameri", extra="report"):
        from cmcrameri import cm
    colours = getattr(cm, name)(np.linspace(0, 1, LAST + 1))[:, :3]
    return np.vstack([np.round(255 * colours), np.full((1, 3), 128)]).astype(np.uint8)


def hex_colours(name: str) -> list[str]:
    """The table as #rrggbb."""
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in colour_table(name)]

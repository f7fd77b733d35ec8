"""A figure of the page: fields with their scale, of which one is shown; its images, its line and its text."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from nipde.report.numbers import number, unit_text
from nipde.report.page.colours import LAST, Colours
from nipde.report.page.scale import Scale
from nipde.report.page.view import Plot, View, css

#: Where an image of all nodes lies in its frame.
WHOLE = "left:0;top:0;width:100%;height:100%"


@dataclass(frozen=True, eq=False)
class Figure:
    """Several fields, of which one is shown; the script may change which."""

    view: View
    colours: Colours
    name: str
    title: str
    quantity: str
    unit: str
    shown: int = 0
    width: float = 360.0
    caption: str = ""
    #: Words for the ends of the scale, instead of numbers.
    ends: tuple[str, str] | None = None
    marker: tuple[float, float] | None = None
    hatched: str = ""
    hatched_means: str = ""
    #: An SVG path filled behind the line, in 1D.
    area: str = ""
    #: Whether the selected point is shown here.
    follows: bool = False
    #: Colours with a meaning of their own, instead of a scale.
    swatches: tuple[tuple[str, str], ...] = ()
    #: How the colours were chosen, where not from the smallest to the largest value.
    scale: Scale | None = None
    #: Where sensors are, in the drawing; the caption names them.
    sensors: tuple[tuple[float, float], ...] = ()
    #: Where those are that were left out as faulty.
    faulty: tuple[tuple[float, float], ...] = ()
    #: Whether the selected point stays hidden until it is moved.
    quiet: bool = False
    #: First node and distance of nodes per axis, where not all are drawn.
    first: tuple[int, ...] = (0, 0)
    step: tuple[int, ...] = (1, 1)

    @property
    def plot(self) -> Plot:
        """Its frame."""
        return self.view.plot(self.width)

    @property
    def small(self) -> bool:
        """Too small for ticks."""
        return self.width < 300

    @property
    def blank(self) -> bool:
        """Whether there is no value at all."""
        return bool((self.colours.codes[self.shown] > LAST).all())

    @property
    def low(self) -> str:
        """The low end of the scale."""
        return number(float(self.colours.low[self.shown]))

    @property
    def high(self) -> str:
        """The high end of the scale."""
        return number(float(self.colours.high[self.shown]))

    @property
    def middle(self) -> str:
        """The middle of the scale."""
        low, high = float(self.colours.low[self.shown]), float(self.colours.high[self.shown])
        return number(math.sqrt(low * high) if self.colours.log else (low + high) / 2)

    @property
    def signs(self) -> tuple[str, str]:
        """Before the ends of the scale, where values lie beyond them."""
        below, above = (False, False) if self.scale is None else self.scale.beyond
        return "≤ " if below else "", "≥ " if above else ""

    @property
    def scale_name(self) -> str:
        """Quantity and unit for the colour bar, with how the colours were chosen."""
        remark = "" if self.scale is None else self.scale.remark
        return f"{self.quantity}{unit_text(self.unit, ' in ')}{remark and ', '}{remark}"

    @property
    def images(self) -> list[tuple[str, str, str]]:
        """Maps of the panels: place of the frame and of the image in it as CSS, and the image as a data address."""
        made = []
        for panel in self.plot.panels:
            first, last = zip(*map(self._kept, panel.first, panel.counts, self.first, self.step), strict=True)
            if any(a == b for a, b in zip(first, last, strict=True)):
                continue
            inner = WHOLE
            if max(self.step) > 1:
                shares = [
                    ((start + step * a + (1 - step) / 2 - before) / n, (b - a) * step / n)
                    for start, step, a, b, before, n in zip(
                        self.first, self.step, first, last, panel.first, panel.counts, strict=True
                    )
                ]
                (left, width), (bottom, height) = shares
                inner = css(left=left, bottom=bottom, width=width, height=height)
            part = slice(first[0], last[0]), slice(first[1], last[1])
            made.append((self.plot.box(panel), inner, self.colours.png(self.shown, part)))
        return made

    @staticmethod
    def _kept(first: int, count: int, start: int, step: int) -> tuple[int, int]:
        """The first of the drawn nodes in a panel, and the first after it."""
        low, high = (math.ceil((node - start) / step) for node in (first, first + count))
        return max(0, low), high

    @property
    def line(self) -> str:
        """The field as an SVG path, in 1D."""
        return line(self.view, self.plot, self.colours.shares[self.shown], self.first[0], self.step[0])

    @property
    def alt(self) -> str:
        """Text alternative."""
        kind = "Line" if self.view.dimension == 1 else "Map"
        if self.blank:
            return f"{self.title}: no values. {self.caption}"
        if self.swatches:
            return f"{kind}: {self.title}. {'; '.join(text for _, text in self.swatches)}."
        scale = f"{self.quantity} from {self.low} to {self.high}{unit_text(self.unit)}"
        if self.scale is not None and self.scale.remark:
            scale += f", {self.scale.remark}"
        return f"{kind}: {self.title}. {scale}. {self.caption}".strip()


def line(view: View, plot: Plot, shares: Float[ndarray, " node"], first: int = 0, step: int = 1) -> str:
    """A path through shares of the frame's height, broken where there is no value."""
    pieces, pen = [], "M"
    for index, share in enumerate(shares):
        if np.isnan(share):
            pen = "M"
            continue
        x, y = view.position(plot, (first + step * index,), float(share))
        pieces.append(f"{pen}{x} {y}")
        pen = "L"
    return "".join(pieces)

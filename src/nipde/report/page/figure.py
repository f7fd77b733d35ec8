"""One figure of the page: a field on its frame, with its scale, its unit and its text alternative."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from nipde.report.numbers import number, unit_text
from nipde.report.page.colours import LAST, Colours
from nipde.report.page.view import Plot, View

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
    def image(self) -> str:
        """The map as a data address."""
        return self.colours.png(self.shown)

    @property
    def image_box(self) -> str:
        """Where the map lies in its frame, as CSS."""
        if max(self.step) == 1:
            return WHOLE
        sides = zip(self.first, self.step, self.view.shape, self.colours.codes.shape[1:], strict=True)
        (left, width), (bottom, height) = (((first + (1 - step) / 2) / n, m * step / n) for first, step, n, m in sides)
        shares = {"left": left, "bottom": bottom, "width": width, "height": height}
        return ";".join(f"{name}:{100 * share:.4f}%" for name, share in shares.items())

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

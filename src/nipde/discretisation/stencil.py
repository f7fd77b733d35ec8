"""Symmetric matrices of 3^d diagonals on tensors, one of every system of a batch, and their products without copies.

    A = D^½ Ã D^½,    (Ã u)(x) = u(x) + Σ_o w_o(x) u(x + o)

Nodes are the unknown ones. Of two opposite offsets o one is held: w_o(x) belongs to x and to x + o.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.discretisation.tensor_links import OnLinks, tensor_links
from nipde.grid import Grid

Offset = tuple[int, ...]
#: Slices of fields: nodes, and their neighbours.
Box = tuple[tuple[Any, ...], tuple[Any, ...]]
Fields = Float[Tensor, "system pair *space"]
Nodes = Float[Tensor, "system 1 *space"]


@dataclass(frozen=True)
class Line:
    """The unknown nodes along one axis."""

    nodes: int
    spacing: float
    periodic: bool
    #: The first node that a coarser line keeps: the second one where the value before the first is given.
    start: int

    @property
    def coarser(self) -> "Line":
        """Every second node."""
        return Line(len(range(self.start, self.nodes, 2)), 2 * self.spacing, self.periodic, self.start)

    @property
    def shortest(self) -> bool:
        """Whether there is no coarser line; on a ring of two, left and right neighbour would be one."""
        return self.nodes < (5 if self.periodic else 3)

    def neighbours(self, offset: int, first: int, step: int) -> list[tuple[slice, slice]]:
        """Nodes first, first + step, … and those `offset` from them, where they exist; a ring closes."""
        chosen, found = range(first, self.nodes, step), []
        inside = [node for node in chosen if 0 <= node + offset < self.nodes]
        if inside:
            low, high = inside[0], inside[-1] + 1
            found.append((slice(low, high, step), slice(low + offset, high + offset, step)))
        end = self.nodes - 1 if offset > 0 else 0
        if self.periodic and offset and end in chosen:
            other = (end + offset) % self.nodes
            found.append((slice(end, end + 1), slice(other, other + 1)))
        return found


@lru_cache(maxsize=4096)
def boxes(
    lines: tuple[Line, ...], offset: Offset, first: Offset | None = None, step: Offset | None = None
) -> tuple[Box, ...]:
    """Nodes first, first + step, … of every axis (all by default), and those `offset` from them."""
    starts, steps = first or (0,) * len(lines), step or (1,) * len(lines)
    along = [line.neighbours(*numbers) for line, *numbers in zip(lines, offset, starts, steps, strict=True)]
    return tuple(((..., *(one[0] for one in some)), (..., *(one[1] for one in some))) for some in product(*along))


@dataclass(frozen=True, eq=False)
class Stencil:
    """A: its diagonal, and A(x, x + o) at x; what has no neighbour at x + o is not read."""

    lines: tuple[Line, ...]
    diagonal: Nodes
    couplings: dict[Offset, Nodes]

    @classmethod
    def of(cls, grid: Grid, conductances: OnLinks) -> "Stencil":
        """Of -∇·(b ∇u) in double precision, from the conductances of the links."""
        conductances = tuple(c.double() for c in conductances)
        inner: tuple[Any, ...] = (..., *grid.inner)
        lines = []
        for axis in grid.axes:
            given = axis.boundary.essential
            lines.append(Line(axis.nodes - 2 * given, axis.spacing, axis.boundary.periodic, int(given)))
        diagonal = tensor_links(grid, conductances[0]).scattered(conductances, conductances)[inner].unsqueeze(1)
        couplings = {}
        for place, conductance in enumerate(conductances):
            cells = conductance.new_zeros((len(conductance), *grid.shape))
            cells.narrow(place + 1, 0, conductance.shape[place + 1]).copy_(conductance)
            couplings[tuple(int(place == other) for other in range(grid.dimension))] = -cells[inner].unsqueeze(1)
        return cls(tuple(lines), diagonal, couplings)

    @property
    def unknowns(self) -> int:
        """Nodes of one system."""
        return self.diagonal[0].numel()

    def entries(self) -> dict[Offset, Nodes]:
        """A(x, x + o) of all offsets but 0; 0 where there is no such node."""
        found = {}
        for offset, coupling in self.couplings.items():
            ahead, behind = torch.zeros_like(coupling), torch.zeros_like(coupling)
            for here, there in boxes(self.lines, offset):
                ahead[here], behind[there] = coupling[here], coupling[here]
            found[offset], found[tuple(-one for one in offset)] = ahead, behind
        return found

    def matrix(self) -> Float[Tensor, "system unknown unknown"]:
        """All entries."""
        size = self.unknowns
        numbers = torch.arange(size, device=self.diagonal.device).view(self.diagonal.shape[2:])
        flat = torch.diag_embed(self.diagonal.flatten(1)).flatten(1)
        for offset, coupling in self.couplings.items():
            for here, there in boxes(self.lines, offset):
                first, second = numbers[here].flatten(), numbers[there].flatten()
                for places in (first * size + second, second * size + first):
                    flat.index_add_(1, places, coupling[here].flatten(1))
        return flat.view(-1, size, size)


class ScaledProduct:
    """Ã of a stencil, in any precision."""

    def __init__(self, stencil: Stencil, dtype: torch.dtype) -> None:
        scale = stencil.diagonal.rsqrt()
        #: Nodes, their neighbours, and what couples them.
        self.terms: list[tuple[Any, Any, Tensor]] = []
        for offset, coupling in stencil.couplings.items():
            for here, there in boxes(stencil.lines, offset):
                self.terms.append((here, there, (coupling[here] * scale[here] * scale[there]).to(dtype)))

    def __call__(self, field: Fields) -> Fields:
        """Ã u."""
        return self._added(field.clone(), field, sign=1)

    def residual(self, right: Fields, field: Fields) -> Fields:
        """r - Ã u."""
        return self._added(right - field, field, sign=-1)

    def _added(self, image: Fields, field: Fields, *, sign: int) -> Fields:
        """Neighbours, one pass each."""
        for here, there, weight in self.terms:
            image[here].addcmul_(weight, field[there], value=sign)
            image[there].addcmul_(weight, field[here], value=sign)
        return image

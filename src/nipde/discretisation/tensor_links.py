"""Differences D, means M and their transposes on tensors, without index tables: the torch side of `links`.

Values on links come as one tensor per axis, with one entry fewer than cells along that axis, or as many where it is
periodic.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nipde.grid import Grid
from nipde.spectral.basis import basis_of

#: One tensor per axis.
OnLinks = tuple[Float[Tensor, "*batch_link"], ...]


class TensorLinks:
    """Differences, means and their transposes on one grid; see `tensor_links`."""

    def __init__(self, grid: Grid, dtype: torch.dtype, device: torch.device) -> None:
        self.grid, self.dimension = grid, grid.dimension
        with torch.inference_mode(False):  # they are kept, and may be used in training later
            like = torch.zeros((), dtype=dtype, device=device)
            #: Of every cell.
            self.volume: Float[Tensor, "*space"] = like.new_tensor(grid.weights)
            #: 1 where the value of a cell is unknown, 0 where it is given; and the flat numbers of the unknown cells.
            self.is_unknown: Float[Tensor, "*space"] = like.new_tensor(grid.unknown)
            self.unknown: Int[Tensor, " unknown"] = self.is_unknown.flatten().nonzero().squeeze(1)
            #: Area over distance of every link, and the area alone.
            areas = [
                (grid.weights / grid.along(place, axis.weights)).take([0], place)
                for place, axis in enumerate(grid.axes)
            ]
            self.factors = tuple(like.new_tensor(a / axis.spacing) for a, axis in zip(areas, grid.axes, strict=True))
            self.areas = tuple(map(like.new_tensor, areas))
            #: Eigenvalues of the discrete -Δ on the modes of the grid's transform.
            self.eigenvalues: Float[Tensor, "*mode"] = like.new_tensor(_eigenvalues(grid))

    def first(self, field: Float[Tensor, "*batch_space"], axis: int) -> Float[Tensor, "*batch_link"]:
        """The value in the first cell of every link of an axis."""
        place = axis - self.dimension
        return field if self._periodic(axis) else field.narrow(place, 0, field.shape[place] - 1)

    def second(self, field: Float[Tensor, "*batch_space"], axis: int) -> Float[Tensor, "*batch_link"]:
        """The value in the second cell of every link of an axis."""
        place = axis - self.dimension
        return field.roll(-1, place) if self._periodic(axis) else field.narrow(place, 1, field.shape[place] - 1)

    def difference(self, field: Float[Tensor, "*batch_space"]) -> OnLinks:
        """u_first - u_second."""
        return tuple(self.first(field, axis) - self.second(field, axis) for axis in self._axes)

    def means(self, field: Float[Tensor, "*batch_space"]) -> OnLinks:
        """(u_first + u_second) / 2."""
        return tuple((self.first(field, axis) + self.second(field, axis)) / 2 for axis in self._axes)

    def divergence(self, links: OnLinks) -> Float[Tensor, "*batch_space"]:
        """What leaves every cell, minus what enters it: the transpose of `difference`."""
        return self.scattered(links, links, sign=-1)

    def gathered(self, links: OnLinks) -> Float[Tensor, "*batch_space"]:
        """The transpose of `means`."""
        return self.scattered(links, links) / 2

    def scattered(
        self, firsts: Sequence[Tensor], seconds: Sequence[Tensor], *, sign: int = 1, axis: int = 0
    ) -> Float[Tensor, "*batch_space"]:
        """Sum in every cell of `firsts` of the links it begins and `sign` times `seconds` of those it ends.

        Tensors are those of the axes from `axis` on; they are added in place, one pass each.
        """
        lead = firsts[0].shape[: -self.dimension]
        total = firsts[0].new_zeros((*lead, *self.grid.shape))
        for number, (first, second) in enumerate(zip(firsts, seconds, strict=True), axis):
            place = number - self.dimension
            if self._periodic(number):
                total.add_(first).add_(second.roll(1, place), alpha=sign)
            else:
                count = first.shape[place]
                total.narrow(place, 0, count).add_(first)
                total.narrow(place, 1, count).add_(second, alpha=sign)
        return total

    def laplacian(self, field: Float[Tensor, "*batch_space"]) -> Float[Tensor, "*batch_space"]:
        """A of the coefficient 1 in every cell: Dᵀ(factor D u), the integral of -Δu over the cell."""
        drops = zip(self.difference(field), self.factors, strict=True)
        return self.divergence(tuple(drop * factor for drop, factor in drops))

    def slopes(self, field: Float[Tensor, "*batch_space"]) -> list[Float[Tensor, "*batch_space"]]:
        """(u_left - u_right)/distance along every axis, the mean over both sides of a cell; at an end the one side."""
        slopes = []
        for axis, drop in enumerate(self.difference(field)):
            one = drop.new_ones(drop.shape[-self.dimension :])
            count, both = (self.scattered([q], [q], axis=axis) for q in (one, drop))
            slopes.append(both / count / self.grid.axes[axis].spacing)
        return slopes

    def numbers(self, axis: int) -> tuple[Int[Tensor, " link"], Int[Tensor, " link"]]:
        """Flat numbers of the two cells of every link of an axis."""
        cells = torch.arange(self.grid.size, device=self.volume.device).reshape(self.grid.shape)
        return self.first(cells, axis).reshape(-1), self.second(cells, axis).reshape(-1)

    @property
    def _axes(self) -> range:
        return range(self.dimension)

    def _periodic(self, axis: int) -> bool:
        return self.grid.axes[axis].boundary.periodic


@lru_cache(maxsize=16)
def _tensor_links(grid: Grid, dtype: torch.dtype, device: torch.device) -> TensorLinks:
    return TensorLinks(grid, dtype, device)


def tensor_links(grid: Grid, like: Tensor) -> TensorLinks:
    """Of a grid, in the precision and place of a tensor; built once."""
    return _tensor_links(grid, like.dtype, like.device)


def _eigenvalues(grid: Grid) -> Float[np.ndarray, "*mode"]:
    total = np.zeros(())
    for axis in grid.axes:
        turns = basis_of(axis).wavenumbers * axis.spacing
        total = total[..., None] + (2 - 2 * np.cos(turns)) / axis.spacing**2
    return total

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
from torch.nn.functional import pad

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
            self.factors = tuple(like.new_tensor(_area(grid, axis) / grid.axes[axis].spacing) for axis in self._axes)
            self.areas = tuple(like.new_tensor(_area(grid, axis)) for axis in self._axes)
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

    def to_first(self, links: Float[Tensor, "*batch_link"], axis: int) -> Float[Tensor, "*batch_space"]:
        """The transpose of `first`."""
        return links if self._periodic(axis) else pad(links, self._beside(axis, after=True))

    def to_second(self, links: Float[Tensor, "*batch_link"], axis: int) -> Float[Tensor, "*batch_space"]:
        """The transpose of `second`."""
        if self._periodic(axis):
            return links.roll(1, axis - self.dimension)
        return pad(links, self._beside(axis, after=False))

    def difference(self, field: Float[Tensor, "*batch_space"]) -> OnLinks:
        """u_first - u_second."""
        return tuple(self.first(field, axis) - self.second(field, axis) for axis in self._axes)

    def means(self, field: Float[Tensor, "*batch_space"]) -> OnLinks:
        """(u_first + u_second) / 2."""
        return tuple((self.first(field, axis) + self.second(field, axis)) / 2 for axis in self._axes)

    def divergence(self, links: OnLinks) -> Float[Tensor, "*batch_space"]:
        """What leaves every cell, minus what enters it: the transpose of `difference`."""
        return self._scattered(links, -1)

    def gathered(self, links: OnLinks) -> Float[Tensor, "*batch_space"]:
        """The transpose of `means`."""
        return self._scattered(links, 1) / 2

    def around(self, values: Sequence[Tensor]) -> Float[Tensor, "*batch_space"]:
        """Sum over the links of every cell: the diagonal of Dᵀ diag(values) D."""
        return torch.stack([self.to_first(q, axis) + self.to_second(q, axis) for axis, q in enumerate(values)]).sum(0)

    def laplacian(self, field: Float[Tensor, "*batch_space"]) -> Float[Tensor, "*batch_space"]:
        """A of the coefficient 1 in every cell: Dᵀ(factor D u), the integral of -Δu over the cell."""
        return self.divergence(
            tuple(drop * factor for drop, factor in zip(self.difference(field), self.factors, strict=True))
        )

    def slopes(self, field: Float[Tensor, "*batch_space"]) -> list[Float[Tensor, "*batch_space"]]:
        """(u_left - u_right)/distance along every axis, the mean over both sides of a cell; at an end the one side."""
        slopes = []
        for axis, drop in enumerate(self.difference(field)):
            one = drop.new_ones(drop.shape[-self.dimension :])
            count = self.to_first(one, axis) + self.to_second(one, axis)
            both = self.to_first(drop, axis) + self.to_second(drop, axis)
            slopes.append(both / count / self.grid.axes[axis].spacing)
        return slopes

    def numbers(self, axis: int) -> tuple[Int[Tensor, " link"], Int[Tensor, " link"]]:
        """Flat numbers of the two cells of every link of an axis."""
        cells = torch.arange(self.grid.size, device=self.volume.device).reshape(self.grid.shape)
        return self.first(cells, axis).reshape(-1), self.second(cells, axis).reshape(-1)

    def _scattered(self, links: OnLinks, sign: int) -> Float[Tensor, "*batch_space"]:
        """Every link to its first cell, and times `sign` to its second: written in place, one pass each."""
        lead = links[0].shape[: -self.dimension]
        total = links[0].new_zeros((*lead, *self.grid.shape))
        for axis, q in enumerate(links):
            place = axis - self.dimension
            if self._periodic(axis):
                total.add_(q).add_(q.roll(1, place), alpha=sign)
            else:
                count = q.shape[place]
                total.narrow(place, 0, count).add_(q)
                total.narrow(place, 1, count).add_(q, alpha=sign)
        return total

    @property
    def _axes(self) -> range:
        return range(self.dimension)

    def _periodic(self, axis: int) -> bool:
        return self.grid.axes[axis].boundary.periodic

    def _beside(self, axis: int, *, after: bool) -> list[int]:
        """Amounts for `pad`, which counts axes from the last."""
        amounts = [0, 0] * self.dimension
        amounts[2 * (self.dimension - 1 - axis) + int(after)] = 1
        return amounts


@lru_cache(maxsize=16)
def _tensor_links(grid: Grid, dtype: torch.dtype, device: torch.device) -> TensorLinks:
    return TensorLinks(grid, dtype, device)


def tensor_links(grid: Grid, like: Tensor) -> TensorLinks:
    """Of a grid, in the precision and place of a tensor; built once."""
    return _tensor_links(grid, like.dtype, like.device)


def _area(grid: Grid, axis: int) -> Float[np.ndarray, "*link"]:
    """Areas broadcast along their own axis."""
    area = np.ones((1,) * grid.dimension)
    for place, other in enumerate(grid.axes):
        if place != axis:
            area = area * other.weights.reshape([-1 if here == place else 1 for here in range(grid.dimension)])
    return area


def _eigenvalues(grid: Grid) -> Float[np.ndarray, "*mode"]:
    total = np.zeros(())
    for axis in grid.axes:
        turns = basis_of(axis).wavenumbers * axis.spacing
        total = total[..., None] + (2 - 2 * np.cos(turns)) / axis.spacing**2
    return total

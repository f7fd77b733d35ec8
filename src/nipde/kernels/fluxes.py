"""What passes the faces of a grid, on tensors: drops and means from face to face, outflow of every cell, and back.

The torch side of `nipde.physics.faces`, without index tables. Faces come as one tensor per axis, with one entry fewer
than nodes along that axis, or as many where it is periodic.
"""

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from nipde.grid import Grid
from nipde.spectral.basis import basis_of

#: One tensor per axis.
Faces = tuple[Float[Tensor, "*batch_face"], ...]


class Fluxes:
    """Differences, means and their transposes on one grid; see `fluxes_of`."""

    def __init__(self, grid: Grid, dtype: torch.dtype, device: torch.device) -> None:
        self.grid, self.dimension = grid, grid.dimension
        with torch.inference_mode(False):  # they are kept, and may be used in training later
            like = torch.zeros((), dtype=dtype, device=device)
            self.weights: Float[Tensor, "*space"] = like.new_tensor(grid.weights)
            #: 1 where the boundary leaves the value open, else 0; and the flat numbers of those nodes.
            self.free: Float[Tensor, "*space"] = like.new_tensor(grid.unknown)
            self.open: Int[Tensor, " free"] = self.free.flatten().nonzero().squeeze(1)
            #: Area of every face over the distance between its nodes, and the area alone.
            self.shapes = tuple(like.new_tensor(_area(grid, axis) / grid.axes[axis].spacing) for axis in self._axes)
            self.areas = tuple(like.new_tensor(_area(grid, axis)) for axis in self._axes)
            #: Eigenvalues of the discrete -Δ on the modes of the grid's transform.
            self.eigenvalues: Float[Tensor, "*mode"] = like.new_tensor(_eigenvalues(grid))

    def first(self, field: Float[Tensor, "*batch_space"], axis: int) -> Float[Tensor, "*batch_face"]:
        """The value before every face of an axis."""
        place = axis - self.dimension
        return field if self._periodic(axis) else field.narrow(place, 0, field.shape[place] - 1)

    def second(self, field: Float[Tensor, "*batch_space"], axis: int) -> Float[Tensor, "*batch_face"]:
        """The value behind every face of an axis."""
        place = axis - self.dimension
        return field.roll(-1, place) if self._periodic(axis) else field.narrow(place, 1, field.shape[place] - 1)

    def to_first(self, faces: Float[Tensor, "*batch_face"], axis: int) -> Float[Tensor, "*batch_space"]:
        """The transpose of `first`."""
        return faces if self._periodic(axis) else pad(faces, self._beside(axis, after=True))

    def to_second(self, faces: Float[Tensor, "*batch_face"], axis: int) -> Float[Tensor, "*batch_space"]:
        """The transpose of `second`."""
        if self._periodic(axis):
            return faces.roll(1, axis - self.dimension)
        return pad(faces, self._beside(axis, after=False))

    def drops(self, field: Float[Tensor, "*batch_space"]) -> Faces:
        """u_first - u_second."""
        return tuple(self.first(field, axis) - self.second(field, axis) for axis in self._axes)

    def means(self, field: Float[Tensor, "*batch_space"]) -> Faces:
        """(u_first + u_second) / 2."""
        return tuple((self.first(field, axis) + self.second(field, axis)) / 2 for axis in self._axes)

    def outflow(self, faces: Faces) -> Float[Tensor, "*batch_space"]:
        """What leaves every cell, minus what enters it: the transpose of `drops`."""
        return self._scattered(faces, -1)

    def gathered(self, faces: Faces) -> Float[Tensor, "*batch_space"]:
        """The transpose of `means`."""
        return self._scattered(faces, 1) / 2

    def numbers(self, axis: int) -> tuple[Int[Tensor, " face"], Int[Tensor, " face"]]:
        """Flat numbers of the two nodes of every face."""
        nodes = torch.arange(self.grid.size, device=self.weights.device).reshape(self.grid.shape)
        return self.first(nodes, axis).reshape(-1), self.second(nodes, axis).reshape(-1)

    def _scattered(self, faces: Faces, sign: int) -> Float[Tensor, "*batch_space"]:
        """Every face to its first node, and times `sign` to its second: written in place, one pass each."""
        lead = faces[0].shape[: -self.dimension]
        total = faces[0].new_zeros((*lead, *self.grid.shape))
        for axis, q in enumerate(faces):
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
def _fluxes(grid: Grid, dtype: torch.dtype, device: torch.device) -> Fluxes:
    return Fluxes(grid, dtype, device)


def fluxes_of(grid: Grid, like: Tensor) -> Fluxes:
    """Of a grid, in the precision and place of a tensor; built once."""
    return _fluxes(grid, like.dtype, like.device)


def _area(grid: Grid, axis: int) -> Float[np.ndarray, "*face"]:
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

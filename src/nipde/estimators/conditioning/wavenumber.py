"""Learned functions of the physical wavenumber: the same parameters on every grid, box and boundary."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from nipde.grid import Grid
from nipde.spectral.transform import transform

#: Wavenumbers outside this band, in units of π over the box, are treated like its ends: nothing was learned there.
BAND = (1.0, 36.0)
#: Numbers between the layers.
HIDDEN = 24


class WaveFunction(nn.Module):
    """`count` functions of |k| and of the direction of k up to the box's own symmetries; zero at the start."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.inner = nn.Linear(3, HIDDEN)
        self.middle = nn.Linear(HIDDEN, HIDDEN)
        self.outer = nn.Linear(HIDDEN, count)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, grid: Grid) -> Float[Tensor, "count *mode"]:
        """Values at the modes of the grid's transform."""
        features = wave_features(grid, self.outer.weight)
        return self.outer(gelu(self.middle(gelu(self.inner(features))))).movedim(-1, 0)


def wave_features(grid: Grid, like: Tensor) -> Float[Tensor, "*mode 3"]:
    """log |k| twice, straight and squared, and Σ k_a⁴ / |k|⁴: 1 along an axis, 1/dimension along a diagonal."""
    waves = transform(grid)
    size = float(grid.volume) ** (1 / grid.dimension)
    squares = torch.zeros((), dtype=like.dtype, device=like.device)
    fourth = squares
    for basis in waves.bases:
        along = like.new_tensor(basis.wavenumbers * size / torch.pi).square()
        squares, fourth = squares.unsqueeze(-1) + along, fourth.unsqueeze(-1) + along.square()
    squares = squares.clamp(min=1e-6)
    direction = torch.where(fourth > 0, fourth / squares.square(), torch.ones_like(fourth))
    log = squares.sqrt().clamp(*BAND).log()
    return torch.stack([log - 2, (log - 2).square() / 2, direction], -1)


def inverse_square(grid: Grid, like: Tensor) -> Float[Tensor, "*mode"]:
    """1/|k|², the kernel of -Δ on its modes; the constant, which -Δ does not see, is treated like the longest wave."""
    squares = transform(grid).squared_wavenumbers(like)
    longest = squares[squares > 0].min()
    return 1 / torch.where(squares > 0, squares, longest)

"""What the priors of Conditioned NIPS share: one method, and two networks that are the same on every grid.

`PriorNet` maps numbers at the nodes to fields; its convolutions act on a latent grid that spans the box, so they see
physical distances. `WaveFunction` is a learned function of the physical wavenumber.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, avg_pool2d, avg_pool3d, gelu, interpolate

from nipde.constants import constant
from nipde.context.pairs import Pairs
from nipde.estimators.conditioned.whitening import Whitened
from nipde.grid import Grid
from nipde.kernels.base import CoefficientPosterior
from nipde.kernels.matrix_free import MatrixFreeKernel
from nipde.kernels.nonlinear import NonlinearPrior
from nipde.spectral.basis import Basis
from nipde.spectral.partition import Partition
from nipde.spectral.slab_transform import SlabTransform
from nipde.spectral.transform import transform

#: Nodes per axis of the latent grid.
LATENT = 21
CONVOLUTIONS: tuple[type[nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
INTERPOLATIONS = ("linear", "bilinear", "trilinear")
POOLS = (avg_pool1d, avg_pool2d, avg_pool3d)
#: Wavenumbers outside this band, in units of π over the box, are treated like its ends: nothing was learned there.
BAND = (1.0, 36.0)
#: Width of the hidden layers of a WaveFunction.
WAVE_HIDDEN = 24


@dataclass(frozen=True, eq=False)
class PriorEstimate:
    """Of a batch of systems with one axis, in physical units of load and response."""

    #: The linear part, on the box of the whitened pairs or on the box of the pairs.
    kernel: MatrixFreeKernel
    #: For every system, its coefficient to its posterior; empty where no coefficient is inferred.
    posteriors: tuple[Callable[[Tensor], CoefficientPosterior], ...] = ()
    #: The whole predictor where it is not linear.
    nonlinear: NonlinearPrior | None = None


class Prior(Protocol):
    """Pairs to what is known of their systems before conditioning."""

    @property
    def linear(self) -> bool:
        """Whether responses are linear in the load."""

    @property
    def piecewise_constant(self) -> bool | None:
        """Whether the coefficient has a piecewise-constant prior; None where no coefficient is inferred."""

    def __call__(self, whitened: Whitened, pairs: Pairs) -> PriorEstimate:
        """Whitened pairs live on a box of volume 1; `pairs` are the same in their own lengths."""


class PriorNet(nn.Module):
    """`inputs` numbers per node in, `outputs` out; near zero at the start."""

    def __init__(self, dimension: int, *, inputs: int, outputs: int, channels: int) -> None:
        super().__init__()
        convolution = CONVOLUTIONS[dimension - 1]
        self.dimension = dimension
        self.into = nn.ModuleList([convolution(inputs, channels, 1), convolution(channels, channels, 1)])
        same = partial(convolution, channels, channels, padding_mode="replicate")
        self.near = nn.ModuleList(same(width, padding=width // 2) for width in (3, 5, 5))
        self.out = nn.ModuleList([convolution(2 * channels, channels, 1), convolution(channels, outputs, 1)])
        with torch.no_grad():
            for parameter in self.out[-1].parameters():
                parameter.mul_(0.1)

    def forward(
        self, numbers: Float[Tensor, "system input *rows"], partition: Partition
    ) -> Float[Tensor, "system output *rows"]:
        """Fields at the rows of the input; the latent grid is the same on every process."""
        local = numbers
        for layer in self.into:
            local = gelu(layer(local))
        around = _to_latent(local, (LATENT,) * self.dimension, partition)
        for layer in self.near:
            around = gelu(layer(around))
        joined = torch.cat([local, _from_latent(around, partition)], 1)
        return self.out[1](gelu(self.out[0](joined)))


class WaveFunction(nn.Module):
    """`count` functions of |k| and of the direction of k up to the box's own symmetries; zero at the start."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.inner = nn.Linear(3, WAVE_HIDDEN)
        self.middle = nn.Linear(WAVE_HIDDEN, WAVE_HIDDEN)
        self.outer = nn.Linear(WAVE_HIDDEN, count)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, waves: SlabTransform) -> Float[Tensor, "count *mode"]:
        """Values at the modes of a transform."""
        features = waves.cut(wave_features(waves.grid, self.outer.weight).movedim(-1, 0)).movedim(0, -1)
        return self.outer(gelu(self.middle(gelu(self.inner(features))))).movedim(-1, 0)


def wave_features(grid: Grid, like: Tensor) -> Float[Tensor, "*mode 3"]:
    """log |k| twice, straight and squared, and Σ k_a⁴ / |k|⁴: 1 along an axis, 1/dimension along a diagonal."""
    waves = transform(grid)
    size = float(grid.volume) ** (1 / grid.dimension)
    squares = torch.zeros((), dtype=like.dtype, device=like.device)
    fourth = squares
    for basis in waves.bases:
        along = constant(_wavenumbers, basis, size, like=like).square()
        squares, fourth = squares.unsqueeze(-1) + along, fourth.unsqueeze(-1) + along.square()
    squares = squares.clamp(min=1e-6)
    direction = torch.where(fourth > 0, fourth / squares.square(), torch.ones_like(fourth))
    log = squares.sqrt().clamp(*BAND).log()
    return torch.stack([log - 2, (log - 2).square() / 2, direction], -1)


def _wavenumbers(basis: Basis, size: float) -> Float[np.ndarray, " mode"]:
    return basis.wavenumbers * size / np.pi


def _to_latent(field: Float[Tensor, "system channel *rows"], shape: Sequence[int], partition: Partition) -> Tensor:
    """A field of all processes, resampled: a sum over their rows."""
    if partition.group is None:
        return _resampled(field, shape)
    matrix = _resampling(partition.grid.shape[0], shape[0], field)[:, partition.rows]
    along = _resampled(field, (field.shape[2], *shape[1:]))
    return partition.total(torch.einsum("nr,scr...->scn...", matrix, along))


def _from_latent(field: Float[Tensor, "system channel *space"], partition: Partition) -> Tensor:
    """A field that all processes have, resampled at the rows of this one."""
    if partition.group is None:
        return _resampled(field, partition.grid.shape)
    matrix = _resampling(field.shape[2], partition.grid.shape[0], field)[partition.rows]
    return _resampled(torch.einsum("rn,scn...->scr...", matrix, field), partition.shape)


def _resampling(old: int, new: int, like: Tensor) -> Float[Tensor, "new old"]:
    """The matrix of `_resampled` along one axis."""
    return _resampled(torch.eye(old, dtype=like.dtype, device=like.device)[None], (new,))[0].mT


def _resampled(field: Float[Tensor, "system channel *space"], shape: Sequence[int]) -> Tensor:
    """Linear in physical coordinates; fine grids are averaged first, so that nothing between two nodes is lost."""
    dimension = field.ndim - 2
    if tuple(field.shape[2:]) == tuple(shape):
        return field
    steps = [1 if old == new else (old - 1) // (new - 1) for old, new in zip(field.shape[2:], shape, strict=True)]
    widths = [max(1, step) // 2 * 2 + 1 for step in steps]
    if max(widths) > 1:
        pads = [width // 2 for width in widths]
        pool = POOLS[dimension - 1]
        field = pool(field, tuple(widths), stride=1, padding=tuple(pads), count_include_pad=False)
    return interpolate(field, tuple(shape), mode=INTERPOLATIONS[dimension - 1], align_corners=True)

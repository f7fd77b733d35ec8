"""From local numbers to fields: a pointwise network beside small convolutions on a latent grid of fixed resolution.

The latent grid spans the box whatever the grid of the data, so the convolutions see physical distances.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, avg_pool2d, avg_pool3d, gelu, interpolate

#: Nodes per axis of the latent grid.
LATENT = 21
CONVOLUTIONS: tuple[type[nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
INTERPOLATIONS = ("linear", "bilinear", "trilinear")
POOLS = (avg_pool1d, avg_pool2d, avg_pool3d)


class PriorNet(nn.Module):
    """`inputs` numbers per node in, `outputs` out; near zero at the start."""

    def __init__(self, dimension: int, *, inputs: int, outputs: int, channels: int) -> None:
        super().__init__()
        convolution = CONVOLUTIONS[dimension - 1]
        self.dimension = dimension
        self.into = nn.ModuleList([convolution(inputs, channels, 1), convolution(channels, channels, 1)])
        self.near = nn.ModuleList(
            [
                convolution(channels, channels, width, padding=width // 2, padding_mode="replicate")
                for width in (3, 5, 5)
            ]
        )
        self.out = nn.ModuleList([convolution(2 * channels, channels, 1), convolution(channels, outputs, 1)])
        with torch.no_grad():
            for parameter in self.out[-1].parameters():
                parameter.mul_(0.1)

    def forward(self, numbers: Float[Tensor, "system input *space"]) -> Float[Tensor, "system output *space"]:
        """Fields on the grid of the input."""
        local = numbers
        for layer in self.into:
            local = gelu(layer(local))
        shape = local.shape[2:]
        around = _resampled(local, (LATENT,) * self.dimension)
        for layer in self.near:
            around = gelu(layer(around))
        joined = torch.cat([local, _resampled(around, shape)], 1)
        return self.out[1](gelu(self.out[0](joined)))


def _resampled(field: Float[Tensor, "system channel *space"], shape: Sequence[int]) -> Tensor:
    """Linear in physical coordinates; fine grids are averaged first, so that nothing between two nodes is lost."""
    dimension = field.ndim - 2
    if tuple(field.shape[2:]) == tuple(shape):
        return field
    widths = [max(1, (old - 1) // (new - 1)) // 2 * 2 + 1 for old, new in zip(field.shape[2:], shape, strict=True)]
    if max(widths) > 1:
        pads = [width // 2 for width in widths]
        pool = POOLS[dimension - 1]
        field = pool(field, tuple(widths), stride=1, padding=tuple(pads), count_include_pad=False)
    return interpolate(field, tuple(shape), mode=INTERPOLATIONS[dimension - 1], align_corners=True)

"""A small U-Net: linear reconstructions of log σ in, logarithms of the phases' probabilities out, up to a constant."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

#: Resistive, background, conductive.
PHASES = (-1, 0, 1)
#: Nodes that make one at the finest level, and groups of a normalisation.
FOLD, GROUPS = 2, 4
#: Images are padded to multiples of this.
MULTIPLE = 4 * FOLD


@dataclass(frozen=True)
class SegmentationConfig:
    """Channels of the input, and of the three levels of the network."""

    images: int
    widths: tuple[int, int, int] = (20, 40, 60)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**asdict(self), "widths": list(self.widths)}


class SegmentationNetwork(nn.Module):
    """Three levels, each half as fine as the one before."""

    def __init__(self, config: SegmentationConfig) -> None:
        super().__init__()
        self.config = config
        fine, middle, coarse = config.widths
        self.enter = nn.Sequential(_Block(inputs(config.images) * FOLD**2, fine), _Block(fine, fine))
        self.down = nn.Sequential(_Block(fine, middle), _Block(middle, middle))
        self.lowest = nn.Sequential(_Block(middle, coarse), _Block(coarse, coarse), _Block(coarse, coarse))
        self.up = nn.Sequential(_Block(coarse + middle, middle), _Block(middle, middle))
        self.leave = _Block(middle + fine, fine)
        self.readout = nn.Conv2d(fine, len(PHASES) * FOLD**2, 1)

    def forward(self, channels: Float[Tensor, "test channel x y"]) -> Float[Tensor, "test phase x y"]:
        """What `features` gives to logits."""
        *_, rows, columns = channels.shape
        padded = functional.pad(channels, (0, -columns % MULTIPLE, 0, -rows % MULTIPLE))
        fine = self.enter(functional.pixel_unshuffle(padded, FOLD))
        middle = self.down(functional.avg_pool2d(fine, 2))
        coarse = self.lowest(functional.avg_pool2d(middle, 2))
        middle = self.up(torch.cat([_doubled(coarse), middle], dim=1))
        fine = self.leave(torch.cat([_doubled(middle), fine], dim=1))
        return functional.pixel_shuffle(self.readout(fine), FOLD)[..., :rows, :columns]


def inputs(images: int) -> int:
    """Channels that `features` makes of so many images."""
    return 2 * images + 4


def features(
    images: Float[Tensor, "test image x y"], sensitivity: Float[Tensor, "x y"], inside: Float[Tensor, "x y"]
) -> Float[Tensor, "test channel x y"]:
    """Images over their size and compressed, that size, the sensitivity, and where a node is."""
    count, _, rows, columns = images.shape
    size = images.flatten(1).std(dim=1)[:, None, None, None] + 1e-3
    x, y = torch.meshgrid(torch.linspace(-1, 1, rows), torch.linspace(-1, 1, columns), indexing="ij")
    seen = torch.log(sensitivity / sensitivity.max() + 1e-4) * inside / 4
    fixed = torch.stack([x, y, seen]).expand(count, -1, -1, -1)
    return torch.cat([images / size, torch.asinh(images), size.log().expand(-1, 1, rows, columns), fixed], dim=1)


class _Block(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(before, after, 3, padding=1)
        self.normalisation = nn.GroupNorm(GROUPS, after)

    def forward(self, channels: Tensor) -> Tensor:
        return functional.silu(self.normalisation(self.convolution(channels)))


def _doubled(channels: Tensor) -> Tensor:
    return functional.interpolate(channels, scale_factor=2)

"""AFNO, the paper's other baseline: token mixing in Fourier space by one small complex network for all modes.

    V^l = V^{l-1} + F⁻¹ S( W₂ relu(W₁ F V^{l-1} + b₁) + b₂ ),   S = soft shrinkage by 0.01

W₁, W₂ are complex d × d, shared by all modes and fields. AFNO itself returns fields, not a kernel; to meet the same
contract its last state (g, v) is read as factors, K(x, y) = (1/√d) v(x) · g(y). The paper prints 10,200 parameters
per layer, which this has; the rest of its size is not documented there.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import relu, softshrink

from nipde.estimators.paper.token_model import Factors, TokenConfig, TokenModel

SHRINKAGE = 0.01


class ComplexLinear(nn.Module):
    """z W + b for complex z, stored as real pairs and applied as one real product."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, width, width) / width)
        self.bias = nn.Parameter(torch.zeros(2, width))

    def forward(self, values: Float[Tensor, "*mode 2 channel"]) -> Float[Tensor, "*mode 2 channel"]:
        """(x + iy)(A + iB) = (xA - yB) + i(xB + yA)."""
        real, imaginary = self.weight
        matrix = torch.cat([torch.cat([real, imaginary], 1), torch.cat([-imaginary, real], 1)])
        return (values.flatten(-2) @ matrix).unflatten(-1, self.bias.shape) + self.bias


class AFNOLayer(nn.Module):
    """One mixing step on fields of the given shape."""

    def __init__(self, pairs: int) -> None:
        super().__init__()
        self.inner, self.outer = ComplexLinear(pairs), ComplexLinear(pairs)

    def forward(self, fields: Float[Tensor, "sample field *space pair"]) -> Float[Tensor, "sample field *space pair"]:
        """Residual update; FFTs are unitary."""
        axes = tuple(range(2, fields.ndim - 1))
        modes = torch.view_as_real(torch.fft.rfftn(fields, dim=axes, norm="ortho")).transpose(-1, -2)
        mixed = softshrink(self.outer(relu(self.inner(modes))), SHRINKAGE).transpose(-1, -2).contiguous()
        shape = fields.shape[2:-1]
        return fields + torch.fft.irfftn(torch.view_as_complex(mixed), s=shape, dim=axes, norm="ortho")


@dataclass(frozen=True)
class AFNOConfig(TokenConfig):
    """The fields that all token models have."""

    kind = "afno"


class AFNO(TokenModel):
    """L = `layers` mixing steps behind the input norm and one bias per token."""

    Config = AFNOConfig

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.token_bias = nn.Parameter(torch.zeros(self.tokens, 1))
        self.layers = nn.ModuleList(AFNOLayer(self.pairs) for _ in range(self.config.layers))

    def factors(self, tokens: Float[Tensor, "sample token pair"]) -> Factors:
        """The refined responses, scaled by 1/√d, and the refined loads."""
        fields = (self.input_norm(tokens) + self.token_bias).unflatten(1, (self.fields, *self.grid.shape))
        for layer in self.layers:
            fields = layer(fields)
        loads, responses = fields.flatten(1, -2).chunk(2, dim=1)
        return responses / sqrt(self.pairs), loads

"""What the paper's models share: pairs become tokens, a network refines them, and two factors make the kernel.

A token is one component of f or u at one node, with its d values over the pairs: T = 2 · components · nodes tokens,
f first, then u. The first norm runs over tokens and pairs together, as in the paper.
"""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from math import prod, sqrt
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.context.scaling import Scaling
from nipde.errors import PairsError
from nipde.estimators.base import Model, ModelConfig
from nipde.estimators.paper.input_norm import Gains, InputNorm
from nipde.grid import Grid
from nipde.kernels.low_rank import LowRankKernel
from nipde.spectral.full_precision import full_precision

#: Of a kernel.
Factors = tuple[Float[Tensor, "sample token rank"], Float[Tensor, "sample token rank"]]


@dataclass(frozen=True)
class TokenConfig(ModelConfig):
    """d = `pairs`, L = `layers`; `components` of a load and of a response; `gains` of the first norm: `InputNorm`."""

    grid: Grid
    _: KW_ONLY
    pairs: int
    layers: int
    components: int = 1
    gains: Gains = "token"


class TokenModel(Model, ABC):
    """A network for one grid and a fixed number of pairs; its kernel is linear in the load and of low rank."""

    Config: ClassVar[type[TokenConfig]] = TokenConfig
    config: TokenConfig
    exportable = True

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.grid, self.pairs, self.components = self.config.grid, self.config.pairs, self.config.components
        #: Scalar fields: every component of f, then every component of u.
        self.fields = 2 * self.components
        self.tokens = self.fields * self.grid.size
        self.input_norm = InputNorm(self.tokens, self.pairs, gains=self.config.gains)

    @abstractmethod
    def factors(self, tokens: Float[Tensor, "sample token pair"]) -> Factors:
        """a_r(x) on the response's tokens and b_r(y) on the load's: K(x, y) = Σ_r a_r(x) b_r(y)."""

    def forward(self, pairs: Pairs) -> LowRankKernel:
        """The kernel in physical units: pairs are divided by their own root mean square, the kernel is scaled back."""
        return self.kernel_of(pairs, Scaling.of(pairs))

    def kernel_of(self, pairs: Pairs, scaling: Scaling | None = None) -> LowRankKernel:
        """The kernel with the network's input scaled by `scaling`; without one, numbers are taken as they are."""
        self._check(pairs)
        with full_precision(pairs.loads):  # long sums do not survive half precision
            left, right = self.factors(self.tokens_of(pairs, scaling))
        left = left / self.grid.volume  # networks see a box of volume 1, whatever the unit of length
        if scaling is not None:
            left = left * scaling.kernel.reshape(-1, 1, 1).to(left)
        return LowRankKernel(pairs.grid, *(self._as_fields(factor, pairs) for factor in (left, right)))

    def tokens_of(self, pairs: Pairs, scaling: Scaling | None = None) -> Float[Tensor, "sample token pair"]:
        """Fields side by side, in the network's precision (never below float32: long sums do not survive it)."""
        return self.tokens_from(pairs.loads, pairs.responses, scaling)

    def tokens_from(
        self, loads: Tensor, responses: Tensor, scaling: Scaling | None = None
    ) -> Float[Tensor, "sample token pair"]:
        """The same from fields `(*batch, pair, component, *space)` of the whole grid or of some of its rows."""
        first = next(self.parameters())
        precision = torch.promote_types(first.dtype, torch.float32)
        wide = torch.promote_types(loads.dtype, torch.float32)
        space = self.grid.dimension + 1
        fields = [field.to(wide).reshape(-1, self.pairs, prod(field.shape[-space:])) for field in (loads, responses)]
        if scaling is not None:
            units = (scaling.load, scaling.response)
            fields = [field / unit.to(field).reshape(-1, 1, 1) for field, unit in zip(fields, units, strict=True)]
        return torch.cat([field.mT for field in fields], dim=1).to(device=first.device, dtype=precision)

    def attention_scale(self, channels: int) -> float:
        """dx / √d_k: every node stands for an equal share of a volume of 1."""
        return 1 / self.grid.size / sqrt(channels)

    def _as_fields(self, factor: Float[Tensor, "sample token rank"], pairs: Pairs) -> Tensor:
        """(*batch, rank, component, *space), a view."""
        fields = factor.mT.reshape(*pairs.batch, factor.shape[-1], self.components, *self.grid.shape)
        return fields.to(device=pairs.loads.device, dtype=torch.promote_types(pairs.loads.dtype, torch.float32))

    def _check(self, pairs: Pairs) -> None:
        who = type(self).__name__
        pairs.refuse_mask(who)
        if pairs.grid != self.grid:
            raise PairsError(
                f"this {who} belongs to another grid", expected=str(self.grid), got=str(pairs.grid),
                remedy="interpolate the pairs, or build a model for their grid",
            )  # fmt: skip
        if pairs.count != self.pairs or pairs.components != (self.components,) * 2:
            raise PairsError(
                f"this {who} reads a fixed context", expected=f"{self.pairs} pairs of {self.components} component(s)",
                got=f"{pairs.count} of {pairs.components[0]} and {pairs.components[1]}",
                remedy="pairs.take(range(d)) selects some of them",
            )  # fmt: skip

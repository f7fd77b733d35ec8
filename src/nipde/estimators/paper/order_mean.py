"""The mean of a network's kernels over orders of the pairs.

A problem has no order of its pairs; the paper's networks answer every order differently. Under loads like those of
training the mean of eight kernels errs less than each. It is of low rank again, and how far they are apart is seen
without a true response.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.estimators.paper.token_model import TokenModel
from nipde.kernels.base import Fields
from nipde.kernels.low_rank import LowRankKernel


@dataclass(frozen=True)
class OrderMean:
    """A network under so many orders, the first as the pairs come; time and rank of the kernel grow with them."""

    model: TokenModel
    orders: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.orders < 1:
            raise PairsError(expected="1 order or more", got=self.orders, remedy="8 take most of what there is to gain")
        if not isinstance(self.model, TokenModel):
            raise PairsError(
                expected="a network that answers every order of the pairs differently: NIPS, NAO or AFNO",
                got=type(self.model).__name__, remedy="use it as it is",
            )  # fmt: skip

    def __call__(self, pairs: Pairs) -> LowRankKernel:
        """The mean kernel."""
        return mean_of(self.kernels(pairs))

    def kernels(self, pairs: Pairs) -> list[LowRankKernel]:
        """One of every order."""
        generator = torch.Generator().manual_seed(self.seed)
        more = (torch.randperm(pairs.count, generator=generator).tolist() for _ in range(self.orders - 1))
        return [self.model(pairs), *(self.model(pairs.take(order)) for order in more)]


def mean_of(kernels: list[LowRankKernel]) -> LowRankKernel:
    """All terms side by side."""
    term = -kernels[0].grid.dimension - 2
    left, right = (torch.cat(factors, dim=term) for factors in zip(*((k.left, k.right) for k in kernels), strict=True))
    return LowRankKernel(kernels[0].grid, left / len(kernels), right)


def distance_apart(kernels: list[LowRankKernel], loads: Fields) -> Float[Tensor, "*batch pair"]:
    """Root mean square distance of the answers to their mean, over its norm."""
    grid, middle = kernels[0].grid, mean_of(kernels).predict(loads)

    def squares(fields: Fields) -> Float[Tensor, "*batch pair"]:
        return grid.norm(fields).square().sum(-1)

    apart = torch.stack([squares(kernel.predict(loads) - middle) for kernel in kernels]).mean(0)
    return (apart / squares(middle)).sqrt()

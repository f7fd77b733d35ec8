"""Noise of the responses to be measured: absolute, the same for all loads, or relative to each response."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from nipde.errors import PairsError


@dataclass(frozen=True)
class Sensor:
    """White noise, as a share of a root mean square: that of the responses to the queries, whatever the load; or, if
    `relative`, that of the measured responses themselves, so that larger loads gain nothing.
    """

    share: float
    relative: bool = False

    def __post_init__(self) -> None:
        if not self.share >= 0:
            raise PairsError(expected="a share of noise >= 0", got=self.share, remedy="0.01 is one per cent")

    def noise(
        self, responses: Float[Tensor, "*batch pair rest"], query_responses: Float[Tensor, "*batch query rest"]
    ) -> Float[Tensor, "*batch"]:
        """Standard deviation of the noise, from the responses to the applied loads and to the queries."""
        return self.share * (responses if self.relative else query_responses).square().mean((-2, -1)).sqrt()

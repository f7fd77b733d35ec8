"""How noisy responses are: the same sensor for all loads, or one that is set anew for those it measures."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from nipde.errors import PairsError


@dataclass(frozen=True)
class Sensor:
    """White noise, a share of a root mean square: of responses to the queries, whatever the load; or, `relative`, of
    the very responses it is on, so that louder loads gain nothing.
    """

    share: float
    relative: bool = False

    def __post_init__(self) -> None:
        if not self.share >= 0:
            raise PairsError(expected="a share of noise >= 0", got=self.share, remedy="0.01 is one per cent")

    def level(
        self, responses: Float[Tensor, "*batch pair rest"], answers: Float[Tensor, "*batch query rest"]
    ) -> Float[Tensor, "*batch"]:
        """Standard deviation of the noise, from responses to the loads applied and to the queries."""
        return self.share * (responses if self.relative else answers).square().mean((-2, -1)).sqrt()

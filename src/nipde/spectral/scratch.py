"""Memory for results that nobody keeps: written again and again, it stays in the processor's cache."""

from jaxtyping import Float
from torch import Tensor


class Scratch:
    """One tensor per name and shape. Give one to calls that follow each other, never to two at the same time."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], Tensor] = {}

    def __call__(self, name: str, like: Tensor, *shape: int) -> Float[Tensor, "*shape"]:
        """Whatever the last user of this name left there."""
        key = (name, shape, like.dtype, like.device)
        if key not in self._kept:
            self._kept[key] = like.new_empty(shape)
        return self._kept[key]

"""SOAP (Vyas et al. 2024): Adam in the eigenbasis of Shampoo's two factors, which are followed by power iteration."""

from typing import Any

import torch
from torch import Tensor

#: Steps between two updates of a basis, and the longest side of a matrix that has one.
EVERY, LONGEST = 10, 1000


class SOAP(torch.optim.Optimizer):
    """Matrices in their eigenbases; anything else is a row, of which a basis has the length of the row."""

    def __init__(self, params: Any, *, lr: float = 3e-3, momentum: float = 0.95, second_moment: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "second_moment": second_moment})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """The first step only measures the bases."""
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad if parameter.dim() == 2 else parameter.grad.reshape(1, -1)
                move = self._move(self.state[parameter], gradient, group["momentum"], group["second_moment"])
                parameter.sub_(move.view_as(parameter), alpha=group["lr"])

    def _move(self, kept: dict[str, Any], gradient: Tensor, momentum: float, decay: float) -> Tensor:
        sides = gradient.shape
        if not kept:
            kept.update(step=0, mean=torch.zeros_like(gradient), square=torch.zeros_like(gradient))
            kept["factors"] = [gradient.new_zeros(n, n) if 1 < n <= LONGEST else None for n in sides]
        for factor, product in zip(kept["factors"], (gradient @ gradient.T, gradient.T @ gradient), strict=True):
            if factor is not None:
                factor.lerp_(product, 1 - decay)
        if "bases" not in kept:
            kept["bases"] = [None if factor is None else torch.linalg.eigh(factor)[1] for factor in kept["factors"]]
            return torch.zeros_like(gradient)
        kept["step"] += 1
        kept["mean"].lerp_(gradient, 1 - momentum)
        kept["square"].lerp_(_turned(gradient, kept["bases"]).square(), 1 - decay)
        mean = _turned(kept["mean"], kept["bases"]) / (1 - momentum ** kept["step"])
        square = kept["square"] / (1 - decay ** kept["step"])
        move = _turned(mean / (square.sqrt() + 1e-8), [None if one is None else one.T for one in kept["bases"]])
        if kept["step"] % EVERY == 0:
            for side, factor in enumerate(kept["factors"]):
                if factor is not None:
                    kept["bases"][side] = torch.linalg.qr(factor @ kept["bases"][side])[0]
        return move


def _turned(matrix: Tensor, bases: list[Tensor | None]) -> Tensor:
    left, right = bases
    matrix = matrix if left is None else left.T @ matrix
    return matrix if right is None else matrix @ right

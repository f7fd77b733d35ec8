"""Conjugate gradients on batches of tensors: to a tolerance, for matrices that are not symmetric, or a few exact steps.

`conjugate_gradients` and `bicgstab` treat every right-hand side on its own: sums run over the trailing `axes`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from nipde.errors import SolverError

#: Steps at most, and the residual to reach in units of the precision's smallest step.
STEPS, TOLERANCE = 500, 30.0
Apply = Callable[[Tensor], Tensor]


def conjugate_gradients(
    matrix: Apply, right: Tensor, *, preconditioner: Apply, axes: tuple[int, ...], tolerance: float | None = None
) -> Tensor:
    """Solution for a symmetric positive definite matrix, to the precision of the right-hand side unless given."""
    solution, residual = torch.zeros_like(right), right
    direction = scaled = preconditioner(residual)
    energy = size = (residual * scaled).sum(axes, keepdim=True)
    for _ in range(STEPS):
        image = matrix(direction)
        amount = _ratio(energy, (direction * image).sum(axes, keepdim=True))
        solution = torch.addcmul(solution, amount, direction)
        residual = torch.addcmul(residual, amount, image, value=-1)
        scaled = preconditioner(residual)
        before, energy = energy, (residual * scaled).sum(axes, keepdim=True)
        if _small(energy, size, tolerance or rounding(right.dtype)):
            return solution
        direction = torch.addcmul(scaled, _ratio(energy, before), direction)
    raise _unsolved(energy, size)


def bicgstab(matrix: Apply, right: Tensor, *, preconditioner: Apply, axes: tuple[int, ...]) -> Tensor:
    """The same for any matrix, preconditioned from the right."""
    solution, residual, shadow, direction = torch.zeros_like(right), right, right, right
    overlap = size = (right * right).sum(axes, keepdim=True)
    for _ in range(STEPS):
        scaled = preconditioner(direction)
        image = matrix(scaled)
        amount = _ratio(overlap, (shadow * image).sum(axes, keepdim=True))
        half = residual - amount * image
        smoother = preconditioner(half)
        second = matrix(smoother)
        weight = _ratio((second * half).sum(axes, keepdim=True), (second * second).sum(axes, keepdim=True))
        solution = solution + amount * scaled + weight * smoother
        residual = half - weight * second
        energy = (residual * residual).sum(axes, keepdim=True)
        if _small(energy, size, rounding(right.dtype)):
            return solution
        before, overlap = overlap, (shadow * residual).sum(axes, keepdim=True)
        direction = residual + _ratio(overlap, before) * _ratio(amount, weight) * (direction - weight * image)
    raise _unsolved(energy, size)


def reorthogonalised_steps(matrix: Apply, right: Tensor, *, diagonal: Tensor, iterations: int) -> Tensor:
    """A fixed number of conjugate gradient steps, preconditioned with the diagonal; one system per leading index.

    Every residual is made orthogonal to all before it: steps that stop early otherwise magnify rounding, and mixing
    the pairs would show.
    """
    axes = tuple(range(1, right.ndim))
    tiny = torch.finfo(right.dtype).tiny
    solution, residual = torch.zeros_like(right), right
    scaled = residual / diagonal
    direction, energy = scaled, (residual * scaled).sum(axes, keepdim=True)
    earlier, duals = right.new_empty(2, len(right), iterations, right[0].numel())
    for number in range(iterations):
        earlier[:, number] = residual.flatten(1)
        duals[:, number] = (scaled / energy.clamp(min=tiny)).flatten(1)
        image = matrix(direction)
        amount = energy / (direction * image).sum(axes, keepdim=True).clamp(min=tiny)
        solution, residual = solution + amount * direction, residual - amount * image
        shares = duals[:, : number + 1] @ residual.flatten(1).unsqueeze(-1)
        residual = residual - (earlier[:, : number + 1].mT @ shares).view_as(residual)
        scaled = residual / diagonal
        before, energy = energy, (residual * scaled).sum(axes, keepdim=True)
        direction = scaled + energy / before.clamp(min=tiny) * direction
    return solution


def _ratio(over: Tensor, under: Tensor) -> Tensor:
    """0/0 is 0: a right-hand side of zero, or one that is solved already."""
    return torch.where(under == 0, 0.0, over / torch.where(under == 0, 1.0, under))


def rounding(precision: torch.dtype) -> float:
    """The residual to reach in a precision."""
    return TOLERANCE * torch.finfo(precision).eps


def _small(energy: Tensor, size: Tensor, tolerance: float) -> bool:
    return bool((energy <= tolerance**2 * size).all())


def _unsolved(energy: Tensor, size: Tensor) -> SolverError:
    worst = float(_ratio(energy, size).clamp(min=0).sqrt().max())
    return SolverError(
        f"not solved in {STEPS} steps", expected="a residual near the precision", got=f"{worst:.1e}",
        remedy="look for coefficients of extreme contrast",
    )  # fmt: skip

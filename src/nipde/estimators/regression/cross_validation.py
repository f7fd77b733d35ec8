"""Generalised cross-validation: the penalty λ that minimises Σ_j E_j ρ_j² / (Σ_j n_j ρ_j)², ρ_j = λ/(g_j + λ).

A ridge fit leaves the share ρ_j of the data along the j-th eigenvector of its Gram matrix unexplained. The numerator
is the energy that is left, the denominator the square of the dimensions that are left: leaving out one datum after the
other, with the datum's own influence replaced by the mean one. Nothing need be known about the noise.
"""

import torch
from jaxtyping import Float
from torch import Tensor

#: Decades around the mean eigenvalue that are searched, and how finely at first.
DECADES = (-12.0, 4.0)
STEPS = 129
#: Scores this close are equal; the smallest penalty then wins: with one pair, every penalty scores the same.
TIE = 1e-10
BISECTIONS = 48

Terms = Float[Tensor, "*batch term"]


def cross_validated_penalty(eigenvalues: Terms, energies: Terms, dimensions: Terms) -> Float[Tensor, "*batch"]:
    """λ in the unit of the eigenvalues, one per system: a sweep finds the valley, bisection its floor."""
    eigenvalues, energies, dimensions = (
        part.detach().clamp(min=0).unsqueeze(-2) for part in (eigenvalues, energies, dimensions)
    )
    unit = (eigenvalues * dimensions).sum(-1) / dimensions.sum(-1)
    sweep = torch.linspace(*DECADES, STEPS, dtype=unit.dtype, device=unit.device)
    left, free, _ = _left(unit * 10**sweep, eigenvalues, energies, dimensions)
    score = left / free**2
    # argmax finds the first of the best: the smallest penalty among equals
    best = (score <= score.amin(-1, keepdim=True) * (1 + TIE)).to(torch.uint8).argmax(-1, keepdim=True)
    low, high = sweep[(best - 1).clamp(min=0)], sweep[(best + 1).clamp(max=STEPS - 1)]
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        rising = _left(unit * 10**middle, eigenvalues, energies, dimensions)[2] > 0
        low, high = torch.where(rising, low, middle), torch.where(rising, middle, high)
    exponent = torch.where(best == 0, sweep[0], (low + high) / 2)
    return (unit * 10**exponent).squeeze(-1)


def _left(
    penalty: Float[Tensor, "*batch step"], eigenvalues: Tensor, energies: Tensor, dimensions: Tensor
) -> tuple[Float[Tensor, "*batch step"], Float[Tensor, "*batch step"], Float[Tensor, "*batch step"]]:
    """Σ E ρ², Σ n ρ, and the score's derivative by log λ, times something positive; dρ/d log λ = ρ (1 - ρ)."""
    total = eigenvalues + penalty[..., None]
    share, taken = penalty[..., None] / total, eigenvalues / total
    left, free = (energies * share**2).sum(-1), (dimensions * share).sum(-1)
    slope = (energies * share**2 * taken).sum(-1) * free - (dimensions * share * taken).sum(-1) * left
    return left, free, slope

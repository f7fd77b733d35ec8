"""Solves with the outflow matrix of a balance law given by tensors, differentiable in its coefficients.

    A u = Dᵀ(c D u) + Dᵀ(t M u):  conductances c and transports t of the faces, drops D u, means M u

Small grids: dense factors. Large ones: conjugate gradients (BiCGStab where there is transport), each step O(N log N),
preconditioned with s Φ λ⁻¹ Φᵀ s, s = b^(-1/2). The derivative needs one more solve, with Aᵀ, no memory of steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.errors import SolverError
from nipde.grid import Grid
from nipde.kernels.fluxes import Faces, Fluxes, fluxes_of
from nipde.spectral.transform import transform

#: Free nodes up to which dense factors are cheaper than steps (a factor is shared by all pairs).
DENSE_NODES = 1100
#: Steps at most, and the residual to reach in units of the precision's smallest step.
STEPS, TOLERANCE = 500, 30.0
Apply = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class LocalOperator:
    """A for every system of a batch with one axis; `scale` is b^(-1/2) at the nodes, for the preconditioner."""

    grid: Grid
    conductances: Faces
    transports: Faces | None
    scale: Float[Tensor, "system *space"]

    @property
    def fluxes(self) -> Fluxes:
        """Of the grid, like the coefficients."""
        return fluxes_of(self.grid, self.scale)

    def __call__(self, field: Float[Tensor, "system pair *space"], *, transposed: bool = False) -> Tensor:
        """A u, or Aᵀ u; nothing on clamped nodes."""
        fluxes = self.fluxes
        drops = fluxes.drops(field)
        flows = [c.unsqueeze(1) * drop for c, drop in zip(self.conductances, drops, strict=True)]
        back: Tensor | float = 0.0
        if self.transports is not None:
            carried = [t.unsqueeze(1) for t in self.transports]
            if transposed:
                back = fluxes.gathered(tuple(t * drop for t, drop in zip(carried, drops, strict=True)))
            else:
                means = fluxes.means(field)
                flows = [flow + t * mean for flow, t, mean in zip(flows, carried, means, strict=True)]
        return (fluxes.outflow(tuple(flows)) + back) * fluxes.free

    def matrix(self) -> Float[Tensor, "system free free"]:
        """A on the free nodes, all values."""
        size, systems = self.grid.size, len(self.scale)
        flat = self.scale.new_zeros(systems, size * size)
        zeros = [torch.zeros_like(c) for c in self.conductances]
        for axis, (c, t) in enumerate(zip(self.conductances, self.transports or zeros, strict=True)):
            first, second = self.fluxes.numbers(axis)
            c, half = c.reshape(systems, -1), t.reshape(systems, -1) / 2
            for row, (own, other) in ((first, (c + half, half - c)), (second, (c - half, -c - half))):
                neighbour = second if row is first else first
                flat.index_add_(1, row * size + row, own).index_add_(1, row * size + neighbour, other)
        free = self.fluxes.open
        return flat.view(systems, size, size)[:, free[:, None], free]

    def detached(self) -> "LocalOperator":
        """The same numbers, without gradients."""
        conductances = tuple(c.detach() for c in self.conductances)
        transports = None if self.transports is None else tuple(t.detach() for t in self.transports)
        return replace(self, conductances=conductances, transports=transports, scale=self.scale.detach())


def solve(
    operator: LocalOperator, moments: Float[Tensor, "system pair *space"], *, transposed: bool = False
) -> Float[Tensor, "system pair *space"]:
    """A⁻¹ or A⁻ᵀ of cell integrals, zero on clamped nodes; differentiable in moments, conductances and transports."""
    faces = [*operator.conductances, *(operator.transports or ())]
    apply: Callable[..., Tensor] = _Solve.apply
    return apply(moments, operator.detached(), transposed, *faces)


class _Solve(torch.autograd.Function):
    """dL/dc = -Σ_pairs D w · D u and dL/dt = -Σ_pairs D w · M u, with w = A⁻ᵀ dL/du."""

    @staticmethod
    def forward(context: Any, moments: Tensor, operator: LocalOperator, transposed: bool, *faces: Tensor) -> Tensor:
        context.inverse = _inverse(operator)
        context.operator, context.transposed = operator, transposed
        found = context.inverse(moments.detach(), transposed)
        context.save_for_backward(found)
        return found

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (found,) = context.saved_tensors
        operator, fluxes = context.operator, context.operator.fluxes
        adjoint = context.inverse(gradients[0], not context.transposed)
        into, out = (adjoint, found) if context.transposed else (found, adjoint)
        drops = fluxes.drops(out)
        of_faces = [-(a * b).sum(1) for a, b in zip(drops, fluxes.drops(into), strict=True)]
        if operator.transports is not None:
            of_faces += [-(a * b).sum(1) for a, b in zip(drops, fluxes.means(into), strict=True)]
        return adjoint, None, None, *of_faces


def _inverse(operator: LocalOperator) -> Callable[[Tensor, bool], Tensor]:
    if len(operator.fluxes.open) <= DENSE_NODES:
        return _dense_inverse(operator)
    return lambda moments, transposed: _iterated(operator, moments, transposed)


def _dense_inverse(operator: LocalOperator) -> Callable[[Tensor, bool], Tensor]:
    """Factors in double precision, whatever the data's: they are a small part of the work."""
    free = operator.fluxes.open
    matrix = operator.matrix().double()
    symmetric = operator.transports is None
    factors: Any = torch.linalg.cholesky(matrix) if symmetric else torch.linalg.lu_factor(matrix)

    def inverse(moments: Tensor, transposed: bool) -> Tensor:
        columns = moments.flatten(2)[..., free].mT.double()
        if symmetric:
            found = torch.cholesky_solve(columns, factors)
        elif transposed:
            found = torch.linalg.lu_solve(*factors, columns, adjoint=True)
        else:
            found = torch.linalg.lu_solve(*factors, columns)
        flat = moments.new_zeros(moments.flatten(2).shape)
        flat[..., free] = found.mT.to(moments)
        return flat.view(moments.shape)

    return inverse


def _iterated(operator: LocalOperator, moments: Tensor, transposed: bool) -> Tensor:
    modes, fluxes = transform(operator.grid), operator.fluxes
    scale = operator.scale.unsqueeze(1) * fluxes.free

    def approximate(residual: Tensor) -> Tensor:
        return modes.synthesis(modes.analysis(residual / fluxes.weights * scale) / fluxes.eigenvalues) * scale

    def apply(field: Tensor) -> Tensor:
        return operator(field, transposed=transposed)

    step = _conjugate_gradients if operator.transports is None else _stabilised_gradients
    return step(apply, approximate, moments * fluxes.free, axes=tuple(range(-operator.grid.dimension, 0)))


def _conjugate_gradients(apply: Apply, approximate: Apply, right: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    found, residual = torch.zeros_like(right), right
    direction = better = approximate(residual)
    energy = size = (residual * better).sum(axes, keepdim=True)
    for _ in range(STEPS):
        image = apply(direction)
        amount = _ratio(energy, (direction * image).sum(axes, keepdim=True))
        found, residual = found + amount * direction, residual - amount * image
        better = approximate(residual)
        before, energy = energy, (residual * better).sum(axes, keepdim=True)
        if _small(energy, size):
            return found
        direction = better + _ratio(energy, before) * direction
    raise _unsolved(energy, size)


def _stabilised_gradients(apply: Apply, approximate: Apply, right: Tensor, *, axes: tuple[int, ...]) -> Tensor:
    """BiCGStab, preconditioned from the right."""
    found, residual, shadow, direction = torch.zeros_like(right), right, right, right
    size = (right * right).sum(axes, keepdim=True)
    overlap = size
    for _ in range(STEPS):
        better = approximate(direction)
        image = apply(better)
        amount = _ratio(overlap, (shadow * image).sum(axes, keepdim=True))
        half = residual - amount * image
        smoother = approximate(half)
        second = apply(smoother)
        weight = _ratio((second * half).sum(axes, keepdim=True), (second * second).sum(axes, keepdim=True))
        found = found + amount * better + weight * smoother
        residual = half - weight * second
        left = (residual * residual).sum(axes, keepdim=True)
        if _small(left, size):
            return found
        before, overlap = overlap, (shadow * residual).sum(axes, keepdim=True)
        direction = residual + _ratio(overlap, before) * _ratio(amount, weight) * (direction - weight * image)
    raise _unsolved(left, size)


def _ratio(over: Tensor, under: Tensor) -> Tensor:
    """0/0 is 0: a load of nothing, or one that is solved already."""
    return torch.where(under == 0, 0.0, over / torch.where(under == 0, 1.0, under))


def _small(energy: Tensor, size: Tensor) -> bool:
    limit = (TOLERANCE * torch.finfo(energy.dtype).eps) ** 2
    return bool((energy <= limit * size).all())


def _unsolved(energy: Tensor, size: Tensor) -> SolverError:
    worst = float(_ratio(energy, size).clamp(min=0).sqrt().max())
    return SolverError(
        f"not solved in {STEPS} steps", expected="a residual near the precision", got=f"{worst:.1e}",
        remedy="look for coefficients of extreme contrast",
    )  # fmt: skip

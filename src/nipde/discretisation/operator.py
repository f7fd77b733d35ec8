"""A of -∇·(b ∇u) + ∇·(v u) on tensors, its derivative, and solves that are differentiable in its coefficients.

    A u = Dᵀ(c D u) + Dᵀ(t M u):  conductances c and transports t of the links, differences D u, means M u
    δ(A u) = Dᵀ(D u · S δ log b) + Dᵀ(M u · area M δv),  S = ∂c / ∂ log b

Small grids: dense factors. Large ones: conjugate gradients, preconditioned with a multigrid cycle, O(N); with transport
BiCGStab, preconditioned with s Φ λ⁻¹ Φᵀ s, s = b^(-1/2). The derivative needs one more solve, with Aᵀ, no memory of
steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.discretisation.blocks import pair_blocks
from nipde.discretisation.conjugate_gradients import bicgstab
from nipde.discretisation.multigrid import MultigridSolver
from nipde.discretisation.tensor_links import OnLinks, TensorLinks, tensor_links
from nipde.grid import Grid
from nipde.spectral.transform import transform

#: Unknowns up to which dense factors are cheaper than steps (a factor is shared by all pairs).
DENSE_UNKNOWNS = 1100
Cells = Float[Tensor, "system *space"]
Drift = Float[Tensor, "system axis *space"]
Fields = Float[Tensor, "system pair *space"]
#: log b, or log b and the drift.
Coefficients = Float[Tensor, "system coefficient *space"]


@dataclass(frozen=True, eq=False)
class EllipticOperator:
    """A for every system of a batch with one axis; `scale` is b^(-1/2) in the cells, for the preconditioner."""

    grid: Grid
    conductances: OnLinks
    transports: OnLinks | None
    scale: Cells

    @classmethod
    def of(cls, grid: Grid, log_coefficient: Cells, drift: Drift | None, mean_power: float | Tensor) -> Self:
        """The operator of coefficient fields; b on a link is the mean of power p of its two cells."""
        links = tensor_links(grid, log_coefficient)
        logs = log_means(links, log_coefficient, mean_power)
        conductances = tuple(log.exp() * factor for log, factor in zip(logs, links.factors, strict=True))
        transports = None if drift is None else transports_of(links, drift)
        return cls(grid, conductances, transports, (-log_coefficient / 2).exp())

    @property
    def links(self) -> TensorLinks:
        """Of the grid, like the coefficients."""
        return tensor_links(self.grid, self.scale)

    def __call__(self, field: Fields, *, transposed: bool = False) -> Tensor:
        """A u, or Aᵀ u; zero where the value is given."""
        links = self.links
        drops = links.difference(field)
        flows = [c.unsqueeze(1) * drop for c, drop in zip(self.conductances, drops, strict=True)]
        back: Tensor | float = 0.0
        if self.transports is not None:
            carried = [t.unsqueeze(1) for t in self.transports]
            if transposed:
                back = links.gathered(tuple(t * drop for t, drop in zip(carried, drops, strict=True)))
            else:
                means = links.means(field)
                flows = [flow + t * mean for flow, t, mean in zip(flows, carried, means, strict=True)]
        return (links.divergence(tuple(flows)) + back) * links.is_unknown

    def matrix(self) -> Float[Tensor, "system unknown unknown"]:
        """A on the unknown cells, all entries."""
        size, systems = self.grid.size, len(self.scale)
        flat = self.scale.new_zeros(systems, size * size)
        zeros = [torch.zeros_like(c) for c in self.conductances]
        for axis, (c, t) in enumerate(zip(self.conductances, self.transports or zeros, strict=True)):
            first, second = self.links.numbers(axis)
            c, half = c.reshape(systems, -1), t.reshape(systems, -1) / 2
            for row, (own, other) in ((first, (c + half, half - c)), (second, (c - half, -c - half))):
                neighbour = second if row is first else first
                flat.index_add_(1, row * size + row, own).index_add_(1, row * size + neighbour, other)
        unknown = self.links.unknown
        return flat.view(systems, size, size)[:, unknown[:, None], unknown]

    def solve(self, moments: Fields, *, transposed: bool = False) -> Fields:
        """A⁻¹ or A⁻ᵀ of cell integrals, zero where the value is given; differentiable in moments, c and t."""
        apply: Callable[..., Tensor] = _Solve.apply
        return apply(moments, self._detached(), transposed, *self.conductances, *(self.transports or ()))

    def _detached(self) -> "EllipticOperator":
        conductances = tuple(c.detach() for c in self.conductances)
        transports = None if self.transports is None else tuple(t.detach() for t in self.transports)
        return replace(self, conductances=conductances, transports=transports, scale=self.scale.detach())


class TensorSensitivity:
    """J around coefficients θ for given responses u; θ has one field, log b, or one more per axis, the drift v."""

    def __init__(
        self, links: TensorLinks, coefficients: Coefficients, responses: Fields, *, mean_power: float | Tensor
    ) -> None:
        self.links, self.with_drift = links, coefficients.shape[1] > 1
        log = coefficients[:, 0]
        #: ∂c / ∂ log b of the two cells of a link: c (b/mean)^p / 2.
        self.slopes = []
        for axis, mean in enumerate(log_means(links, log, mean_power)):
            conductance = mean.exp() * links.factors[axis]
            ends = (links.first(log, axis), links.second(log, axis))
            self.slopes.append(tuple(conductance * (mean_power * (end - mean)).exp() / 2 for end in ends))
        self.drops = links.difference(responses)
        self.means = links.means(responses) if self.with_drift else ()
        self.blocks = pair_blocks(responses)

    def jvp(self, change: Coefficients) -> Fields:
        """J times a change of the coefficients."""
        return self._outflow(self._on_links(change), slice(None))

    def vjp(self, adjoint: Fields) -> Coefficients:
        """Jᵀ times one field per pair, zero where the response is given."""
        return self._gathered(*self._products(adjoint, slice(None)), power=1)

    def normal(self, change: Coefficients, *, weigh: Callable[[Fields, slice], Fields]) -> Coefficients:
        """Jᵀ Q J times a change, block by block; `weigh` multiplies fields of some of the pairs with their Q."""
        amounts = self._on_links(change)
        parts = [self._products(weigh(self._outflow(amounts, some), some), some) for some in self.blocks]
        of_drops, of_means = (
            [
                torch.stack(one).sum(0) if len(one) > 1 else one[0]
                for one in zip(*(part[kind] for part in parts), strict=True)
            ]
            for kind in (0, 1)
        )
        return self._gathered(of_drops, of_means, power=1)

    def _on_links(self, change: Coefficients) -> tuple[list[Tensor], OnLinks]:
        """Changes of conductances and transports, which all pairs share."""
        links = self.links
        amounts = [
            (near * links.first(change[:, 0], axis) + far * links.second(change[:, 0], axis)).unsqueeze(1)
            for axis, (near, far) in enumerate(self.slopes)
        ]
        carried = transports_of(links, change[:, 1:]) if self.with_drift else ()
        return amounts, tuple(one.unsqueeze(1) for one in carried)

    def _outflow(self, changes: tuple[list[Tensor], OnLinks], pairs: slice) -> Fields:
        flows = [amount * drop[:, pairs] for amount, drop in zip(changes[0], self.drops, strict=True)]
        for flow, carried, mean in zip(flows, changes[1], self.means, strict=False):
            flow.addcmul_(carried, mean[:, pairs])
        return self.links.divergence(tuple(flows)).mul_(self.links.is_unknown)

    def _products(self, adjoint: Fields, pairs: slice) -> tuple[list[Tensor], list[Tensor]]:
        """Σ_pairs D w · D u and Σ_pairs D w · M u."""
        drops = self.links.difference(adjoint * self.links.is_unknown)
        of_drops, of_means = (
            [(drop * own[:, pairs]).sum(1) for drop, own in zip(drops, fields, strict=False)]
            for fields in (self.drops, self.means)
        )
        return of_drops, of_means

    def diagonal(self, weights: Float[Tensor, "system pair *one"]) -> Coefficients:
        """The diagonal of Jᵀ W⁻¹ Q J, roughly: links as if they were alone, `weights` the mean of Q of every pair."""
        links = self.links
        volumes = [area * axis.spacing / 2 for area, axis in zip(links.areas, links.grid.axes, strict=True)]
        of_drops, of_means = (
            [(own.square() * weights).sum(1) / volume for own, volume in zip(fields, volumes, strict=False)]
            for fields in (self.drops, self.means)
        )
        return self._gathered(of_drops, of_means, power=2)

    def _gathered(self, of_drops: list[Tensor], of_means: list[Tensor], *, power: int) -> Tensor:
        """Amounts on links to cells, times the slopes by log b and by v to a power."""
        links, amounts = self.links, list(zip(self.slopes, of_drops, strict=True))
        near, far = ([slopes[end] ** power * amount for slopes, amount in amounts] for end in (0, 1))
        carried = [(area / 2) ** power * amount for area, amount in zip(links.areas, of_means, strict=False)]
        drift = [links.scattered([amount], [amount], axis=axis) for axis, amount in enumerate(carried)]
        return torch.stack([links.scattered(near, far), *drift], 1)


def log_means(links: TensorLinks, log_coefficient: Cells, power: float | Tensor) -> OnLinks:
    """Logarithm of ((b₁^p + b₂^p)/2)^(1/p) = √(b₁b₂) cosh(p Δ)^(1/p), Δ = log(b₁/b₂)/2; geometric mean at p = 0."""
    halves = zip(links.means(log_coefficient), links.difference(log_coefficient), strict=True)
    return tuple(middle + _log_cosh_ratio(drop / 2, power) for middle, drop in halves)


def transports_of(links: TensorLinks, drift: Drift) -> OnLinks:
    """What velocities carry through every link, per unit of the mean of its two values."""
    return tuple(links.means(drift[:, axis])[axis] * area for axis, area in enumerate(links.areas))


def _log_cosh_ratio(half: Tensor, power: float | Tensor) -> Tensor:
    """log(cosh(p Δ)) / p, without overflow, and 0 at p = 0."""
    power = torch.as_tensor(power, dtype=half.dtype, device=half.device)
    safe = torch.where(power.abs() < 1e-6, torch.full_like(power, 1e-6), power)
    size = (safe * half).abs()
    return (size + torch.log1p(torch.exp(-2 * size)) - torch.log(torch.full_like(power, 2.0))) / safe


class _Solve(torch.autograd.Function):
    """dL/dc = -Σ_pairs D w · D u and dL/dt = -Σ_pairs D w · M u, with w = A⁻ᵀ dL/du."""

    @staticmethod
    def forward(
        context: Any, moments: Tensor, operator: EllipticOperator, transposed: bool, *coefficients: Tensor
    ) -> Tensor:
        context.inverse = _inverse(operator)
        context.operator, context.transposed = operator, transposed
        solution = context.inverse(moments.detach(), transposed)
        context.save_for_backward(solution)
        return solution

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (solution,) = context.saved_tensors
        operator, links = context.operator, context.operator.links
        adjoint = context.inverse(gradients[0], not context.transposed)
        into, out = (adjoint, solution) if context.transposed else (solution, adjoint)
        drops = links.difference(out)
        of_links = [-(a * b).sum(1) for a, b in zip(drops, links.difference(into), strict=True)]
        if operator.transports is not None:
            of_links += [-(a * b).sum(1) for a, b in zip(drops, links.means(into), strict=True)]
        return adjoint, None, None, *of_links


def _inverse(operator: EllipticOperator) -> Callable[[Tensor, bool], Tensor]:
    """Of moments, transposed or not."""
    if len(operator.links.unknown) <= DENSE_UNKNOWNS:
        return _dense_inverse(operator)
    if operator.transports is not None:
        return partial(_iterated, operator)
    solve = MultigridSolver(operator.grid, operator.conductances)
    return lambda moments, _: solve(moments)


def _dense_inverse(operator: EllipticOperator) -> Callable[[Tensor, bool], Tensor]:
    """Factors in double precision, whatever the data's: they are a small part of the work."""
    unknown = operator.links.unknown
    matrix = operator.matrix().double()
    symmetric = operator.transports is None
    factors: Any = torch.linalg.cholesky(matrix) if symmetric else torch.linalg.lu_factor(matrix)

    def inverse(moments: Tensor, transposed: bool) -> Tensor:
        columns = moments.flatten(2)[..., unknown].mT.double()
        if symmetric:
            solution = torch.cholesky_solve(columns, factors)
        else:
            solution = torch.linalg.lu_solve(*factors, columns, adjoint=transposed)
        flat = moments.new_zeros(moments.flatten(2).shape)
        flat[..., unknown] = solution.mT.to(moments)
        return flat.view(moments.shape)

    return inverse


def _iterated(operator: EllipticOperator, moments: Tensor, transposed: bool) -> Tensor:
    """With transport."""
    modes, links = transform(operator.grid), operator.links
    scale = operator.scale.unsqueeze(1) * links.is_unknown

    def preconditioner(residual: Tensor) -> Tensor:
        return modes.synthesis(modes.analysis(residual / links.volume * scale) / links.eigenvalues) * scale

    def matrix(field: Tensor) -> Tensor:
        return operator(field, transposed=transposed)

    axes = tuple(range(-operator.grid.dimension, 0))
    return bicgstab(matrix, moments * links.is_unknown, preconditioner=preconditioner, axes=axes)

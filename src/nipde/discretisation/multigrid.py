"""Multigrid for -∇·(b ∇u) = f on tensors: a symmetric V-cycle, the preconditioner of conjugate gradients.

    A_coarse = Pᵀ A P,   P: the stencil summed over the other axes is 0 between two nodes that are kept

Coarse levels keep every second node of an axis. P follows the coefficient, so that no flux is lost at a jump
(black-box multigrid, Dendy 1982). The smoother is a polynomial of Ã, Chebyshev's of the fourth kind (Lottes 2023):
products alone, symmetric, and nothing that waits for a device. All levels are scaled to the diagonal 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nipde.discretisation.blocks import pair_blocks
from nipde.discretisation.conjugate_gradients import conjugate_gradients, rounding
from nipde.discretisation.stencil import Fields, Line, Nodes, Offset, ScaledProduct, Stencil, boxes
from nipde.discretisation.tensor_links import OnLinks
from nipde.grid import Grid

#: Unknowns up to which a level is the coarsest, and is inverted.
COARSEST = 256
#: An axis is coarsened while its spacing is at most this many times the least: what is far apart is weakly coupled.
LONGEST = 1.5
#: Degree of the smoother on the grid itself, and on the levels below, where it costs little.
DEGREES = (3, 8)


class StencilSolver:
    """A⁻¹ by conjugate gradients in double precision, preconditioned with a V-cycle in single precision."""

    def __init__(self, stencil: Stencil, *, tolerance: float | None = None) -> None:
        self.tolerance, self.scale = tolerance, stencil.diagonal.rsqrt()
        self.product, self.cycle = ScaledProduct(stencil, torch.float64), VCycle(stencil, torch.float32)

    def __call__(self, moments: Fields) -> Fields:
        """At the unknown nodes, to the tolerance, or else to the precision of the moments there."""
        solution = torch.empty_like(moments)
        for pairs in pair_blocks(moments):
            right = moments[:, pairs] * self.scale
            axes = tuple(range(2, right.ndim))
            # Of size 1, or tiny loads would be 0 in single precision.
            size = right.abs().amax(axes, keepdim=True)
            found = conjugate_gradients(
                self.product, right / torch.where(size > 0, size, 1.0), preconditioner=self.cycle, axes=axes,
                tolerance=self.tolerance or rounding(moments.dtype),
            )  # fmt: skip
            solution[:, pairs] = (found * size * self.scale).to(solution)
        return solution


class MultigridSolver(StencilSolver):
    """The same on all nodes of a grid; 0 where the value is given."""

    def __init__(self, grid: Grid, conductances: OnLinks) -> None:
        super().__init__(Stencil.of(grid, conductances))
        self.inner: tuple[Any, ...] = (..., *grid.inner)

    def __call__(self, moments: Fields) -> Fields:
        """To the precision of the moments."""
        solution = torch.zeros_like(moments)
        solution[self.inner] = super().__call__(moments[self.inner])
        return solution


class VCycle:
    """About Ã⁻¹, symmetric and positive definite, for every system of a batch."""

    def __init__(self, stencil: Stencil, dtype: torch.dtype) -> None:
        self.dtype = dtype
        #: From the grid itself to the last but one.
        self.levels: list[tuple[Smoother, Interpolation]] = []
        while stencil.unknowns > COARSEST and any(coarsened := _coarsened(stencil.lines)):
            interpolation = Interpolation.of(stencil, coarsened)
            coarse = galerkin(ScaledProduct(stencil, stencil.diagonal.dtype), interpolation)
            smoother = Smoother(ScaledProduct(stencil, dtype), _bound(stencil).to(dtype), DEGREES[bool(self.levels)])
            self.levels.append((smoother, interpolation.scaled(coarse.diagonal.rsqrt(), dtype)))
            stencil = coarse
        scale = stencil.diagonal.rsqrt().flatten(1)
        # Without a look at the result, for which a device would have to wait: what cannot be solved shows in the steps.
        factors, _ = torch.linalg.cholesky_ex(stencil.matrix() * scale[:, :, None] * scale[:, None])
        self.inverse = torch.cholesky_inverse(factors)

    def __call__(self, residual: Fields) -> Fields:
        """One cycle from 0."""
        return self._down(residual.to(self.dtype), 0).to(residual)

    def _down(self, right: Fields, depth: int) -> Fields:
        if depth == len(self.levels):
            return (right.flatten(2).to(self.inverse) @ self.inverse).view(right.shape).to(right)
        smoother, interpolation = self.levels[depth]
        solution, rest = smoother(right)
        solution += interpolation(self._down(interpolation.transposed(rest), depth + 1))
        return solution.add_(smoother(smoother.product.residual(right, solution), with_rest=False)[0])


@dataclass(frozen=True, eq=False)
class Smoother:
    """q(Ã) r, the polynomial for eigenvalues up to `bound` that damps the upper ones most."""

    product: ScaledProduct
    bound: Float[Tensor, "system 1 *one"]
    degree: int

    def __call__(self, right: Fields, *, with_rest: bool = True) -> tuple[Fields, Fields]:
        """q(Ã) r, and r - Ã q(Ã) r if wanted."""
        step = right * (4 / 3 / self.bound)
        solution = step
        for number in range(1, self.degree):
            right = self.product.residual(right, step)
            share = (8 * number + 4) / (2 * number + 3) / self.bound
            step = torch.addcmul(step * ((2 * number - 1) / (2 * number + 3)), share, right)
            solution = solution + step
        return solution, self.product.residual(right, step) if with_rest else right


@dataclass(frozen=True, eq=False)
class Interpolation:
    """P from a coarse level to a fine one, for fields scaled like Ã."""

    #: Of the coarse level, and where its nodes are in the fine one.
    lines: tuple[Line, ...]
    kept: tuple[Any, ...]
    shape: tuple[int, ...]
    #: Weight of a kept node; and of all others: where they are, what they are interpolated from, and its weight.
    height: Nodes
    terms: list[tuple[Any, Any, Tensor]]

    @classmethod
    def of(cls, stencil: Stencil, coarsened: Sequence[bool]) -> "Interpolation":
        """Nodes between two kept ones first, then those between four, then eight: each from the ones before."""
        lines, height, entries = stencil.lines, stencil.diagonal.sqrt(), stencil.entries()
        terms: list[tuple[Any, Any, Tensor]] = []
        step = tuple(2 if one else 1 for one in coarsened)
        axes = [axis for axis, one in enumerate(coarsened) if one]
        for between in (some for count in range(1, len(axes) + 1) for some in combinations(axes, count)):
            first = tuple(abs(line.start - (axis in between)) if axis in axes else 0 for axis, line in enumerate(lines))
            sums: dict[Offset, Tensor] = {}
            for offset, entry in entries.items():
                along = tuple(one if axis in between else 0 for axis, one in enumerate(offset))
                sums[along] = sums.get(along, 0) + entry
            own = stencil.diagonal + sums.pop((0,) * len(lines), 0)
            for offset, total in sums.items():
                share = -total / own * height
                terms += [
                    (here, there, share[here] / height[there]) for here, there in boxes(lines, offset, first, step)
                ]
        chosen = list(zip(lines, coarsened, strict=True))
        kept = (..., *(slice(line.start, None, 2) if one else slice(None) for line, one in chosen))
        coarse = tuple(line.coarser if one else line for line, one in chosen)
        return cls(coarse, kept, tuple(height.shape[2:]), height[kept], terms)

    def scaled(self, scale: Nodes, dtype: torch.dtype) -> "Interpolation":
        """From coarse fields that are scaled, too."""
        terms = [(here, there, weight.to(dtype)) for here, there, weight in self.terms]
        return replace(self, height=(self.height * scale).to(dtype), terms=terms)

    def __call__(self, coarse: Fields) -> Fields:
        """P u."""
        fine = coarse.new_zeros((*coarse.shape[:2], *self.shape))
        fine[self.kept] = coarse * self.height
        for here, there, weight in self.terms:
            fine[here].addcmul_(weight, fine[there])
        return fine

    def transposed(self, fine: Fields) -> Fields:
        """Pᵀ r; overwrites r."""
        for here, there, weight in reversed(self.terms):
            fine[there].addcmul_(weight, fine[here])
        return fine[self.kept] * self.height


def galerkin(apply: ScaledProduct, interpolation: Interpolation) -> Stencil:
    """Pᵀ A P, read from its images of fields that are 1 in the nodes of one colour and 0 elsewhere.

    Nodes of one colour are three or more apart: an image shows the entries of all of them side by side.
    """
    lines, height = interpolation.lines, interpolation.height
    colours, count = _colours(lines, height)
    probes = (colours == torch.arange(count, device=height.device).view(-1, *(1,) * len(lines))).to(height)
    probes = probes.expand(len(height), *probes.shape)
    images = [interpolation.transposed(apply(interpolation(probes[:, some]))) for some in pair_blocks(probes)]
    image = torch.cat(images, 1)
    colour = colours.expand(height.shape)
    couplings = {}
    for offset in product((-1, 0, 1), repeat=len(lines)):
        if offset > (0,) * len(lines):
            couplings[offset] = torch.zeros_like(height)
            for here, there in boxes(lines, offset):
                couplings[offset][here] = image[here].gather(1, colour[there])
    return Stencil(lines, image.gather(1, colour), couplings)


def _colours(lines: Sequence[Line], like: Tensor) -> tuple[Int[Tensor, "*space"], int]:
    """Of every node, and how many: three per axis, on rings up to two more where it closes."""
    number, total = torch.zeros((), dtype=torch.long, device=like.device), 1
    for line in lines:
        node = torch.arange(line.nodes, device=like.device)
        rest = line.nodes % 3 if line.periodic else 0
        count = 3 + rest
        along = torch.where(node < line.nodes - rest, node % 3, node - line.nodes + count)
        number, total = number.unsqueeze(-1) * count + along, total * count
    return number, total


def _coarsened(lines: Sequence[Line]) -> list[bool]:
    """Which axes: the shortest links couple most, and the smoother alone is slow along them."""
    least = min((line.spacing for line in lines if not line.shortest), default=0.0)
    return [not line.shortest and line.spacing <= LONGEST * least for line in lines]


def _bound(stencil: Stencil) -> Float[Tensor, "system 1 *one"]:
    """Gershgorin's of the eigenvalues of D⁻¹ A."""
    sizes = torch.stack([entry.abs() for entry in stencil.entries().values()]).sum(0)
    return 1 + (sizes / stencil.diagonal).amax(tuple(range(2, sizes.ndim)), keepdim=True)

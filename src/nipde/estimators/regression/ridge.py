"""Ridge regression of responses on loads: K = U (G + λI)⁻¹ Fᵀ with G = FᵀWF, the minimum norm softened against noise.

It minimises ‖K W F - U‖² + λ ‖K‖² in L², row by row: K(x, ·) depends on the responses at x alone. So a node measured
in some pairs M only takes part with those, K(x, ·) = u_M (G_MM + λI)⁻¹ F_Mᵀ, and a node never measured has a row of 0.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.estimators.regression.cross_validation import cross_validated_penalty
from nipde.estimators.regression.matrices import columns, fields, row_weights, systems_of
from nipde.kernels.low_rank import LowRankKernel

Rows = Float[Tensor, "row pair"]


@dataclass(frozen=True)
class Ridge:
    """`penalty` is λ over the mean eigenvalue of G, a pure number; 0 is the minimum norm.

    None: every system chooses its own λ, one for all its nodes, by generalised cross-validation on what was measured.
    A known noise level is not used: held-out loads suffer from what no load has probed more than from noise, and the λ
    whose residual equals the noise smooths too much. No gradient flows through the selected λ.
    """

    penalty: float | None = None

    def __post_init__(self) -> None:
        if self.penalty is not None and not 0 <= self.penalty < math.inf:
            raise PairsError(
                expected="a penalty >= 0", got=self.penalty, remedy="give it relative to the loads, e.g. 1e-3, or None"
            )

    def __call__(self, pairs: Pairs) -> LowRankKernel:
        """Left fields Σ_i α_i(x) q_ir, right fields Σ_i f_i(y) q_ir, with q the eigenvectors of G."""
        grid = pairs.grid
        loads, responses = columns(pairs.loads, grid=grid), columns(pairs.responses, grid=grid)
        gram = loads.mT @ (row_weights(loads, grid=grid)[:, None] * loads)
        eigenvalues, mixing = torch.linalg.eigh(gram)
        weights = row_weights(responses, grid=grid)
        if pairs.mask is None or bool(pairs.mask.all()):
            left = self._everywhere(eigenvalues, responses @ mixing, weights)
        else:
            measured = pairs.mask.expand_as(pairs.responses).flatten(-grid.dimension - 1).mT
            systems = zip(systems_of(gram), systems_of(responses), systems_of(measured), strict=True)
            amounts = [self._by_pattern(*system, weights=weights) for system in systems]
            left = torch.stack(amounts).reshape(responses.shape) @ mixing
        return _kernel(left, loads @ mixing, pairs)

    def _everywhere(self, eigenvalues: Tensor, rotated: Tensor, weights: Tensor) -> Float[Tensor, "*batch row pair"]:
        """U q / (g + λ)."""
        energies = (rotated.square() * weights[:, None]).sum(-2)
        penalty = self._choose(eigenvalues, energies, weights.sum().expand_as(energies))
        return rotated * _inverse(eigenvalues, penalty[..., None])[..., None, :]

    def _by_pattern(
        self, gram: Float[Tensor, "pair pair"], responses: Rows, measured: Bool[Tensor, "row pair"], *, weights: Tensor
    ) -> Rows:
        """α(x) = (G_MM + λI)⁻¹ u_M(x), zero outside M: one eigenproblem per set M of pairs, not per node."""
        patterns, which = torch.unique(measured, dim=0, return_inverse=True)
        unit = gram.diagonal().mean()
        inside = torch.where(patterns[:, :, None] & patterns[:, None, :], gram, 0)
        # pairs outside M get an eigenvalue below zero, which none inside can have
        eigenvalues, mixing = torch.linalg.eigh(inside - unit * torch.diag_embed((~patterns).to(gram)))
        exists = (eigenvalues > -unit / 2).to(gram)
        rotated = _rows_times(torch.where(measured, responses, 0), mixing, which) * exists[which]
        energies = torch.zeros_like(eigenvalues).index_add(0, which, rotated.square() * weights[:, None])
        shares = torch.zeros_like(eigenvalues[:, 0]).index_add(0, which, weights)[:, None] * exists
        penalty = self._choose(eigenvalues.flatten(), energies.flatten(), shares.flatten(), unit=unit)
        return _rows_times(rotated * (_inverse(eigenvalues, penalty) * exists)[which], mixing.mT, which)

    def _choose(
        self, eigenvalues: Tensor, energies: Tensor, dimensions: Tensor, *, unit: Tensor | None = None
    ) -> Float[Tensor, "*batch"]:
        """λ in the unit of G; a relative penalty refers to the whole G, with or without a mask."""
        if self.penalty is None:
            return cross_validated_penalty(eigenvalues, energies, dimensions)
        return self.penalty * (eigenvalues.mean(-1) if unit is None else unit)


@dataclass(frozen=True)
class MinimumNorm:
    """The smallest kernel that reproduces the context: min ∫∫ K² dx dy with K W F = U, hence K = U (FᵀWF)⁺ Fᵀ.

    What no load has probed, it sets to zero: directions whose singular value is below `cutoff` times the largest. None
    is the rounding of the data: their precision times the longer side of F. On its own pairs it scores 0, whatever the
    law.
    """

    cutoff: float | None = None

    def __call__(self, pairs: Pairs) -> LowRankKernel:
        """From W^½ F = P s Qᵀ: the left fields are U Q / s, the right ones W^-½ P, orthonormal in L²."""
        pairs.refuse_mask("MinimumNorm")
        grid = pairs.grid
        loads, responses = columns(pairs.loads, grid=grid), columns(pairs.responses, grid=grid)
        root = row_weights(loads, grid=grid)[:, None] ** 0.5
        directions, values, mixing = torch.linalg.svd(root * loads, full_matrices=False)
        cutoff = torch.finfo(pairs.loads.dtype).eps * max(loads.shape[-2:]) if self.cutoff is None else self.cutoff
        probed = values > cutoff * values[..., :1]
        inverse = probed / torch.where(probed, values, 1)
        left = responses @ mixing.mT * inverse[..., None, :]
        return _kernel(left, directions / root, pairs)


def _kernel(left: Tensor, right: Tensor, pairs: Pairs) -> LowRankKernel:
    """Of two matrices with a column per term."""
    return LowRankKernel(pairs.grid, *(fields(part, grid=pairs.grid, like=pairs.loads) for part in (left, right)))


def _inverse(eigenvalues: Float[Tensor, "*batch pair"], penalty: Tensor) -> Float[Tensor, "*batch pair"]:
    """1 / (g + λ), and zero where the loads leave nothing to divide by."""
    softened = eigenvalues + penalty
    rounding = torch.finfo(softened.dtype).eps * softened.shape[-1] * softened.amax(-1, keepdim=True)
    return (softened > rounding) / torch.where(softened > rounding, softened, 1)


def _rows_times(rows: Rows, matrices: Float[Tensor, "pattern pair pair"], which: Tensor) -> Rows:
    """Every row times the matrix of its pattern."""
    order = which.argsort(stable=True)
    parts = rows[order].split(torch.bincount(which, minlength=len(matrices)).tolist())
    return torch.cat([part @ matrix for part, matrix in zip(parts, matrices, strict=True)])[order.argsort()]

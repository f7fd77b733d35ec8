"""What principal components miss: E ~ matrix normal, Cov(E(x, y), E(x', y')) = R(x, x') Σ(y, y').

R and Σ are pooled over columns and over rows of what is left of training kernels after projection on the components of
the others, fold by fold: the components fit the kernels they come from far too well.
"""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

FOLDS = 5
#: Least variance of a remainder over the mean variance of the kernels, on nodes that move: nothing there is impossible.
LEAST = 1e-10
#: Deviations this small relative to the largest are rounding.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Remainder:
    """R by its eigenvectors, of mean variance 1 over the nodes that move, and Σ."""

    row_modes: Float[Tensor, "row mode"]
    row_variances: Float[Tensor, " mode"]
    columns: Float[Tensor, "column column"]

    @classmethod
    def of(
        cls, deviations: Float[Tensor, "system row column"], gram: Float[Tensor, "system system"], *, count: int
    ) -> Self:
        """From deviations of training kernels from their mean, and their inner products."""
        systems, rows, columns = deviations.shape
        row_covariance, column_covariance = deviations.new_zeros(rows, rows), deviations.new_zeros(columns, columns)
        folds = torch.arange(systems, device=gram.device) % min(FOLDS, systems)
        for fold in range(min(FOLDS, systems)):
            left = _left_out(deviations, gram, folds == fold, count=count)
            row_covariance += torch.einsum("sxy,szy->xz", left, left) / (systems * columns)
            column_covariance += torch.einsum("sxy,sxz->yz", left, left) / (systems * rows)
        largest = deviations.abs().max()
        moving, moved = (deviations.abs().amax((0, axis)) > ROUNDING * largest for axis in (2, 1))
        least = LEAST * deviations.square().mean()
        variances, vectors = torch.linalg.eigh(row_covariance[moving][:, moving])
        variances = variances.clamp(min=0) + least
        modes = torch.eye(rows, dtype=gram.dtype, device=gram.device)[:, moving] @ vectors
        # only the product R Σ counts: R has mean variance 1 on the rows that move, Σ the rest
        columns_regular = (column_covariance + least * torch.diag(moved.to(gram))) * (rows / len(variances))
        return cls(modes, variances / variances.mean(), columns_regular)

    def to(self, device: torch.device) -> Self:
        """On another device."""
        parts = (part.to(device) for part in (self.row_modes, self.row_variances, self.columns))
        return type(self)(*parts)


def principal_mixing(gram: Float[Tensor, "system system"], *, count: int) -> Float[Tensor, "system component"]:
    """Orthonormal mixtures of systems, by falling variance: mixtureᵀ deviations are the principal components."""
    eigenvalues, vectors = torch.linalg.eigh(gram)
    present = int((eigenvalues > torch.finfo(gram.dtype).eps * len(gram) * eigenvalues[-1]).sum())
    return vectors.flip(1)[:, : min(count, present)]


def _left_out(
    deviations: Float[Tensor, "system row column"], gram: Tensor, out: Tensor, *, count: int
) -> Float[Tensor, "out row column"]:
    """Kernels of a fold minus their projection on the mean and the components of all others."""
    others = ~out
    known = int(others.sum())
    centred = gram[others][:, others]
    centred = centred - centred.mean(0) - centred.mean(1)[:, None] + centred.mean()
    mixing = principal_mixing(centred, count=min(count, known - 1))
    inner = gram[out][:, others] - gram[others][:, others].mean(0)
    inner = inner - inner.mean(1, keepdim=True)
    lengths = (mixing * (centred @ mixing)).sum(0)
    projection = (inner @ mixing / lengths) @ mixing.mT
    projection = projection - projection.mean(1, keepdim=True) + 1 / known
    return deviations[out] - torch.tensordot(projection, deviations[others], dims=1)

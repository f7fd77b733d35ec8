"""Truncated singular value decomposition of a kernel, K(x, y) ≈ Σ_r a_r(x) b_r(y); and the kernel as a program."""

from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from scipy.sparse.linalg import LinearOperator
from torch import Tensor, nn
from torch.export import Dim

from nipde.grid import Grid
from nipde.kernels.base import Kernel

#: Up to this many nodes all singular values are computed, and programs hold the whole kernel.
WHOLE_UP_TO = 2000
#: Truncation error ‖K - Σ‖ / ‖K‖ at most.
TOLERANCE = 1e-3
#: Terms at most.
MOST = 400
#: Random loads that a truncation error is estimated from.
PROBES = 16


@dataclass(frozen=True, eq=False)
class Factors:
    """`left` are the a_r, `right` the b_r; `truncation_error` is ‖K - Σ‖ / ‖K‖, of large grids an estimate."""

    left: Float[ndarray, "rank *space"]
    right: Float[ndarray, "rank *space"]
    truncation_error: float


def factors_of(kernel: Kernel) -> Factors:
    """Of one system with scalar fields; orthogonal in the grid's own product, strongest first."""
    grid, root = kernel.grid, np.sqrt(kernel.grid.weights.reshape(-1))
    if grid.size <= WHOLE_UP_TO:
        values = kernel.dense().detach().double().cpu().numpy() * root[:, None] * root
        left, sizes, right = np.linalg.svd(values)
        tails = np.sqrt(np.cumsum(sizes[::-1] ** 2)[::-1] / np.sum(sizes**2))
        rank = min(MOST, int(np.count_nonzero(tails > TOLERANCE)))
        truncation_error = float(tails[rank]) if rank < len(tails) else 0.0
    else:
        # The operator weighs with w; between two √w its factors are orthogonal.
        whole = kernel.as_linear_operator()
        operator = LinearOperator(
            whole.shape,
            dtype=whole.dtype,
            matvec=lambda x: root * whole.matvec(x.ravel() / root),
            matmat=lambda x: root[:, None] * whole.matmat(x / root[:, None]),
            rmatvec=lambda x: whole.rmatvec(x.ravel() * root) / root,
            rmatmat=lambda x: whole.rmatmat(x * root[:, None]) / root[:, None],
        )
        start = _smooth_and_random(grid, min(MOST + MOST // 2, grid.size - 2))
        left, sizes, right = _of_the_images(operator, start * root[:, None])
        rank = len(sizes)
        truncation_error = _estimated_error(operator, (left * sizes, right))
    amounts = np.sqrt(sizes[:rank])
    return Factors(
        (left[:, :rank] * amounts / root[:, None]).T.reshape(rank, *grid.shape),
        (right[:rank] * amounts[:, None] / root).reshape(rank, *grid.shape),
        truncation_error,
    )


def _estimated_error(operator: LinearOperator, factors: tuple[ndarray, ndarray]) -> float:
    """‖K - Σ‖ / ‖K‖ in the norm of Frobenius, from images of a few random loads."""
    loads = np.random.default_rng(1).standard_normal((operator.shape[1], PROBES))
    images = operator.matmat(loads)
    return float(np.linalg.norm(images - factors[0] @ (factors[1] @ loads)) / np.linalg.norm(images))


def _of_the_images(operator: LinearOperator, start: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Largest singular values and their vectors in the images of some loads: a few % off where these are smooth."""
    basis = np.linalg.qr(operator.matmat(np.linalg.qr(start)[0]))[0]
    left, sizes, right = np.linalg.svd(operator.rmatmat(basis).T, full_matrices=False)
    return (basis @ left)[:, :MOST], sizes[:MOST], right[:MOST]


def _smooth_and_random(grid: Grid, count: int) -> Float[ndarray, "node load"]:
    """`count` products of cosines, those of the longest waves, and a tenth as many random fields."""
    waves = np.stack([number.ravel() for number in np.indices(grid.shape)], axis=1)
    frequencies = waves / np.array([axis.length for axis in grid.axes])
    longest = waves[np.argsort(np.sum(frequencies**2, axis=1), kind="stable")[:count]]
    cosines = [np.cos(np.pi * np.outer(range(n), range(n)) / (n - 1)) for n in grid.shape]
    fields = [reduce(np.multiply.outer, (along[n] for along, n in zip(cosines, wave, strict=True))) for wave in longest]
    random = np.random.default_rng(0).standard_normal((grid.size, min(count // 10 + 10, grid.size - count)))
    return np.hstack([np.stack(fields).reshape(count, -1).T, random])


def save_program(kernel: Kernel, factors: Factors, path: Path) -> None:
    """A program loads `(load, *space)` -> responses `(load, *space)` that torch runs without nipde.

    It is one matrix product, or two thin ones.
    """
    grid, weights = kernel.grid, torch.tensor(kernel.grid.weights).flatten()
    matrices = [kernel.dense().detach().double().cpu() * weights] if grid.size <= WHOLE_UP_TO else []
    if not matrices:
        left, right = (torch.tensor(side).flatten(1) for side in (factors.left, factors.right))
        matrices = [right * weights, left.mT]
    program = nn.Sequential(nn.Flatten(), *map(_linear, matrices), nn.Unflatten(1, grid.shape)).eval()
    example = torch.zeros(2, *grid.shape)
    exported = torch.export.export(program, (example,), dynamic_shapes=({0: Dim("loads", min=1)},))
    torch.export.save(exported, path)


def _linear(matrix: Float[Tensor, "row column"]) -> nn.Linear:
    rows, columns = matrix.shape
    layer = nn.Linear(columns, rows, bias=False, device="meta")
    layer.weight = nn.Parameter(matrix.float().contiguous(), requires_grad=False)
    return layer

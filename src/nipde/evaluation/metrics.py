"""Relative errors of responses, kernels and coefficients, ‖estimate - truth‖ / ‖truth‖ in L² by the grid's quadrature.

Norms are `vector_norm` of values times √w: its gradient at zero is zero, where that of a square root is not finite.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nipde.constants import constant
from nipde.errors import ShapeError
from nipde.grid import Grid


def relative_errors(
    grid: Grid,
    estimate: Float[Tensor, "*batch_pair_component_space"],
    truth: Float[Tensor, "*batch_pair_component_space"],
    *,
    where: Bool[np.ndarray, "*space"] | None = None,
) -> Float[Tensor, "*batch pair"]:
    """Of every function, its components together; `where` keeps some nodes only. Differentiable: also the loss."""
    _check(grid, estimate, truth)
    root = constant(_root_weights, grid, like=truth)
    function = tuple(range(-grid.dimension - 1, 0))
    return _relative(estimate, truth, root=root if where is None else root * truth.new_tensor(where), over=function)


def kernel_error(
    grid: Grid, estimate: Float[Tensor, "*batch row column"], truth: Float[Tensor, "*batch row column"]
) -> Float[Tensor, "*batch"]:
    """Of all values K(x, y), in L² over both points; rows and columns run over components, then nodes."""
    root = np.sqrt(grid.weights).reshape(-1)
    rows, columns = (truth.new_tensor(np.tile(root, count // grid.size)) for count in truth.shape[-2:])
    return _relative(estimate, truth, root=rows[:, None] * columns, over=(-2, -1))


def material_error(
    grid: Grid, estimate: Float[np.ndarray, "*batch_space"], truth: Float[np.ndarray, "*batch_space"]
) -> Float[np.ndarray, "*batch"]:
    """Of a hidden field; corner nodes, which no stencil reads, do not count."""
    counted = ~grid.corners
    return grid.norm(estimate - truth, mask=counted) / grid.norm(truth, mask=counted)


def phase_accuracy(
    grid: Grid,
    estimate: Float[np.ndarray, "*batch_space"],
    truth: Float[np.ndarray, "*batch_space"],
    *,
    where: Bool[np.ndarray, "*space"] | None = None,
) -> Float[np.ndarray, "*batch"]:
    """Share of nodes on the right side of the geometric mean of the true field's two phases; of all but the corners."""
    space = tuple(range(-grid.dimension, 0))
    border = np.sqrt(truth.min(space, keepdims=True) * truth.max(space, keepdims=True))
    right = np.where(truth > border, estimate > border, estimate <= border)  # NaN is on no side
    return right[..., ~grid.corners if where is None else where].mean(-1)


def _root_weights(grid: Grid) -> Float[np.ndarray, "*space"]:
    return np.sqrt(grid.weights)


def _relative(estimate: Tensor, truth: Tensor, *, root: Tensor, over: tuple[int, ...]) -> Tensor:
    apart, size = (
        torch.linalg.vector_norm(values, dim=over) for values in ((estimate - truth).mul_(root), truth * root)
    )
    return apart / size


def _check(grid: Grid, estimate: Tensor, truth: Tensor) -> None:
    grid.check(truth)
    if estimate.shape != truth.shape:
        raise ShapeError(
            "estimate and truth have different shapes", expected=tuple(truth.shape), got=tuple(estimate.shape),
            remedy="compare fields with equal axes (*batch, pair, component, *space)",
        )  # fmt: skip

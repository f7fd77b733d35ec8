"""The discrete Fourier transform in real arithmetic, as matrix products on the retained waves of every axis.

Along an axis of n nodes, wave k has the two coefficients Σ_j v_j cos(2πkj/n) and Σ_j v_j sin(2πkj/n), both scaled to
orthonormal rows (sin of k = 0 and of k = n/2 is a row of zeros). Synthesis is the transpose of analysis. No complex
number appears, so optimisers, half precision and multi-process training meet only real tensors.

Coefficients are `(lead, mode, parity, column)`: modes run over the waves of the last axis first, and the 2^dimension
parities (cos or sin along x, y, z) of one mode stand next to each other: a convolution is one small matrix per mode.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

Matrices = tuple[Float[Tensor, "coefficient node"], ...]


class Scratch:
    """Memory of intermediate results, one tensor per name and shape; written again, it stays in the cache.

    Give one to calls that follow each other, never to two at the same time.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], Tensor] = {}

    def __call__(self, name: str, like: Tensor, *shape: int) -> Float[Tensor, "*shape"]:
        """Values of the last use of this name."""
        key = (name, shape, like.dtype, like.device)
        if key not in self._kept:
            self._kept[key] = like.new_empty(shape)
        return self._kept[key]


def wave_matrices(shape: Sequence[int], waves: Sequence[int], *, like: Tensor) -> Matrices:
    """One matrix per axis, in the precision and place of `like`."""
    build = _matrix if torch.compiler.is_compiling() else _kept_matrix  # a traced tensor must not be kept
    return tuple(build(nodes, kept, like.dtype, like.device) for nodes, kept in zip(shape, waves, strict=True))


def analysis(
    field: Float[Tensor, "lead *space column"], matrices: Matrices, scratch: Scratch | None = None
) -> Float[Tensor, "lead mode parity column"]:
    """Coefficients of every field; results between two axes go to `scratch`, if given."""
    lead, columns, dimension = field.shape[0], field.shape[-1], len(matrices)
    done, parities = 1, 1
    for axis in reversed(range(dimension)):
        matrix = matrices[axis]
        field = field.reshape(-1, matrix.shape[1], done, parities * columns)
        field = _along(matrix, field, scratch if axis else None)
        done, parities = done * matrix.shape[0] // 2, parities * 2
    return field.view(lead, done, parities, columns)


def synthesis(
    coefficients: Float[Tensor, "lead mode parity column"], matrices: Matrices, scratch: Scratch | None = None
) -> Float[Tensor, "lead *space column"]:
    """Fields from coefficients: the transpose of `analysis`, and its inverse where all waves are retained."""
    lead, done, parities, columns = coefficients.shape
    field, shape = coefficients, []
    for matrix in matrices:
        shape.append(matrix.shape[1])
        done, parities = done * 2 // matrix.shape[0], parities // 2
        field = field.reshape(-1, done, matrix.shape[0], parities * columns)
        field = _back(matrix, field, scratch if len(shape) < len(matrices) else None)
    return field.view(lead, *shape, columns)


def _along(
    matrix: Tensor, field: Float[Tensor, "lead node done column"], scratch: Scratch | None
) -> Float[Tensor, "lead done wave column"]:
    """Transform the node axis; `done` waves of later axes are a batch, read in place."""
    lead, _, done, columns = field.shape
    if not _may_write(field):
        return matrix @ field.transpose(1, 2)
    product = _memory(scratch, field, lead, done, matrix.shape[0], columns)
    if done == 1:
        torch.bmm(matrix.expand(lead, -1, -1), field.squeeze(2), out=product.squeeze(1))
        return product
    for one, into in zip(field, product, strict=True):
        torch.bmm(matrix.expand(done, -1, -1), one.transpose(0, 1), out=into)
    return product


def _back(
    matrix: Tensor, field: Float[Tensor, "lead done wave column"], scratch: Scratch | None
) -> Float[Tensor, "lead node done column"]:
    """The transpose of `_along`; results are written where the next axis wants them."""
    lead, done, _, columns = field.shape
    if not _may_write(field):
        return (matrix.T @ field).transpose(1, 2).contiguous()
    product = _memory(scratch, field, lead, matrix.shape[1], done, columns)
    if done == 1:
        torch.bmm(matrix.T.expand(lead, -1, -1), field.squeeze(1), out=product.squeeze(2))
        return product
    for one, into in zip(field, product, strict=True):
        torch.bmm(matrix.T.expand(done, -1, -1), one, out=into.transpose(0, 1))
    return product


def _memory(scratch: Scratch | None, like: Tensor, *shape: int) -> Tensor:
    return like.new_empty(shape) if scratch is None else scratch("between axes", like, *shape)


def _may_write(field: Tensor) -> bool:
    """Whether results may be written in place: not while gradients or a program are recorded."""
    return not (torch.compiler.is_compiling() or (torch.is_grad_enabled() and field.requires_grad))


def _matrix(nodes: int, waves: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "coefficient node"]:
    with torch.inference_mode(False):  # it may be kept, and used in training later
        return torch.tensor(_rows(nodes, waves), dtype=dtype, device=device)


_kept_matrix = lru_cache(maxsize=64)(_matrix)


def _rows(nodes: int, waves: int) -> NDArray[np.float64]:
    turns = np.multiply.outer(np.arange(waves), np.arange(nodes)) % nodes  # whole turns removed before rounding
    angles = 2 * np.pi / nodes * turns
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    rows = np.where(norms > 0.5, rows / np.maximum(norms, 0.5), 0.0)
    return rows.reshape(2 * waves, nodes)

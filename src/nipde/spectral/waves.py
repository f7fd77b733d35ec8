"""The discrete Fourier transform in real arithmetic, as matrix products on the retained waves of every axis.

Along an axis of n nodes, wave k has the two coefficients Σ_j v_j cos(2πkj/n) and Σ_j v_j sin(2πkj/n), both scaled to
orthonormal rows (sin of k = 0 and of k = n/2 is a row of zeros). Synthesis is the transpose of analysis. No complex
number appears, so optimisers, half precision and multi-process training meet only real tensors.

Coefficients are `(lead, mode, parity, column)`: modes run over the waves of the last axis first, and the 2^dimension
parities (cos or sin along x, y, z) of one mode stand next to each other: a convolution is one small matrix per mode.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from nipde.constants import constant

Fields = Float[Tensor, "lead *space column"]
Coefficients = Float[Tensor, "lead mode parity column"]
Matrices = tuple[Float[Tensor, "coefficient node"], ...]


def wave_matrices(shape: Sequence[int], waves: Sequence[int], *, like: Tensor) -> Matrices:
    """One matrix per axis, in the precision and place of `like`."""
    return tuple(constant(_rows, nodes, kept, like=like) for nodes, kept in zip(shape, waves, strict=True))


def analysis(field: Fields, matrices: Matrices) -> Coefficients:
    """Coefficients of every field."""
    lead, columns = field.shape[0], field.shape[-1]
    done, parities = 1, 1
    for matrix in reversed(matrices):
        field = matrix @ field.reshape(-1, matrix.shape[1], done, parities * columns).transpose(1, 2)
        done, parities = done * matrix.shape[0] // 2, parities * 2
    return field.view(lead, done, parities, columns)


def synthesis(coefficients: Coefficients, matrices: Matrices) -> Fields:
    """Fields from coefficients: the transpose of `analysis`, and its inverse where all waves are retained."""
    lead, done, parities, columns = coefficients.shape
    field = coefficients
    for matrix in matrices:
        done, parities = done * 2 // matrix.shape[0], parities // 2
        field = (matrix.T @ field.reshape(-1, done, matrix.shape[0], parities * columns)).transpose(1, 2)
    return field.reshape(lead, *(matrix.shape[1] for matrix in matrices), columns)


def _rows(nodes: int, waves: int) -> NDArray[np.float64]:
    turns = np.multiply.outer(np.arange(waves), np.arange(nodes)) % nodes  # whole turns removed before rounding
    angles = 2 * np.pi / nodes * turns
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    rows = np.where(norms > 0.5, rows / np.maximum(norms, 0.5), 0.0)
    return rows.reshape(2 * waves, nodes)

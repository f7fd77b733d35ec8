"""Eigenpairs of LᵀL by products with L and Lᵀ: randomised block Krylov, L from many unknowns to fewer readings.

    U₀ = orth(L Ω),   U_(j+1) = orth((I - U Uᵀ) L Lᵀ U_j),   LᵀL ≈ Z Zᵀ,  Z = Lᵀ U

Ω is random. A block of U is one batch of products with L, one with Lᵀ, as in the double pass of Halko, Martinsson &
Tropp (2011), but every pass goes on where the last one ended (Musco & Musco, 2015): the same products, more accurate,
and the rank need not be known. Z Zᵀ ≤ LᵀL always: U Uᵀ is a projection, so information is left out, never added.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

#: Columns of a block with a smaller share of its largest are rounding.
ROUNDING = 1e-10
#: So are eigenvalues below this share of the largest: vectors in single precision.
NEGLIGIBLE = 1e-12
#: Unknowns that are summed together, in double precision.
CHUNK = 2**16
White = Float[np.ndarray, "column unknown"]
OfReadings = Float[np.ndarray, "column reading"]
Vectors = Float[np.ndarray, "rank unknown"]


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """V Λ Vᵀ ≤ LᵀL, largest first; vectors in single precision, block by block."""

    values: Float[np.ndarray, " rank"]
    vectors: list[Vectors]
    #: Estimate of the sum of all eigenvalues that were left out, before the last block of vectors was added; 0 if the
    #: readings have no more directions.
    left_out: float
    #: Columns that L and Lᵀ were multiplied with, together.
    products: int


def eigenpairs(
    forward: Callable[[White], OfReadings], adjoint: Callable[[OfReadings], White], *, unknowns: int, readings: int,
    smallest: float, block: int = 16, seed: int = 0,
) -> Eigenpairs:  # fmt: skip
    """Until no direction that was left out has an eigenvalue above `smallest`, as fresh random directions tell."""
    rng = np.random.default_rng(seed)
    basis, blocks, products = np.empty((0, readings)), list[np.ndarray](), 0

    def drawn() -> OfReadings:
        return forward(rng.standard_normal((min(block, readings), unknowns)))

    following, fresh = drawn(), True
    while True:
        products += len(following)
        rows, left_out = _beside(basis, following)
        small = not len(rows)
        if len(rows):
            images = adjoint(rows)
            products += len(rows)
            basis = np.vstack([basis, rows])
            blocks.append(images.astype(np.float32))
            small = float(np.linalg.eigvalsh(images @ images.T)[-1]) < smallest
        if small and fresh:
            break
        # A Krylov block that has nothing more may have missed something: fresh directions decide.
        following, fresh = (drawn(), True) if small else (forward(images), False)
    return Eigenpairs(*_diagonalised(blocks), left_out, products)


def _beside(basis: OfReadings, rows: OfReadings) -> tuple[OfReadings, float]:
    """An orthonormal basis of what rows have beside a basis, none if that is all, and their mean square there."""
    rounding = ROUNDING * float(np.linalg.norm(rows, axis=1).max())
    rows = rows - (rows @ basis.T) @ basis
    left_out = float(np.sum(rows**2)) / len(rows)
    for least in (rounding, 0.5):  # twice, since once leaves rounding
        _, sizes, rows = np.linalg.svd(rows - (rows @ basis.T) @ basis, full_matrices=False)
        rows = rows[sizes > least][: rows.shape[1] - len(basis)]
    return rows, left_out if len(rows) else 0.0


def _diagonalised(blocks: list[Vectors]) -> tuple[np.ndarray, list[Vectors]]:
    """Λ and V of Z Zᵀ = V Λ Vᵀ, through the small matrix Zᵀ Z; V takes the place of Z, which may fill the memory."""
    size, ends = blocks[0].shape[1], np.cumsum([len(one) for one in blocks])
    parts = [slice(first, first + CHUNK) for first in range(0, size, CHUNK)]

    def rows(part: slice) -> Float[np.ndarray, "rank unknown"]:
        return np.concatenate([one[:, part] for one in blocks]).astype(np.float64)

    gram = np.zeros((ends[-1], ends[-1]))
    for part in parts:
        some = rows(part)
        gram += some @ some.T
    values, turned = np.linalg.eigh(gram)
    values, turned = values[::-1], turned[:, ::-1]
    kept = int(np.count_nonzero(values > NEGLIGIBLE * values[0]))
    turned = turned / np.sqrt(np.maximum(values, NEGLIGIBLE * values[0]))
    for part in parts:
        for one, some in zip(blocks, np.split(turned.T @ rows(part), ends[:-1]), strict=True):
            one[:, part] = some
    last = int(np.searchsorted(ends, kept))
    return values[:kept], [*blocks[:last], blocks[last][: kept - ends[last] + len(blocks[last])]]

"""The paper's R: one learned Fourier multiplier per scalar field, the same for every channel, on the retained modes.

F⁻¹(R · F v): R is complex, stored as (real, imaginary) pairs, in 2^(dimension-1) corners of the half spectrum as the
paper's authors store it: low rows first, then the rows counted from the end. If the corners overlap, the later one
acts, and the covered entries of the earlier one are dead: at odd n with all modes that is one row.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from nipde.errors import GridError
from nipde.spectral.waves import Matrices, analysis, synthesis, wave_matrices


class SpectralFilter(nn.Module):
    """Multipliers of `fields` scalar fields on a grid of this shape, `modes` per axis (all of them by default)."""

    selector: Tensor
    acts: Tensor
    turns: Tensor

    def __init__(self, shape: Sequence[int], *, fields: int, modes: Sequence[int] | None = None) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.modes = tuple(nodes // 2 + 1 for nodes in shape) if modes is None else tuple(modes)
        _check_modes(self.shape, self.modes)
        *first, last = self.modes
        #: Waves per axis: rows counted from the end reach one wave further than rows counted from the start.
        self.waves = (*(min(m, n // 2) + 1 for m, n in zip(first, self.shape, strict=False)), last)
        corners = 2 ** len(first)
        self.weight = nn.Parameter(torch.rand(fields, corners, *self.modes, 2))
        places = _places(self.shape, self.modes, self.waves)
        self.register_buffer("selector", torch.tensor(np.maximum(places, 0)), persistent=False)
        self.register_buffer("acts", torch.tensor(places >= 0), persistent=False)
        self.register_buffer("turns", torch.tensor(_turns(len(self.shape))), persistent=False)

    def blocks(self) -> Float[Tensor, "field mode parity parity"]:
        """The convolution in real coefficients: one 2^dimension square matrix per mode, linear in the weights."""
        entries = self.weight.flatten(1, -2)[:, self.selector] * self.acts[..., None]  # field, mode, corner, 2
        return torch.einsum("fmcr,crpq->fmpq", entries, self.turns.to(entries))

    def matrices(self, like: Tensor) -> Matrices:
        """The transforms of this filter's axes."""
        return wave_matrices(self.shape, self.waves, like=like)

    def forward(self, values: Float[Tensor, "field *space column"]) -> Float[Tensor, "field *space column"]:
        """F⁻¹(R · F v), written plainly; attention layers use the parts."""
        matrices = self.matrices(values)
        coefficients = analysis(values, matrices)
        return synthesis(self.blocks().to(values) @ coefficients, matrices)


def _places(shape: Sequence[int], modes: Sequence[int], waves: Sequence[int]) -> NDArray[np.int64]:
    """(mode, sign pattern of the first axes) -> flat place in (corner, *modes), or -1 where nothing is retained."""
    dimension = len(shape)
    # Corners are numbered as they are written: the first axis' bit runs fastest, later ones cover earlier ones.
    table = np.arange(2 ** (dimension - 1) * int(np.prod(modes))).reshape(-1, *modes)
    positions = np.full((*waves, 2 ** (dimension - 1)), -1)
    for wave in np.ndindex(*waves):
        for number, signs in enumerate(product((1, -1), repeat=dimension - 1)):
            corner, local = 0, []
            for axis, sign in enumerate(signs):
                row, start = (sign * wave[axis]) % shape[axis], shape[axis] - modes[axis]
                covered = row >= start
                corner += int(covered) << axis
                local.append(row - start if covered else row)
            if all(row < kept for row, kept in zip(local, modes, strict=False)):
                positions[(*wave, number)] = table[(corner, *local, wave[-1])]
    return positions.transpose(*reversed(range(dimension)), dimension).reshape(-1, 2 ** (dimension - 1))


def _turns(dimension: int) -> NDArray[np.float64]:
    """(sign pattern, real or imaginary, parity out, parity in): how R acts on cosines and sines.

    Turning an axis by a quarter, J: (c, s) -> (s, -c), multiplies its waves of sign σ by iσ. The multiplier is
    Σ_S coefficient_S Π_{a in S} J_a over the subsets S of axes, coefficient_S = mean over σ of Re[R_σ Π conj(iσ_a)].
    """
    patterns = list(product((1, -1), repeat=dimension - 1))
    parities = list(product((0, 1), repeat=dimension))
    turns = np.zeros((len(patterns), 2, len(parities), len(parities)))
    for number, signs in enumerate(patterns):
        for out, into in np.ndindex(len(parities), len(parities)):
            swapped = [a for a in range(dimension) if parities[out][a] != parities[into][a]]
            sign = float(np.prod([(*signs, 1)[a] * (-1) ** parities[out][a] for a in swapped]))
            factor = (-1j) ** len(swapped) * sign / len(patterns)  # Re[R · factor]
            turns[number, :, out, into] = factor.real, -factor.imag
    return turns


def _check_modes(shape: Sequence[int], modes: Sequence[int]) -> None:
    fits = len(modes) == len(shape) and all(1 <= m <= n // 2 + 1 for m, n in zip(modes, shape, strict=True))
    if not fits:
        raise GridError(
            expected=f"one number of modes per axis, at most {tuple(n // 2 + 1 for n in shape)}", got=tuple(modes),
            remedy="retain fewer modes or refine the grid",
        )  # fmt: skip

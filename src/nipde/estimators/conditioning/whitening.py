"""Pairs without their accidents: order, mixing and units removed, noise accounted for.

    G = FᵀΣF = V diag(s) Vᵀ,   F̃ = F V / √(s + λ),   Ũ = U V / √(s + λ) · level,   Σ = Φ diag(σ(k)) Φᵀ

λ is the noise of the responses in units of G. (F Q, U Q) gives the same (F̃, Ũ) up to a rotation of pairs: for
orthogonal Q at any noise, for every invertible Q at zero noise. What follows must be blind to rotations.
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.estimators.conditioning.wavenumber import inverse_square
from nipde.grid import Grid
from nipde.spectral.transform import transform

#: Directions of loads weaker than this many smallest steps of the precision, relative to the strongest, carry nothing.
FLOOR = 16.0


@dataclass(frozen=True, eq=False)
class Whitened:
    """A batch of systems with one axis; responses are multiplied by `level`, so that -Δu = f has level 1."""

    grid: Grid
    loads: Float[Tensor, "system pair component *space"]
    responses: Float[Tensor, "system pair component *space"]
    #: Standard deviation of the error of every whitened response, in its own unit.
    noise: Float[Tensor, "system pair"]
    #: The same of every whitened load.
    load_noise: Float[Tensor, "system pair"]
    #: Stiffness of the best constant medium: load per response.
    level: Float[Tensor, " system"]
    #: V, s + λ, and λ.
    mixing: Float[Tensor, "system old pair"]
    strengths: Float[Tensor, "system pair"]
    penalty: Float[Tensor, " system"]

    def __getitem__(self, systems: slice) -> "Whitened":
        of = {field.name: getattr(self, field.name)[systems] for field in fields(self) if field.name != "grid"}
        return Whitened(self.grid, **of)

    def turned(self, given: Float[Tensor, "system old component *space"]) -> Float[Tensor, "system pair *rest"]:
        """Fields of the original pairs, mixed by V."""
        return torch.einsum("sop,so...->sp...", self.mixing.to(given), given)


def whiten(
    pairs: Pairs, *, metric: Float[Tensor, "*mode"], noise: Float[Tensor, " system"], balance: Float[Tensor, ""]
) -> Whitened:
    """`metric` is σ(k), `noise` that of the responses; `balance` weighs noise against what the prior does not know."""
    grid, waves = pairs.grid, transform(pairs.grid)
    laplace = inverse_square(grid, pairs.loads)
    coefficients = waves.analysis(pairs.loads).double()
    smooth = coefficients * laplace.double()
    seen = (coefficients * metric.double().sqrt()).flatten(2)
    gram = seen @ seen.mT
    _check_finite(gram)
    response = waves.analysis(pairs.responses).double()
    precision = torch.finfo(pairs.responses.dtype).eps
    rms = pairs.responses.double().square().flatten(1).mean(1).sqrt()
    # Rounding is noise, too.
    noise = (noise.double().square() + (precision * rms).square()).sqrt()
    scale = _level(smooth.flatten(1), response.flatten(1))
    load_noise = level_or_zero(pairs.load_noise, gram).expand(len(gram))
    # Noise of a load reaches the response smoothed.
    passed = float(grid.volume / grid.size) * laplace.double().square().sum() / float(grid.volume)
    penalty = balance.double() * ((noise * scale).square() + load_noise.square() * passed) * float(grid.volume)
    strengths, mixing = torch.linalg.eigh(gram)
    floor = FLOOR * torch.finfo(gram.dtype).eps * strengths[:, -1]
    penalty = torch.maximum(penalty, floor)
    strengths = strengths.clamp(min=0) + penalty[:, None]
    share = strengths.rsqrt()
    loads, responses = (
        torch.einsum("sop,so...->sp...", mixing * share[:, None], field.double())
        for field in (pairs.loads, pairs.responses)
    )
    mixed = torch.einsum("sop,so...->sp...", mixing * share[:, None], smooth), waves.analysis(responses)
    level = _level(*(field.flatten(1) for field in mixed))
    return Whitened(
        grid=grid,
        loads=loads.to(pairs.loads),
        responses=(responses * level[:, None, *(None,) * (grid.dimension + 1)]).to(pairs.loads),
        noise=(noise[:, None] * share * level[:, None]).to(pairs.loads),
        load_noise=(load_noise[:, None] * share).to(pairs.loads),
        level=level,
        mixing=mixing,
        strengths=strengths,
        penalty=penalty,
    )


def level_or_zero(noise: Tensor | float | None, like: Tensor) -> Tensor:
    """A level of noise as a tensor; 0 where nobody gives one."""
    return torch.as_tensor(0.0 if noise is None else noise).to(like)


def _level(
    smooth: Float[Tensor, "system number"], response: Float[Tensor, "system number"]
) -> Float[Tensor, " system"]:
    """c of the best fit u = Δ⁻¹f / c; where none fits, or none is positive, the ratio of their sizes."""
    own = smooth.square().sum(1)
    ratio = (own / response.square().sum(1)).sqrt()
    if smooth.shape != response.shape:
        return ratio
    fit = (smooth * response).sum(1)
    aligned = fit / (own.sqrt() * response.square().sum(1).sqrt())
    return torch.where(aligned > 0.1, own / torch.where(aligned > 0.1, fit, 1.0), ratio)


def _check_finite(gram: Tensor) -> None:
    if not bool(torch.isfinite(gram).all()):
        raise PairsError(expected="finite loads", got="others", remedy="see Pairs.check_finite")

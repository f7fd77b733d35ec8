"""Pairs as a prior takes them: gaps filled, noise estimated; then order, mixing and units removed by whitening.

    G = FᵀΣF = V diag(s) Vᵀ,   F̃ = F V / √(s + λ),   Ũ = U V / √(s + λ) · c,   Σ = Φ diag(σ(k)) Φᵀ

λ is the noise of the responses in units of G, c the stiffness of the best constant coefficient. (F Q, U Q) gives the
same (F̃, Ũ) up to a rotation of pairs: for orthogonal Q at any noise, for every invertible Q at zero noise. Priors must
be invariant under rotations.

Gaps are imputed: smooth at first, then by the predictions of the kernel, repeatedly. The change of a round in the gaps
is taken for noise in the next round. In the end the imputed values count as exact, so that the measured ones are
reproduced.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.context.noise import level_like
from nipde.context.pairs import Pairs
from nipde.discretisation.conjugate_gradients import reorthogonalised_steps
from nipde.discretisation.tensor_links import tensor_links
from nipde.errors import PairsError
from nipde.grid import Grid
from nipde.kernels.base import Predictor
from nipde.spectral.slab_transform import SlabTransform
from nipde.spectral.transform import transform

#: Directions of loads weaker than this many smallest steps of the precision, relative to the strongest, carry nothing.
FLOOR = 16.0
#: Directions of loads below this share of the strongest are compared with their responses; see `_contradiction`.
WEAK, CONTRADICTS = 1e-4, 100.0
#: Share of the modes, the shortest waves, that count as noise.
SHORTEST = 0.2
#: Rounds of imputation, steps of the first one, and its error, as a share of the responses.
ROUNDS, SMOOTHING, FIRST = 5, 60, 0.05


@dataclass(frozen=True, eq=False)
class Whitened:
    """A batch of systems with one axis; responses are multiplied by `stiffness_scale`, which is 1 for -Δu = f."""

    #: Fields are those of its partition's rows.
    waves: SlabTransform
    loads: Float[Tensor, "system pair component *space"]
    responses: Float[Tensor, "system pair component *space"]
    #: Standard deviation of the error of every whitened response, in its own unit.
    noise: Float[Tensor, "system pair"]
    #: The same of every whitened load.
    load_noise: Float[Tensor, "system pair"]
    #: Stiffness of the best constant coefficient, load per response.
    stiffness_scale: Float[Tensor, " system"]
    #: V, s + λ, and λ.
    mixing: Float[Tensor, "system old pair"]
    strengths: Float[Tensor, "system pair"]
    penalty: Float[Tensor, " system"]

    @property
    def grid(self) -> Grid:
        """The whole one."""
        return self.waves.grid

    def __getitem__(self, systems: slice) -> "Whitened":
        of = {field.name: getattr(self, field.name)[systems] for field in fields(self) if field.name != "waves"}
        return Whitened(self.waves, **of)

    def mixed(self, given: Float[Tensor, "system old component *space"]) -> Float[Tensor, "system pair *rest"]:
        """Fields of the original pairs, mixed by V."""
        return torch.einsum("sop,so...->sp...", self.mixing.to(given), given)


def whiten(
    loads: Float[Tensor, "system pair component *space"],
    responses: Float[Tensor, "system pair component *space"],
    *,
    waves: SlabTransform,
    metric: Float[Tensor, "*mode"],
    noise: Float[Tensor, " system"],
    balance: Float[Tensor, ""],
    load_noise: Tensor | float | None = None,
) -> Whitened:
    """`metric` is σ(k), `noise` that of the responses; `balance` weighs noise against what the prior does not know."""
    grid, total = waves.grid, waves.partition.total
    laplace = waves.inverse_laplacian(loads)
    coefficients = waves.analysis(loads).double()
    smooth = coefficients * laplace.double()
    scaled = (coefficients * metric.double().sqrt()).flatten(2)
    gram = total(scaled @ scaled.mT)
    if not bool(torch.isfinite(gram).all()):
        raise PairsError(expected="finite loads", got="others", remedy="see Pairs.check_finite")
    response = waves.analysis(responses).double()
    precision = torch.finfo(responses.dtype).eps
    count, components = responses.shape[1:3]
    rms = (total(responses.double().square().flatten(1).sum(1)) / (count * components * grid.size)).sqrt()
    # Rounding is noise, too.
    noise = (noise.double().square() + (precision * rms).square()).sqrt()
    scale = _stiffness(smooth.flatten(1), response.flatten(1), waves=waves)
    load_noise = noise_or_zero(load_noise, gram).expand(len(gram))
    # Noise of a load reaches the response smoothed.
    passed = float(grid.volume / grid.size) * total(laplace.double().square().sum()) / float(grid.volume)
    strengths, mixing = torch.linalg.eigh(gram)
    noise = torch.maximum(noise, _contradiction(strengths, mixing, responses, noise=noise, waves=waves))
    penalty = balance.double() * ((noise * scale).square() + load_noise.square() * passed) * float(grid.volume)
    floor = FLOOR * torch.finfo(gram.dtype).eps * strengths[:, -1]
    penalty = torch.maximum(penalty, floor)
    strengths = strengths.clamp(min=0) + penalty[:, None]
    share = strengths.rsqrt()
    mixed_loads, mixed_responses, mixed_smooth = (
        torch.einsum("sop,so...->sp...", mixing * share[:, None], field.double())
        for field in (loads, responses, smooth)
    )
    stiffness = _stiffness(mixed_smooth.flatten(1), waves.analysis(mixed_responses).flatten(1), waves=waves)
    return Whitened(
        waves=waves,
        loads=mixed_loads.to(loads),
        responses=(mixed_responses * stiffness[:, None, *(None,) * (grid.dimension + 1)]).to(loads),
        noise=(noise[:, None] * share * stiffness[:, None]).to(loads),
        load_noise=(load_noise[:, None] * share).to(loads),
        stiffness_scale=stiffness,
        mixing=mixing,
        strengths=strengths,
        penalty=penalty,
    )


@torch.no_grad()
def _contradiction(
    strengths: Float[Tensor, "system pair"],
    mixing: Float[Tensor, "system old pair"],
    responses: Float[Tensor, "system old component *space"],
    *,
    noise: Float[Tensor, " system"],
    waves: SlabTransform,
) -> Float[Tensor, " system"]:
    """Noise that pairs prove, where it is far above the stated one: equal loads with different responses.

    In a mixture of pairs whose load is almost 0, a response that is `CONTRADICTS` times what other loads cause is
    noise, or the error of values that were filled in. If it counted as exact, the kernel would have no bound.
    """
    strongest = strengths[:, -1:]
    weak = strengths <= WEAK * strongest
    if not bool(weak.any()):
        return torch.zeros_like(noise)
    mixed = torch.einsum("sop,so...->sp...", mixing, responses.double())
    squares = waves.partition.total(mixed.square().flatten(2).sum(2)) / (waves.grid.size * responses.shape[2])
    usual = squares.sum(1, keepdim=True) / strengths.sum(1, keepdim=True)
    possible = CONTRADICTS**2 * usual * (strengths.clamp(min=0) + FLOOR * torch.finfo(strengths.dtype).eps * strongest)
    proven = weak & (squares > possible) & (squares > 9 * noise[:, None].square())
    return torch.where(proven, squares, 0).amax(1).sqrt()


def noise_level(grid: Grid, fields: Float[Tensor, "system pair component *space"]) -> Float[Tensor, " system"]:
    """Standard deviation of white noise per node, of every system; an upper bound where the fields are rough."""
    waves = transform(grid)
    squares = waves.squared_wavenumbers(fields).flatten()
    count = max(1, int(SHORTEST * len(squares)))
    shortest = squares.topk(count).indices
    coefficients = waves.analysis(fields).flatten(-grid.dimension)[..., shortest]
    # White noise of variance ν² per node has coefficients of variance ν² w, w the volume of a cell.
    cell = float(grid.volume) / grid.size
    return (coefficients.double().square().flatten(1).mean(1) / cell).sqrt().to(fields)


def impute(pairs: Pairs, estimate: Callable[[Pairs], Predictor], *, loaded: bool = False) -> Pairs:
    """The same pairs without gaps; `estimate` is an estimator of complete fields, `loaded` as in `smooth_filling`."""
    assert pairs.mask is not None
    gaps = (~pairs.mask).double().flatten(1)
    share = gaps.mean(1).sqrt()
    noise = noise_or_zero(pairs.noise, pairs.loads)
    known = torch.where(pairs.mask, pairs.responses, 0)
    size = (known.square().flatten(1).sum(1) / (1 - gaps).sum(1)).sqrt()
    filled = smooth_filling(pairs, loaded=loaded)
    error = FIRST * size
    for _ in range(ROUNDS):
        total = (noise.square() + (share.to(size) * error).square()).sqrt()
        kernel = estimate(replace(pairs, responses=filled, mask=None, noise=total))
        imputed = torch.where(pairs.mask, pairs.responses, kernel.predict(pairs.loads))
        error = ((imputed - filled).square().flatten(1).sum(1) / gaps.sum(1).clamp(min=1)).sqrt().to(size)
        filled = imputed
    return replace(pairs, responses=filled, mask=None)


def smooth_filling(pairs: Pairs, *, loaded: bool = False) -> Float[Tensor, "system pair component *space"]:
    """Gaps closed by the harmonic field through the measured values; 0 on Dirichlet nodes.

    If `loaded`, by the field -c Δu = f of the best constant c: without kinks that the loads do not explain.
    """
    assert pairs.mask is not None
    links = tensor_links(pairs.grid, pairs.responses)
    gap = (~pairs.mask).to(pairs.loads) * links.is_unknown
    known = torch.where(pairs.mask, pairs.responses, 0) * links.is_unknown

    def stiffness(field: Tensor) -> Tensor:
        return links.laplacian(field) * gap

    pull = -stiffness(known)
    if loaded and pairs.components[0] == pairs.components[1]:
        pull = pull + _compliance(pairs, known)[(..., *(None,) * (known.ndim - 1))] * pairs.loads * links.volume * gap
    diagonal = torch.ones_like(known) * 2 * torch.stack([factor.mean() for factor in links.factors]).sum()
    return known + reorthogonalised_steps(stiffness, pull, diagonal=diagonal, iterations=SMOOTHING)


def _compliance(pairs: Pairs, known: Float[Tensor, "system pair component *space"]) -> Float[Tensor, " system"]:
    """1/c of the best fit u = (-Δ)⁻¹f / c to the measured values; 0 where none is positive."""
    waves = transform(pairs.grid)
    unit = waves.synthesis(waves.analysis(pairs.loads) * waves.inverse_laplacian(pairs.loads)) * (known != 0)
    fit, own = ((unit * field).flatten(1).sum(1) for field in (known, unit))
    return (fit / torch.where(own > 0, own, 1)).clamp(min=0)


def noise_or_zero(noise: Tensor | float | None, like: Tensor) -> Tensor:
    """Noise as a tensor; 0 where it is not known."""
    return level_like(0.0 if noise is None else noise, like)


def _stiffness(
    smooth: Float[Tensor, "system number"], response: Float[Tensor, "system number"], *, waves: SlabTransform
) -> Float[Tensor, " system"]:
    """c of the best fit u = Δ⁻¹f / c; where none fits, or none is positive, the ratio of their sizes."""
    sums = [smooth.square().sum(1), response.square().sum(1)]
    if smooth.shape == response.shape:
        sums.append((smooth * response).sum(1))
    own, size, *rest = waves.partition.total(torch.stack(sums))
    ratio = (own / size).sqrt()
    if not rest:
        return ratio
    fit = rest[0]
    aligned = fit / (own.sqrt() * size.sqrt())
    return torch.where(aligned > 0.1, own / torch.where(aligned > 0.1, fit, 1.0), ratio)

"""Conditioned NIPS: infer a prior kernel from what the pairs share, then condition it exactly on the pairs.

    K = K_θ + Φ [(Φᵀ (U - K_θ F) V) / (s + λ/γ(k))] Vᵀ Fᵀ Σ

Any number of pairs, any grid, one set of weights. (F Q, U Q) gives the same kernel for orthogonal Q at any noise, and
for every invertible Q at zero noise; then the kernel reproduces its context. See docs/conditioned.md.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.estimators.conditioning.elliptic_prior import EllipticPrior
from nipde.estimators.conditioning.gated_prior import GatedPrior
from nipde.estimators.conditioning.noise_level import noise_level
from nipde.estimators.conditioning.wavenumber import WaveFunction, inverse_square
from nipde.estimators.conditioning.whitening import Whitened, whiten
from nipde.grid import Grid
from nipde.kernels.conditioned import ConditionedKernel, Seen
from nipde.kernels.low_rank import LowRankKernel
from nipde.spectral.transform import transform


class ConditionedNIPS(nn.Module):
    """`prior`: a balance law with inferred coefficients (`elliptic`, with `drift` or without), or `gated`, no law."""

    def __init__(
        self,
        *,
        dimension: int,
        components: tuple[int, int] = (1, 1),
        prior: Literal["elliptic", "gated"] = "elliptic",
        drift: bool = False,
        channels: int = 32,
        terms: int = 12,
    ) -> None:
        super().__init__()
        self.dimension, self.components = dimension, components
        if prior == "elliptic" and components != (1, 1):
            raise PairsError(
                "the elliptic prior is a scalar law", expected="1 component", got=components, remedy="use prior='gated'"
            )
        self.prior: nn.Module = (
            EllipticPrior(dimension, channels=channels, drift=drift)
            if prior == "elliptic"
            else GatedPrior(dimension, components=components, channels=channels, terms=terms)
        )
        #: log of σ(k)·|k|⁴ and of γ(k).
        self.waves = WaveFunction(2)
        #: log of the weight of noise against what the prior does not know.
        self.balance = nn.Parameter(torch.tensor(4.0))

    def forward(self, pairs: Pairs) -> ConditionedKernel:
        """The kernel in physical units; batch axes of the pairs are its batch axes."""
        self._check(pairs)
        flat = _one_axis(pairs)
        if pairs.noise is None:
            # Responses are rougher than noise is small; what a first kernel cannot explain of them is not.
            first = self._kernel(flat, noise_level(flat.grid, flat.responses)).prior
            noise = noise_level(flat.grid, flat.responses - first.predict(flat.loads))
        else:
            noise = torch.as_tensor(flat.noise, dtype=flat.loads.dtype, device=flat.loads.device).expand(flat.batch)
        return self._kernel(flat, noise).with_batch(pairs.batch)

    def _kernel(self, flat: Pairs, noise: Float[Tensor, " system"]) -> ConditionedKernel:
        """Of systems along one axis, their noise known."""
        metric, smoothness = self._functions(flat.grid)
        whitened = whiten(flat, metric=metric, noise=noise, balance=self.balance.exp())
        prior = self.prior(whitened) * (1 / whitened.level).to(flat.loads)
        residual = whitened.turned(flat.responses - prior.predict(flat.loads))
        left = self._shared_out(residual, whitened, smoothness)
        right = self._right(whitened, flat, metric)
        seen = Seen(metric, whitened.strengths.to(flat.loads), whitened.penalty.to(flat.loads))
        return ConditionedKernel(flat.grid, prior, LowRankKernel(flat.grid, left, right), seen)

    def _functions(self, grid: Grid) -> tuple[Float[Tensor, "*mode"], Float[Tensor, "*mode"]]:
        """σ(k) and γ(k)."""
        metric, smoothness = self.waves(grid).exp()
        inverse = inverse_square(grid, metric)
        return metric * inverse.square(), smoothness * inverse / inverse.max()

    def _shared_out(
        self, residual: Float[Tensor, "system pair component *space"], whitened: Whitened, smoothness: Tensor
    ) -> Tensor:
        """What every direction of loads adds: all of its residual at zero noise, else what is not noise."""
        strengths, penalty = whitened.strengths.to(residual), whitened.penalty.to(residual)
        axes = (..., None, *(None,) * self.dimension)
        exact = residual / strengths[axes]
        if not bool((whitened.noise > 0).any()):
            return exact
        signal = (strengths - penalty[:, None]).clamp(min=0)
        waves = transform(whitened.grid)
        kept = 1 / (signal[axes] + penalty[:, None][axes] / smoothness)
        return waves.synthesis(waves.analysis(residual) * kept)

    def _right(self, whitened: Whitened, pairs: Pairs, metric: Tensor) -> Tensor:
        waves = transform(pairs.grid)
        return waves.synthesis(waves.analysis(whitened.turned(pairs.loads)) * metric)

    def _check(self, pairs: Pairs) -> None:
        pairs.refuse_mask("ConditionedNIPS")
        if pairs.grid.dimension != self.dimension or pairs.components != self.components:
            raise PairsError(
                "pairs do not fit the weights",
                expected=f"{self.dimension} axes and components {self.components} of response and load",
                got=f"{pairs.grid.dimension} and {pairs.components}",
                remedy="choose other weights",
            )


def _one_axis(pairs: Pairs) -> Pairs:
    """All systems along one axis."""
    shape = pairs.loads.shape[len(pairs.batch) :]
    noise = pairs.noise.reshape(-1) if isinstance(pairs.noise, Tensor) and pairs.noise.ndim else pairs.noise
    return Pairs(
        pairs.grid,
        pairs.loads.reshape(-1, *shape),
        pairs.responses.reshape(-1, *pairs.responses.shape[-len(shape) :]),
        None,
        noise,
    )

"""How much of what a prior leaves of its context is linear in the load: weights 1/(s_j + λ), λ by cross-validation.

    GCV(λ) = Σ_j (λ/(s_j + λ))² ‖r_j‖² / (1 - Σ_j s_j/(s_j + λ) / d)²

r_j is what is left in direction j of the loads. λ = ∞ keeps nothing. Blind to rotations of pairs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.estimators.conditioning.whitening import Whitened

#: Penalties tried, over the strongest direction.
PENALTIES = tuple(10.0**power for power in range(-10, 3))


@torch.no_grad()
def linear_part(
    residual: Float[Tensor, "system pair component *space"], whitened: Whitened
) -> tuple[Float[Tensor, "system pair"], Float[Tensor, " system"]]:
    """The weights, zero for systems of which nothing linear is left; and the score they reach."""
    strengths = (whitened.strengths - whitened.penalty[:, None]).clamp(min=0)
    sizes = residual.double().square().flatten(2).sum(2)
    penalties = strengths.new_tensor(PENALTIES)[:, None] * strengths.amax(1)
    share = penalties[..., None] / (strengths + penalties[..., None])
    scores = (share.square() * sizes).sum(-1) / share.mean(-1).square()
    best = scores.argmin(0)
    chosen = penalties.gather(0, best[None]).squeeze(0)
    lowest, nothing = scores.gather(0, best[None]).squeeze(0), sizes.sum(1)
    kept = torch.where((lowest < nothing)[:, None], 1 / (strengths + chosen[:, None]), 0.0)
    return kept.to(residual), torch.minimum(lowest, nothing)

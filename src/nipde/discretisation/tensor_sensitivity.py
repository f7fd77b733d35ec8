"""Derivative of A(θ) u by θ = (log b, v) on tensors: δ(A u) = Dᵀ(D u · S δ log b) + Dᵀ(M u · area M δv)."""

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.discretisation.operator import log_means, transports_of
from nipde.discretisation.tensor_links import TensorLinks


class TensorSensitivity:
    """J around coefficients θ for given responses u; θ has one field, log b, or one more per axis, the drift v."""

    def __init__(
        self,
        links: TensorLinks,
        coefficients: Float[Tensor, "system coefficient *space"],
        responses: Float[Tensor, "system pair *space"],
        *,
        mean_power: float | Tensor,
    ) -> None:
        self.links, self.with_drift = links, coefficients.shape[1] > 1
        log = coefficients[:, 0]
        #: ∂c / ∂ log b of the two cells of a link: c (b/mean)^p / 2.
        self.slopes = []
        for axis, mean in enumerate(log_means(links, log, mean_power)):
            conductance = mean.exp() * links.factors[axis]
            ends = (links.first(log, axis), links.second(log, axis))
            self.slopes.append(tuple(conductance * (mean_power * (end - mean)).exp() / 2 for end in ends))
        self.drops, self.means = links.difference(responses), links.means(responses)

    def jvp(self, change: Float[Tensor, "system coefficient *space"]) -> Float[Tensor, "system pair *space"]:
        """J times a change of the coefficients."""
        links, flows = self.links, []
        carried = transports_of(links, change[:, 1:]) if self.with_drift else ()
        for axis, (near, far) in enumerate(self.slopes):
            amount = near * links.first(change[:, 0], axis) + far * links.second(change[:, 0], axis)
            flow = amount.unsqueeze(1) * self.drops[axis]
            flows.append(flow + carried[axis].unsqueeze(1) * self.means[axis] if self.with_drift else flow)
        return links.divergence(tuple(flows)) * links.is_unknown

    def vjp(self, adjoint: Float[Tensor, "system pair *space"]) -> Float[Tensor, "system coefficient *space"]:
        """Jᵀ times one field per pair, zero where the response is given."""
        drops = self.links.difference(adjoint * self.links.is_unknown)
        of_drops = [(drop * own).sum(1) for drop, own in zip(drops, self.drops, strict=True)]
        of_means = [(drop * own).sum(1) for drop, own in zip(drops, self.means, strict=True)] if self.with_drift else []
        return self._gathered(of_drops, of_means, power=1)

    def diagonal(self, weights: Float[Tensor, "system pair *one"]) -> Float[Tensor, "system coefficient *space"]:
        """The diagonal of Jᵀ W⁻¹ Q J, roughly: links as if they were alone, `weights` the mean of Q of every pair."""
        links = self.links
        volumes = [area * axis.spacing / 2 for area, axis in zip(links.areas, links.grid.axes, strict=True)]
        of_drops, of_means = (
            [(own.square() * weights).sum(1) / volume for own, volume in zip(fields, volumes, strict=True)]
            for fields in (self.drops, self.means)
        )
        return self._gathered(of_drops, of_means if self.with_drift else [], power=2)

    def _gathered(self, of_drops: list[Tensor], of_means: list[Tensor], *, power: int) -> Tensor:
        """Amounts on links to cells, times the slopes by log b and by v to a power."""
        links = self.links
        material = torch.zeros_like(links.volume)
        for axis, ((near, far), amount) in enumerate(zip(self.slopes, of_drops, strict=True)):
            material = (
                material + links.to_first(near**power * amount, axis) + links.to_second(far**power * amount, axis)
            )
        drift = []
        for axis, amount in enumerate(of_means):
            carried = (links.areas[axis] / 2) ** power * amount
            drift.append(links.to_first(carried, axis) + links.to_second(carried, axis))
        return torch.stack([material, *drift], 1)

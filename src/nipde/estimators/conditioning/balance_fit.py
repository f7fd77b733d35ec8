"""Coefficients that whitened pairs keep in balance: Gauss-Newton steps for -∇·(b ∇u) + ∇·(v u) = f, b and v unknown.

    min over θ = (log b, v) of  Σ_j ‖f_j - A(θ) u_j‖²_Q(j)  +  Σ (θ - θ₀)² p w  +  Σ_faces q (Dθ)²
    Q(j) = Φ diag(1 / (m² + ν_j² λ_k²)) Φᵀ / cell      (m² holds the noise of the loads, if they have any)

The residual is linear in b at every face, and its noise, A times that of u_j, is known: Q weighs it down where it is
rough. At zero noise the balance holds at every node and θ is exact after a few steps; with noise the slopes of u that
multiply the unknowns come from the solution of the step before, or the noise in them would bias θ. All sums run over
pairs, so rotating the pairs changes nothing.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.estimators.conditioning.orthogonal_gradients import conjugate_gradients
from nipde.estimators.conditioning.whitening import Whitened
from nipde.kernels.elliptic import log_cosh_ratio
from nipde.kernels.fluxes import Fluxes, fluxes_of
from nipde.spectral.transform import Transform, transform

#: Longest step of a coefficient.
LONGEST = 2.0
#: Largest logarithm of a coefficient over the best constant.
EXTREME = 4.0
#: Parts of a step that are tried.
SHARES = (1.0, 0.5, 0.2, 0.05)


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed of the coefficients: near `centre` with `certainty` p, even with `evenness` q.

    `faces`, one field per axis, is the evenness of every face, where it is not that of the nodes around.
    """

    centre: Float[Tensor, "system coefficient *space"]
    certainty: Float[Tensor, "system coefficient *space"]
    evenness: Float[Tensor, "system coefficient *space"]
    faces: tuple[Tensor, ...] | None = None

    def __getitem__(self, systems: slice) -> "Belief":
        faces = None if self.faces is None else tuple(face[systems] for face in self.faces)
        return Belief(self.centre[systems], self.certainty[systems], self.evenness[systems], faces)


class BalanceFit:
    """Whitened pairs of a scalar law, ready for steps."""

    def __init__(self, pairs: Whitened, *, model_error: Float[Tensor, ""], mean_power: float | Tensor) -> None:
        self.pairs, self.grid = pairs, pairs.grid
        self.fluxes: Fluxes = fluxes_of(pairs.grid, pairs.loads)
        self.waves: Transform = transform(pairs.grid)
        self.mean_power = torch.as_tensor(mean_power).detach()
        self.loads, self.responses = pairs.loads[:, :, 0], pairs.responses[:, :, 0] * self.fluxes.free
        self.cell = float(pairs.grid.volume) / pairs.grid.size
        eigenvalues = self.fluxes.eigenvalues
        power = self.waves.analysis(self.loads).square().mean(self._space, keepdim=True)
        size = model_error**2 * power.mean(1, keepdim=True) / self.cell
        axes = (..., *(None,) * self.grid.dimension)
        noise = pairs.noise.square()[axes] * eigenvalues.square()
        #: Weight of every mode of every pair's residual.
        self.weights = 1 / (size + pairs.load_noise.square()[axes] + noise) / self.cell
        self.drops, self.means = self.fluxes.drops(self.responses), self.fluxes.means(self.responses)
        #: Responses without the waves that are mostly noise.
        kept = power / (power + noise * self.cell)
        self.smoothed = self.waves.synthesis(self.waves.analysis(self.responses) * kept)

    def step(
        self,
        coefficients: Float[Tensor, "system coefficient *space"],
        belief: Belief,
        *,
        slopes_of: Float[Tensor, "system pair *space"],
        iterations: int,
        careful: bool = False,
    ) -> Float[Tensor, "system coefficient *space"]:
        """The next coefficients, differentiable in belief and model error; `careful` may go a part of the way."""
        view = Linearised(self, coefficients.detach(), slopes_of.detach())
        with torch.no_grad():
            gradient = self._descent(view, belief, torch.zeros_like(coefficients))
            diagonal = view.information() + self._belief_diagonal(belief)

            def normal(change: Tensor) -> Tensor:
                return view.normal(change) + self.belief_pull(belief, change)

            def solve(right: Tensor) -> Tensor:
                return conjugate_gradients(normal, diagonal, right, iterations)

            # Pairs that keep no balance at all may leave no finite step; then the coefficients stay as they are.
            change = torch.nan_to_num(solve(gradient), 0.0, 0.0, 0.0)
            share = self._share(view, belief, change) if careful else 1.0
        if belief.centre.requires_grad:
            change = change + _through(self._descent(view, belief, change), solve)
        return self._within(view.point + share * change.clamp(-LONGEST, LONGEST))

    def _within(self, coefficients: Tensor) -> Tensor:
        """No material is more than e^±`EXTREME` from the mean."""
        log, *drift = coefficients.unbind(1)
        return torch.stack([log.clamp(-EXTREME, EXTREME), *drift], 1)

    def _share(self, view: "Linearised", belief: Belief, change: Tensor) -> Float[Tensor, "system 1 *one"]:
        """How much of a step to take: what leaves the least, of a few."""
        change = change.clamp(-LONGEST, LONGEST)
        left = torch.stack([self._left(view.point + share * change, belief) for share in SHARES])
        best = change.new_tensor(SHARES)[left.nan_to_num(torch.inf).argmin(0)]
        return best[(..., *(None,) * (change.ndim - 1))]

    def _left(self, coefficients: Tensor, belief: Belief) -> Float[Tensor, " system"]:
        """What the minimum is sought of."""
        residual = self.residual(coefficients)
        data = (self.waves.analysis(residual / self.fluxes.weights).square() * self.weights).flatten(1).sum(1)
        certain = belief.certainty * self.fluxes.weights * (coefficients - belief.centre).square()
        faces = zip(self._evenness(belief), self.fluxes.drops(coefficients), strict=True)
        rough = [(q * drop.square()).flatten(1).sum(1) for q, drop in faces]
        return data + certain.flatten(1).sum(1) + sum(rough)

    def residual(self, coefficients: Tensor) -> Float[Tensor, "system pair *space"]:
        """What the loads put into every cell and the responses do not carry out of it."""
        fluxes, (conductances, _) = self.fluxes, self.conductances(coefficients[:, 0])
        flows = [c.unsqueeze(1) * drop for c, drop in zip(conductances, self.drops, strict=True)]
        if coefficients.shape[1] > 1:
            transports = [
                fluxes.means(coefficients[:, 1 + axis])[axis] * area for axis, area in enumerate(fluxes.areas)
            ]
            flows = [flow + t.unsqueeze(1) * mean for flow, t, mean in zip(flows, transports, self.means, strict=True)]
        return (self.loads * fluxes.weights - fluxes.outflow(tuple(flows))) * fluxes.free

    def conductances(self, log: Float[Tensor, "system *space"]) -> tuple[list[Tensor], list[Tensor]]:
        """Of all faces, and the logarithm of the mean coefficient there."""
        halves = zip(self.fluxes.means(log), self.fluxes.drops(log), strict=True)
        logs = [middle + log_cosh_ratio(drop / 2, self.mean_power.to(log)) for middle, drop in halves]
        return [mean.exp() * shape for mean, shape in zip(logs, self.fluxes.shapes, strict=True)], logs

    def _descent(self, view: "Linearised", belief: Belief, change: Tensor) -> Tensor:
        """Minus the gradient of the quadratic at a change."""
        data = view.pull(view.residual - view.push(change))
        return data - self.belief_pull(belief, view.point + change - belief.centre, view.point + change)

    def belief_pull(self, belief: Belief, distance: Tensor, field: Tensor | None = None) -> Tensor:
        """p w (θ - θ₀) + Dᵀ q D θ."""
        field = distance if field is None else field
        rough = tuple(q * drop for q, drop in zip(self._evenness(belief), self.fluxes.drops(field), strict=True))
        return belief.certainty * self.fluxes.weights * distance + self.fluxes.outflow(rough)

    def _belief_diagonal(self, belief: Belief) -> Tensor:
        faces = enumerate(self._evenness(belief))
        around = [self.fluxes.to_first(q, axis) + self.fluxes.to_second(q, axis) for axis, q in faces]
        return belief.certainty * self.fluxes.weights + sum(around)

    def _evenness(self, belief: Belief) -> list[Tensor]:
        """q of every face."""
        if belief.faces is not None:
            return [q * shape for q, shape in zip(belief.faces, self.fluxes.shapes, strict=True)]
        return [q * shape for q, shape in zip(self.fluxes.means(belief.evenness), self.fluxes.shapes, strict=True)]

    @property
    def _space(self) -> tuple[int, ...]:
        return tuple(range(-self.grid.dimension, 0))


class Linearised:
    """The balance around one set of coefficients."""

    def __init__(self, fit: BalanceFit, point: Tensor, slopes_of: Tensor) -> None:
        self.fit, self.point, fluxes = fit, point, fit.fluxes
        self.drifts = point.shape[1] > 1
        log, power = point[:, 0], fit.mean_power.to(point)
        #: dc/dθ at the two nodes of a face.
        self.shares = [
            tuple(c * (power * (at(log, axis) - mean)).exp() / 2 for at in (fluxes.first, fluxes.second))
            for axis, (c, mean) in enumerate(zip(*fit.conductances(log), strict=True))
        ]
        self.drops, self.means = fluxes.drops(slopes_of), fluxes.means(slopes_of)
        self.residual = fit.residual(point)

    def push(self, change: Float[Tensor, "system coefficient *space"]) -> Float[Tensor, "system pair *space"]:
        """Change of every pair's outflow."""
        fluxes, flows = self.fit.fluxes, []
        for axis, (near, far) in enumerate(self.shares):
            amount = near * fluxes.first(change[:, 0], axis) + far * fluxes.second(change[:, 0], axis)
            flow = amount.unsqueeze(1) * self.drops[axis]
            if self.drifts:
                carried = fluxes.means(change[:, 1 + axis])[axis] * fluxes.areas[axis]
                flow = flow + carried.unsqueeze(1) * self.means[axis]
            flows.append(flow)
        return fluxes.outflow(tuple(flows)) * fluxes.free

    def pull(self, outflow: Float[Tensor, "system pair *space"]) -> Float[Tensor, "system coefficient *space"]:
        """The transpose of `push`, after Q."""
        fluxes, waves = self.fit.fluxes, self.fit.waves
        weighted = waves.synthesis(waves.analysis(outflow / fluxes.weights) * self.fit.weights) * fluxes.free
        drops = fluxes.drops(weighted)
        material: Any = 0.0
        found = []
        for axis, (near, far) in enumerate(self.shares):
            amount = (drops[axis] * self.drops[axis]).sum(1)
            material = material + fluxes.to_first(near * amount, axis) + fluxes.to_second(far * amount, axis)
            if self.drifts:
                carried = (drops[axis] * self.means[axis]).sum(1) * fluxes.areas[axis] / 2
                found.append(fluxes.to_first(carried, axis) + fluxes.to_second(carried, axis))
        return torch.stack([material, *found], 1)

    def normal(self, change: Tensor) -> Tensor:
        """Jᵀ Q J."""
        return self.pull(self.push(change))

    def information(self) -> Float[Tensor, "system coefficient *space"]:
        """The diagonal of Jᵀ Q J, roughly: faces as if they were alone."""
        fluxes = self.fit.fluxes
        weight = self.fit.weights.mean(tuple(range(-self.fit.grid.dimension, 0)), keepdim=True)
        material: Any = 0.0
        found = []
        for axis, (near, far) in enumerate(self.shares):
            face = 2 / (fluxes.areas[axis] * self.fit.grid.axes[axis].spacing)  # 1/w of the cells on both sides
            amount = (self.drops[axis].square() * weight).sum(1) * face
            material = material + fluxes.to_first(near.square() * amount, axis)
            material = material + fluxes.to_second(far.square() * amount, axis)
            if self.drifts:
                carried = (self.means[axis].square() * weight).sum(1) * face * fluxes.areas[axis] ** 2 / 4
                found.append(fluxes.to_first(carried, axis) + fluxes.to_second(carried, axis))
        return torch.stack([material, *found], 1)


class _Through(torch.autograd.Function):
    """0 forward; backward the gradient of M⁻¹ r at r = 0: M⁻¹ again."""

    @staticmethod
    def forward(context: Any, residual: Tensor, solve: Any) -> Tensor:
        context.solve = solve
        return torch.zeros_like(residual)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return context.solve(gradients[0]), None


def _through(residual: Tensor, solve: Any) -> Tensor:
    apply: Any = _Through.apply
    return apply(residual, solve)

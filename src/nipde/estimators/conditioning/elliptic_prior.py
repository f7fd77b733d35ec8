"""A prior that is the solution of a balance law whose coefficients the pairs reveal; the network learns what is likely.

First the balance alone, from a constant medium; then a network that has seen many media says what to believe; then the
balance again, with slopes of solved instead of measured responses. No value of b is ever shown in training.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nipde.errors import PairsError
from nipde.estimators.conditioning.balance_fit import BalanceFit, Belief, Linearised
from nipde.estimators.conditioning.material_posterior import MaterialPosterior
from nipde.estimators.conditioning.prior_net import PriorNet
from nipde.estimators.conditioning.whitening import Whitened
from nipde.grid import Grid
from nipde.kernels.elliptic import EllipticKernel, least_rough

#: Before the network speaks: log b within about 1/2 of a constant over a tenth of the box, and drift slow.
CERTAINTY, EVENNESS = 400.0, 0.3
#: The same for drift, in units of the diffusivity over the size of the box.
DRIFT_CERTAINTY, DRIFT_EVENNESS = 4.0, 0.01
#: τ and ε of a material of few phases, how much it is held where nothing is known, and rounds of reweighting.
SHARPNESS, SMALL_JUMP, SHARP_CERTAINTY, SHARP_STEPS = 10.0, 0.02, 1e-3, 6
#: The same of the field of least total variation.
FLATNESS, FLAT_STEPS = 100.0, 4

#: From jump² + ε² to the evenness of a face.
Evenness = Callable[[Tensor], Tensor]


class EllipticPrior(nn.Module):
    """Whitened pairs to a kernel A⁻¹ in whitened units."""

    def __init__(self, dimension: int, *, channels: int, drift: bool) -> None:
        super().__init__()
        self.coefficients = 1 + (dimension if drift else 0)
        self.first_steps, self.second_steps, self.iterations = 3, 2, 20
        #: Whether the material is believed to be of few phases; a wish of the user, not a weight.
        self.sharp = False
        self.model_error = nn.Parameter(torch.tensor(-6.0))
        self.mean_power = nn.Parameter(torch.tensor(-1.0))
        inputs = 3 * self.coefficients + 4
        self.net = PriorNet(dimension, inputs=inputs, outputs=3 * self.coefficients, channels=channels)

    def forward(self, pairs: Whitened) -> EllipticKernel:
        """Coefficients by balance, belief, balance."""
        return self._kernel_of(pairs, self._fitted(pairs)[1])

    def with_posteriors(self, pairs: Whitened) -> tuple[EllipticKernel, list[MaterialPosterior]]:
        """The same, and how sure the coefficients of every system are."""
        _, found, belief = self._fitted(pairs)
        solved = self._solved(pairs, found)
        before = Belief(torch.zeros_like(found), *self._constants(found))
        kernel = self._kernel_of(pairs, found)
        coefficients = (kernel * (1 / pairs.level).to(found)).coefficient
        posteriors = []
        for number, coefficient in enumerate(coefficients):
            one = slice(number, number + 1)
            view = Linearised(self._fit(pairs[one]), found[one], solved[one])
            posteriors.append(MaterialPosterior(view, belief[one], before[one], coefficient))
        return kernel, posteriors

    def _fit(self, pairs: Whitened) -> BalanceFit:
        return BalanceFit(pairs, model_error=self.model_error.exp(), mean_power=self.mean_power)

    def _fitted(self, pairs: Whitened) -> tuple[BalanceFit, Tensor, Belief]:
        """Coefficients with their checkerboard, and what was believed of them."""
        if not any(axis.boundary.clamped for axis in pairs.grid.axes):
            raise PairsError(
                "the elliptic prior solves its law",
                expected="a Dirichlet axis", got="none: u is free up to a constant",
                remedy="clamp an axis of the grid, or use a gated prior",
            )  # fmt: skip
        fit = self._fit(pairs)
        shape = (len(pairs.loads), self.coefficients, *pairs.grid.shape)
        found = pairs.loads.new_zeros(shape)
        belief = Belief(found, *self._constants(found))
        with torch.no_grad():
            for _ in range(self.first_steps):
                found = fit.step(found, belief, slopes_of=fit.smoothed, iterations=self.iterations, careful=True)
            solved = self._solved(pairs, found)
            numbers = self._numbers(fit, found, solved)
        belief = self._belief(found, belief, self.net(numbers))
        for number in range(self.second_steps):
            if number:
                with torch.no_grad():
                    solved = self._solved(pairs, found.detach())
            found = fit.step(found, belief, slopes_of=solved, iterations=self.iterations)
        return self._sharpened(fit, found) if self.sharp else (fit, found, belief)

    @torch.no_grad()
    def _sharpened(self, fit: BalanceFit, found: Tensor) -> tuple[BalanceFit, Tensor, Belief]:
        """Few phases believed in, whatever the network says: a jump costs τ log(1 + (jump/ε)²), large ones hardly more.

        Such a cost has many minima. Two are looked for, from what was found and from the field of least total
        variation near it, and the better one is kept, system by system.
        """
        starts = (found, self._reweighted(fit, found, FLAT_STEPS, lambda jump: FLATNESS * jump.rsqrt()))
        ends = [self._reweighted(fit, start, SHARP_STEPS, lambda jump: SHARPNESS / jump) for start in starts]
        costs = torch.stack([self._cost(fit, end) for end in ends])
        better = (costs[1] < costs[0])[(..., *(None,) * (found.ndim - 1))]
        found = torch.where(better, ends[1], ends[0])
        return fit, found, self._sharp_belief(fit, found, lambda jump: SHARPNESS / jump)

    def _reweighted(self, fit: BalanceFit, found: Tensor, steps: int, evenness: Evenness) -> Tensor:
        """Steps whose belief in an even face follows from its jump after the step before."""
        for _ in range(steps):
            belief = self._sharp_belief(fit, found, evenness)
            slopes = self._solved(fit.pairs, found)
            found = fit.step(found, belief, slopes_of=slopes, iterations=2 * self.iterations)
        return found

    def _sharp_belief(self, fit: BalanceFit, found: Tensor, evenness: Evenness) -> Belief:
        faces = tuple(evenness(jump.square() + SMALL_JUMP**2) for jump in fit.fluxes.drops(found))
        constants = torch.full_like(found, SHARP_CERTAINTY)
        return Belief(found, constants, constants, faces)

    def _cost(self, fit: BalanceFit, found: Tensor) -> Float[Tensor, " system"]:
        """Squared misfit of the responses over their noise, and what the jumps cost."""
        missed = (self._solved(fit.pairs, found) - fit.responses).square().flatten(2).sum(2)
        data = (missed / fit.pairs.noise.square()).sum(1)
        jumps = zip(fit.fluxes.drops(found), fit.fluxes.shapes, strict=True)
        rough = [(shape * (jump / SMALL_JUMP).square().log1p()).flatten(1).sum(1) for jump, shape in jumps]
        return data + SHARPNESS * sum(rough)

    def _kernel_of(self, pairs: Whitened, found: Tensor) -> EllipticKernel:
        even = least_rough(pairs.grid, found[:, 0], self.mean_power)
        return self.kernel(pairs.grid, torch.cat([even.unsqueeze(1), found[:, 1:]], 1))

    def kernel(self, grid: Grid, coefficients: Tensor) -> EllipticKernel:
        """A⁻¹ of coefficients."""
        drift = coefficients[:, 1:] if self.coefficients > 1 else None
        return EllipticKernel(
            grid, coefficients[:, 0], coefficients.new_ones(len(coefficients)), drift, self.mean_power
        )

    def _solved(self, pairs: Whitened, coefficients: Tensor) -> Tensor:
        return self.kernel(pairs.grid, coefficients).predict(pairs.loads)[:, :, 0]

    def _constants(self, like: Tensor) -> tuple[Tensor, Tensor]:
        drifts = self.coefficients - 1
        certainty = like.new_tensor([CERTAINTY, *[DRIFT_CERTAINTY] * drifts])
        evenness = like.new_tensor([EVENNESS, *[DRIFT_EVENNESS] * drifts])
        axes = (..., *(None,) * (like.ndim - 2))
        return certainty[axes].expand_as(like), evenness[axes].expand_as(like)

    def _belief(self, found: Tensor, before: Belief, outputs: Tensor) -> Belief:
        centre, certainty, evenness = outputs.unflatten(1, (3, self.coefficients)).unbind(1)
        return Belief(found + centre, before.certainty * certainty.exp(), before.evenness * evenness.exp())

    def _numbers(self, fit: BalanceFit, found: Tensor, solved: Tensor) -> Float[Tensor, "system number *space"]:
        """Per node: the coefficients, the pull of the data on them, how much the data knows, the noise, the wall."""
        view = Linearised(fit, found, solved)
        information = view.information()
        pull = view.pull(view.residual) / (information + 1)
        size = float(fit.grid.volume) ** (1 / fit.grid.dimension)
        units = found.new_tensor([1.0, *[size / 20] * (self.coefficients - 1)])[(..., *(None,) * fit.grid.dimension)]
        noise = fit.pairs.noise.square().mean(1).sqrt()
        pairs = found.new_full(noise.shape, float(fit.loads.shape[1]))
        axes = (..., None, *(None,) * fit.grid.dimension)
        told = [(noise + 1e-5).log() / 4 + 1, pairs.log() / 4 - 1]
        misfit = (fit.responses - solved).square().mean(tuple(range(1, solved.ndim))).sqrt()
        told.append((misfit + 1e-5).log() / 4 + 1)
        constants = [value[axes].expand(-1, 1, *fit.grid.shape) for value in told]
        wall = _distance_to_wall(fit.grid, found).expand(len(found), 1, *fit.grid.shape)
        return torch.cat([found * units, pull * units, (information + 1).log() / 8, *constants, wall], 1)


def _distance_to_wall(grid: Grid, like: Tensor) -> Float[Tensor, "*space"]:
    """0 on clamped sides, 1 far away."""
    size = float(grid.volume) ** (1 / grid.dimension)
    nearest = like.new_full(grid.shape, 1.0)
    for place, axis in enumerate(grid.axes):
        if axis.boundary.clamped:
            along = like.new_tensor(axis.coordinates)
            distance = torch.minimum(along, axis.length - along) * (10 / size)
            nearest = torch.minimum(nearest, grid.along(place, distance))
    return nearest

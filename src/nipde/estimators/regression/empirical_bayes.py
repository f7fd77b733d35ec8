"""Empirical Bayes: a Gaussian law of kernels, learned from training systems, conditioned on the context.

    K = K̄ + Σ_k c_k P_k + E,   c_k ~ N(0, 1),   E ~ matrix normal (row covariance R, column covariance Σ)

P_k are the principal components of the training kernels, scaled by their standard deviation, and the mean itself. E is
what they miss: its covariances are those of kernels that the components were not computed from. In the eigenvectors of
R and of G = FᵀWΣWF the responses U = K W F + noise of variance ν² have independent remainders of variance r_x g_i + ν²,
so that conditioning is exact: one k × k system for c, then E = R Z FᵀWΣ with Z the residual over that variance. As
ν → 0 the context is reproduced.
"""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.errors import KernelError
from nipde.estimators.regression.evidence import Observation, most_likely_noise
from nipde.estimators.regression.remainder import ROUNDING, Remainder, principal_mixing
from nipde.estimators.regression.training_kernels import AMPLITUDE, Context, normalised_kernels, stacked
from nipde.grid import Grid
from nipde.kernels.dense import DenseKernel

#: Kernels that differ from their transpose by less, relative to their largest value, obey reciprocity.
ASYMMETRY = 1e-6


@dataclass(frozen=True, eq=False)
class EmpiricalBayes:
    """The law of normalised kernels; made by `fit`. Memory: one kernel per component.

    Where the response of no training system ever moved (Dirichlet nodes), the kernel keeps the mean.
    """

    grid: Grid
    mean: Float[Tensor, "row column"]
    #: P_k, their rows in the modes of the remainder.
    components: Float[Tensor, "component mode column"]
    remainder: Remainder
    #: Whether all training kernels were symmetric, K(x, y) = K(y, x); the estimate then is, too.
    reciprocal: bool

    @classmethod
    def fit(cls, pairs: Pairs, kernels: DenseKernel, *, components: int | None = None) -> Self:
        """From training systems: their kernels, and pairs like those of a context, which fix each kernel's unit.

        `components` limits the principal components; None keeps all. Fewer are faster and less accurate; 0 leaves the
        matrix normal law alone.
        """
        values = normalised_kernels(pairs, kernels)
        square = values.shape[-1] == values.shape[-2]
        reciprocal = square and bool((values - values.mT).abs().max() <= ASYMMETRY * values.abs().max())
        mean = values.mean(0)
        deviations = values - mean
        if bool(deviations.abs().max() <= ROUNDING * values.abs().max()):
            raise KernelError("nothing to learn", expected="training kernels that differ", got="equal ones")
        count = len(values) - 1 if components is None else min(components, len(values) - 1)
        gram = deviations.flatten(1) @ deviations.flatten(1).mT
        remainder = Remainder.of(deviations, gram, count=count)
        mixing = principal_mixing(gram, count=count) / len(values) ** 0.5
        deviations = remainder.row_modes.mT @ deviations
        principal = torch.tensordot(mixing.mT, deviations, dims=1)
        amplitude = AMPLITUDE * (remainder.row_modes.mT @ mean)
        return cls(pairs.grid, mean, torch.cat([principal, amplitude[None]]), remainder, reciprocal)

    def __call__(self, pairs: Pairs) -> DenseKernel:
        """The posterior mean, system by system; ν is `pairs.noise` where given, else the most likely one."""
        pairs.refuse_mask("EmpiricalBayes")
        systems = Context.each(pairs, grid=self.grid, components=DenseKernel(self.grid, self.mean).components)
        return stacked([self._posterior(system) * system.unit for system in systems], pairs=pairs)

    def _posterior(self, context: Context) -> Float[Tensor, "row column"]:
        device = context.loads.device
        mean, components, remainder = self.mean.to(device), self.components.to(device), self.remainder.to(device)
        strength, mixing = torch.linalg.eigh(context.loads.mT @ remainder.columns @ context.loads)
        loads = context.loads @ mixing
        observation = Observation(
            residuals=remainder.row_modes.mT @ (context.responses @ mixing - mean @ loads),
            patterns=components @ loads,
            remainder=remainder.row_variances[:, None] * strength.clamp(min=0),
        )
        noise = most_likely_noise(observation) if context.noise is None else context.noise
        amounts, missed = observation.condition(noise)
        prior = mean + remainder.row_modes @ torch.tensordot(amounts, components, dims=1)
        spread = remainder.columns @ loads
        correction = (remainder.row_modes * remainder.row_variances) @ missed @ spread.mT
        if self.reciprocal:
            correction = _reciprocal(correction, spread, loads, strength)
        return prior + correction


def _reciprocal(
    correction: Float[Tensor, "row column"],
    spread: Float[Tensor, "column pair"],
    loads: Float[Tensor, "column pair"],
    strength: Float[Tensor, " pair"],
) -> Float[Tensor, "row column"]:
    """The most likely symmetric E with the responses of `correction` to the context's loads: E = T + Tᵀ - ΠᵀTΠ.

    Π = F̂ G⁻¹ F̂ᵀΣ projects on the loads, F̂ = WF. What was learned about K(x, y) for probed y also tells about probed x:
    the conditional mean of a symmetric matrix normal given E F̂ (in optimisation, the Davidon-Fletcher-Powell update).
    """
    kept = strength > torch.finfo(strength.dtype).eps * len(strength) * strength[-1]
    dual = spread * (kept / torch.where(kept, strength, 1))
    block = loads.mT @ correction @ loads
    return correction + correction.mT - dual @ ((block + block.mT) / 2) @ dual.mT

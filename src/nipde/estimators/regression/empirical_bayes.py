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
from nipde.estimators.regression.training_kernels import AMPLITUDE, Context, normalised_kernels, stacked
from nipde.grid import Grid
from nipde.kernels.dense import DenseKernel

#: Kernels that differ from their transpose by less, relative to their largest value, obey reciprocity.
ASYMMETRY = 1e-6
FOLDS = 5
#: Least variance of a remainder over the mean variance of the kernels, on nodes that move: nothing there is impossible.
LEAST = 1e-10
#: Deviations this small relative to the largest are rounding.
ROUNDING = 1e-12
#: The noise is sought where loads say least about the kernel: there it dominates the data, and few data suffice.
WEAKEST = 4
#: log10 of the noise over the root mean square of the responses; what is below counts as none.
RANGE = (-6.0, 0.0)
STEPS = 13
REFINEMENTS = 3


@dataclass(frozen=True, eq=False)
class EmpiricalBayes:
    """The law of normalised kernels; made by `fit`. Memory: one kernel per component.

    Where the response of no training system ever moved (Dirichlet nodes), the kernel keeps the mean.
    """

    grid: Grid
    mean: Float[Tensor, "row column"]
    #: P_k, their rows in the modes of the remainder.
    components: Float[Tensor, "component mode column"]
    remainder: "Remainder"
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
    correction: Tensor, spread: Float[Tensor, "column pair"], loads: Float[Tensor, "column pair"], strength: Tensor
) -> Float[Tensor, "row column"]:
    """The most likely symmetric E with the responses of `correction` to the context's loads: E = T + Tᵀ - ΠᵀTΠ.

    Π = F̂ G⁻¹ F̂ᵀΣ projects on the loads, F̂ = WF. What was learned about K(x, y) for probed y also tells about probed x:
    the conditional mean of a symmetric matrix normal given E F̂ (in optimisation, the Davidon-Fletcher-Powell update).
    """
    kept = strength > torch.finfo(strength.dtype).eps * len(strength) * strength[-1]
    dual = spread * (kept / torch.where(kept, strength, 1))
    block = loads.mT @ correction @ loads
    return correction + correction.mT - dual @ ((block + block.mT) / 2) @ dual.mT


@dataclass(frozen=True, eq=False)
class Remainder:
    """E: R by its eigenvectors, of mean variance 1 over the nodes that move, and Σ.

    They are pooled over columns and over rows of what is left of training kernels after projection on the components of
    the others, fold by fold: the components fit the kernels they come from far too well.
    """

    row_modes: Float[Tensor, "row mode"]
    row_variances: Float[Tensor, " mode"]
    columns: Float[Tensor, "column column"]

    @classmethod
    def of(
        cls, deviations: Float[Tensor, "system row column"], gram: Float[Tensor, "system system"], *, count: int
    ) -> Self:
        """From deviations of training kernels from their mean, and their inner products."""
        systems, rows, columns = deviations.shape
        row_covariance, column_covariance = deviations.new_zeros(rows, rows), deviations.new_zeros(columns, columns)
        folds = torch.arange(systems, device=gram.device) % min(FOLDS, systems)
        for fold in range(min(FOLDS, systems)):
            left = _left_out(deviations, gram, folds == fold, count=count)
            row_covariance += torch.einsum("sxy,szy->xz", left, left) / (systems * columns)
            column_covariance += torch.einsum("sxy,sxz->yz", left, left) / (systems * rows)
        largest = deviations.abs().max()
        moving, moved = (deviations.abs().amax((0, axis)) > ROUNDING * largest for axis in (2, 1))
        least = LEAST * deviations.square().mean()
        variances, vectors = torch.linalg.eigh(row_covariance[moving][:, moving])
        variances = variances.clamp(min=0) + least
        modes = torch.eye(rows, dtype=gram.dtype, device=gram.device)[:, moving] @ vectors
        # only the product R Σ counts: R has mean variance 1 on the rows that move, Σ the rest
        columns_regular = (column_covariance + least * torch.diag(moved.to(gram))) * (rows / len(variances))
        return cls(modes, variances / variances.mean(), columns_regular)

    def to(self, device: torch.device) -> Self:
        """On another device."""
        return type(self)(self.row_modes.to(device), self.row_variances.to(device), self.columns.to(device))


def principal_mixing(gram: Float[Tensor, "system system"], *, count: int) -> Float[Tensor, "system component"]:
    """Orthonormal mixtures of systems, by falling variance: mixtureᵀ deviations are the principal components."""
    eigenvalues, vectors = torch.linalg.eigh(gram)
    present = int((eigenvalues > torch.finfo(gram.dtype).eps * len(gram) * eigenvalues[-1]).sum())
    return vectors.flip(1)[:, : min(count, present)]


def _left_out(
    deviations: Float[Tensor, "system row column"], gram: Tensor, out: Tensor, *, count: int
) -> Float[Tensor, "out row column"]:
    """Kernels of a fold minus their projection on the mean and the components of all others."""
    others = ~out
    known = int(others.sum())
    centred = gram[others][:, others]
    centred = centred - centred.mean(0) - centred.mean(1)[:, None] + centred.mean()
    mixing = principal_mixing(centred, count=min(count, known - 1))
    inner = gram[out][:, others] - gram[others][:, others].mean(0)
    inner = inner - inner.mean(1, keepdim=True)
    lengths = (mixing * (centred @ mixing)).sum(0)
    projection = (inner @ mixing / lengths) @ mixing.mT
    projection = projection - projection.mean(1, keepdim=True) + 1 / known
    return deviations[out] - torch.tensordot(projection, deviations[others], dims=1)


@dataclass(frozen=True, eq=False)
class Observation:
    """y = A c + e: data with a few common patterns, c ~ N(0, I), and independent errors of variance s + ν².

    `residuals` y, `patterns` A and the variance `remainder` s, each by mode and pair. With D = 1/(s + ν²), b = Aᵀ D y:
    -2 log p(y) = log det(I + Aᵀ D A) - log det D + yᵀ D y - bᵀ (I + Aᵀ D A)⁻¹ b
    """

    residuals: Float[Tensor, "mode pair"]
    patterns: Float[Tensor, "component mode pair"]
    remainder: Float[Tensor, "mode pair"]

    def condition(self, noise: float) -> tuple[Float[Tensor, " component"], Float[Tensor, "mode pair"]]:
        """The mean of c given y, and (y - A c) / (s + ν²)."""
        precision = self._precision(noise)
        factor, moments = self._normal(precision)
        amounts = torch.cholesky_solve(moments[:, None], factor)[:, 0]
        return amounts, (self.residuals - torch.tensordot(amounts, self.patterns, dims=1)) * precision

    def surprise(self, noise: float) -> float:
        """-2 log p(y), up to a constant."""
        precision = self._precision(noise)
        factor, moments = self._normal(precision)
        explained = torch.linalg.solve_triangular(factor, moments[:, None], upper=False).square().sum()
        counted = precision > 0
        logs = 2 * factor.diagonal().log().sum() - precision[counted].log().sum()
        return float(logs + (self.residuals.square() * precision).sum() - explained)

    def weakest(self, pairs: int) -> "Observation":
        """The pairs with the least variance; they come in rising order of it."""
        return Observation(
            self.residuals[:, :pairs].contiguous(), self.patterns[:, :, :pairs].contiguous(), self.remainder[:, :pairs]
        )

    def _precision(self, noise: float) -> Float[Tensor, "mode pair"]:
        """1 / (s + ν²); what has no variance at all, such as a load given twice without noise, is left out."""
        variance = self.remainder + noise**2
        present = variance > torch.finfo(variance.dtype).eps * variance.shape[1] * variance.amax(1, keepdim=True)
        return present / torch.where(present, variance, 1)

    def _normal(self, precision: Tensor) -> tuple[Float[Tensor, "component component"], Float[Tensor, " component"]]:
        """Cholesky factor of I + Aᵀ D A, and b."""
        flat = self.patterns.flatten(1)
        weighted = flat * precision.flatten()
        normal = weighted @ flat.mT
        normal.diagonal().add_(1)
        return torch.linalg.cholesky(normal), weighted @ self.residuals.flatten()


def most_likely_noise(observation: Observation) -> float:
    """ν of maximum marginal likelihood: a sweep in half decades, three halvings of the step, a parabola."""
    weakest = observation.weakest(WEAKEST)
    step = (RANGE[1] - RANGE[0]) / (STEPS - 1)
    sweep = [RANGE[0] + step * place for place in range(STEPS)]
    scores = {exponent: weakest.surprise(10**exponent) for exponent in sweep}
    best = min(scores, key=lambda exponent: scores[exponent])
    for _ in range(REFINEMENTS):
        step /= 2
        for exponent in (best - step, best + step):
            scores[exponent] = weakest.surprise(10**exponent)
        best = min(scores, key=lambda exponent: scores[exponent])
    below, above = (scores.get(best + side * step) for side in (-1, 1))
    if below is None or above is None or below + above <= 2 * scores[best]:
        return 10**best
    return 10 ** (best + step * (below - above) / (below + above - 2 * scores[best]) / 2)

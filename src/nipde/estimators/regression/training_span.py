"""A mixture of known systems: K = (1 + c₀) K̄ + Σ_i c_i (K_i - K̄), with c by ridge regression on the context.

    min over c of ‖K W F - U‖² + λ (c₀²/n a² + Σ c_i²)   in L², over the measured nodes; λ by cross-validation

K̄ is the mean of the n training kernels, a the prior spread of an amplitude: where c_i is of size 1/√n, c₀ is of size a.

It knows nothing outside the span of the training kernels, and does not reproduce the context. With the minimum-norm
kernels of training systems that share their loads, K f for a shared load f is a mixture of their measured responses:
regression on training systems without any kernel known.
"""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.estimators.regression.cross_validation import cross_validated_penalty
from nipde.estimators.regression.matrices import row_weights
from nipde.estimators.regression.training_kernels import AMPLITUDE, Context, normalised_kernels, stacked
from nipde.grid import Grid
from nipde.kernels.dense import DenseKernel


@dataclass(frozen=True, eq=False)
class TrainingSpan:
    """Normalised training kernels: their mean, and the deviations from it that may be mixed in; made by `fit`."""

    grid: Grid
    mean: Float[Tensor, "row column"]
    #: K_i - K̄, and last the mean itself, √n a K̄.
    deviations: Float[Tensor, "direction row column"]

    @classmethod
    def fit(cls, pairs: Pairs, kernels: DenseKernel) -> Self:
        """From training systems: their kernels, and pairs like those of a context, which fix each kernel's unit."""
        values = normalised_kernels(pairs, kernels)
        mean = values.mean(0)
        amplitude = AMPLITUDE * len(values) ** 0.5 * mean
        return cls(pairs.grid, mean, torch.cat([values - mean, amplitude[None]]))

    def __call__(self, pairs: Pairs) -> DenseKernel:
        """System by system: each needs the responses of all training systems to its own loads."""
        components = DenseKernel(self.grid, self.mean).components
        systems = Context.each(pairs, grid=self.grid, components=components)
        return stacked([self._kernel(system) * system.unit for system in systems], pairs=pairs)

    def _kernel(self, context: Context) -> Float[Tensor, "row column"]:
        mean, deviations = (part.to(context.loads.device) for part in (self.mean, self.deviations))
        root = row_weights(context.responses, grid=self.grid)[:, None].sqrt().expand_as(context.responses)
        if context.measured is not None:
            root = root * context.measured
        responses = torch.where(root > 0, context.responses, 0)
        data = ((responses - mean @ context.loads) * root).flatten()
        design = ((deviations @ context.loads) * root).flatten(1)
        eigenvalues, mixing = torch.linalg.eigh(design @ design.mT)
        determined = eigenvalues > torch.finfo(data.dtype).eps * len(eigenvalues) * eigenvalues[-1]
        moments = mixing.mT @ (design @ data) * determined
        eigenvalues = eigenvalues * determined
        penalty = _penalty(eigenvalues[determined], moments[determined], data, int((root > 0).sum()))
        amounts = mixing @ (moments / (eigenvalues + penalty))
        return mean + torch.tensordot(amounts, deviations, dims=1)


def _penalty(eigenvalues: Tensor, moments: Tensor, data: Tensor, measured: int) -> Float[Tensor, ""]:
    """λ from what each eigenvector explains, and from all the data that none of them can."""
    energies = moments.square() / eigenvalues
    beyond = (data.square().sum() - energies.sum())[None]
    dimensions = torch.ones_like(energies)
    return cross_validated_penalty(
        torch.cat([eigenvalues, torch.zeros_like(beyond)]),
        torch.cat([energies, beyond]),
        torch.cat([dimensions, torch.full_like(beyond, max(measured - len(energies), 0))]),
    )

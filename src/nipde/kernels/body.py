"""Responses of plane elastic bodies: Newton's method for large deformations, one band solve for small ones.

At rest a body is linear, u = K₀⁻¹ M b: K₀ is its stiffness without load, M b the forces at its nodes. Fibres that bear
no compression are slack there, and not in that kernel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nipde.errors import KernelError
from nipde.kernels.base import Fields
from nipde.kernels.nonlinear import NonlinearPrior
from nipde.kernels.solved import KernelOfLaws
from nipde.physics.elastic import ElasticBody


@dataclass(frozen=True, eq=False)
class LinearElasticKernel(KernelOfLaws[ElasticBody]):
    """factor · (M⁻¹ K₀)⁻¹ of every body."""

    @property
    def components(self) -> tuple[int, int]:
        """A plane."""
        return 2, 2

    @property
    def body(self) -> ElasticBody | None:
        """That of one system; None where the estimator has rejected it (`factor` 0)."""
        if len(self.laws) > 1:
            raise KernelError(expected="one system", got=f"a batch {self.batch}", remedy="take one: kernel.system(0)")
        return self.laws[0] if bool(self.factor.all()) else None

    def predict(self, loads: Fields) -> Fields:
        """One band factor per body, two triangular solves per load."""

        def responses(body: ElasticBody, fields: np.ndarray) -> np.ndarray:
            if not self.transposed:
                return body.solve_linearised(fields)
            weights = body.grid.weights
            return body.solve_linearised_transposed(fields * weights) / weights

        return self.each(loads.to(self.factor), responses)

    def each(self, loads: Tensor, answer: Callable[[ElasticBody, np.ndarray], np.ndarray]) -> Tensor:
        """Answers of every body to its loads, times its factor."""
        batch = np.broadcast_shapes(self.batch, loads.shape[:-4])
        shape = (*batch, *loads.shape[-4:])
        fields = loads.detach().double().cpu().expand(shape).reshape(-1, *shape[-4:]).numpy()
        responses = [answer(body, own) for body, own in zip(self._laws_of(batch), fields, strict=True)]
        return loads.new_tensor(np.stack(responses)).reshape(shape) * self._per_system(4)


@dataclass(frozen=True, eq=False)
class BodyPredictor(NonlinearPrior):
    """Bodies under any loads; `kernel` is what they are at rest."""

    kernel: LinearElasticKernel

    @classmethod
    def of(cls, bodies: Sequence[ElasticBody], *, like: Float[Tensor, "*batch"]) -> Self:
        """Bodies in row-major order; `like` gives batch axes, precision and place."""
        grid = bodies[0].grid
        return cls(grid, LinearElasticKernel(grid, tuple(bodies), torch.ones_like(like)))

    @property
    def bodies(self) -> tuple[ElasticBody, ...]:
        """One per system."""
        return self.kernel.laws

    @property
    def body(self) -> ElasticBody | None:
        """That of one system."""
        return self.kernel.body

    def without(self, systems: Bool[Tensor, "*batch"]) -> Self:
        """The same, some systems left without a body: they do not move."""
        return replace(self, kernel=replace(self.kernel, factor=torch.where(systems, 0.0, self.kernel.factor)))

    def predict(self, loads: Fields) -> Fields:
        """Newton's method, load by load; a SolverError where a body does not stand its load."""
        return self._responses(loads, lambda body, fields: body.solve(fields))

    def attempt(self, loads: Fields) -> Tensor:
        """The same without an error: NaN where a body does not stand its load."""
        return self._responses(loads, lambda body, fields: body.attempt(fields)[0])

    def _responses(self, loads: Tensor, answer: Callable[[ElasticBody, np.ndarray], np.ndarray]) -> Tensor:
        factor = self.kernel.factor
        loads = loads.to(factor).masked_fill((factor == 0)[(..., *(None,) * 4)], 0.0)
        return self.kernel.each(
            loads, lambda body, fields: answer(body, fields) if fields.any() else np.zeros_like(fields)
        )

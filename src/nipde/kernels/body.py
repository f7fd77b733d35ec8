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
from nipde.grid import Grid
from nipde.kernels.nonlinear import NonlinearPrior
from nipde.kernels.solved import SolvedKernel
from nipde.physics.elastic import ElasticBody


@dataclass(frozen=True, eq=False)
class LinearElasticKernel(SolvedKernel):
    """factor · (M⁻¹ K₀)⁻¹ of every body; `bodies` are the systems of the batch in row-major order."""

    bodies: tuple[ElasticBody, ...]
    factor: Float[Tensor, "*batch"]
    transposed: bool = False

    def __post_init__(self) -> None:
        if self.factor.numel() != len(self.bodies) or any(body.grid != self.grid for body in self.bodies):
            raise KernelError(
                "bodies do not fit the batch", expected=f"{self.factor.numel()} bodies on {self.grid}",
                got=[body.grid for body in self.bodies], remedy="give one factor per body, all on one grid",
            )  # fmt: skip

    @property
    def components(self) -> tuple[int, int]:
        """A plane."""
        return 2, 2

    @property
    def body(self) -> ElasticBody | None:
        """That of one system; None where the estimator has rejected it (`factor` 0)."""
        if len(self.bodies) > 1:
            raise KernelError(expected="one system", got=f"a batch {self.batch}", remedy="take one: kernel.system(0)")
        return self.bodies[0] if bool(self.factor.all()) else None

    def stretched(self, to: Grid) -> Self:
        """Only its own box: a body has a length."""
        if to != self.grid:
            raise KernelError(expected=f"the box of the body, {self.grid}", got=to, remedy="estimate on that box")
        return self

    def with_batch(self, batch: tuple[int, ...]) -> Self:
        """The same systems, their axes folded otherwise."""
        return replace(self, factor=self.factor.reshape(batch))

    def system(self, number: int) -> Self:
        """One of a batch with one axis."""
        return replace(self, bodies=self.bodies[number : number + 1], factor=self.factor[number])

    def predict(
        self, loads: Float[Tensor, "*batch_pair_component_space"]
    ) -> Float[Tensor, "*batch_pair_component_space"]:
        """One band factor per body, two triangular solves per load."""

        def responses(body: ElasticBody, fields: np.ndarray) -> np.ndarray:
            if not self.transposed:
                return body.solve_linearised(fields)
            weights = body.grid.weights
            return body.solve_linearised_transposed(fields * weights) / weights

        return _each(self.bodies, self.batch, loads.to(self.factor), responses) * self._per_system(4)


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
        return self.kernel.bodies

    @property
    def body(self) -> ElasticBody | None:
        """That of one system."""
        return self.kernel.body

    def without(self, systems: Bool[Tensor, "*batch"]) -> Self:
        """The same, some systems left without a body: they do not move."""
        return replace(self, kernel=replace(self.kernel, factor=torch.where(systems, 0.0, self.kernel.factor)))

    def predict(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> Tensor:
        """Newton's method, load by load; a SolverError where a body does not stand its load."""
        return self._responses(loads, lambda body, fields: body.solve(fields))

    def attempt(self, loads: Float[Tensor, "*batch_pair_component_space"]) -> Tensor:
        """The same without an error: NaN where a body does not stand its load."""
        return self._responses(loads, lambda body, fields: body.attempt(fields)[0])

    def _responses(self, loads: Tensor, answer: Callable[[ElasticBody, np.ndarray], np.ndarray]) -> Tensor:
        kernel = self.kernel
        still = (kernel.factor == 0)[(..., *(None,) * 4)]
        loads = loads.to(kernel.factor).masked_fill(still, 0.0)
        responses = _each(
            kernel.bodies, kernel.batch, loads,
            lambda body, fields: answer(body, fields) if fields.any() else np.zeros_like(fields),
        )  # fmt: skip
        return responses * kernel.factor[(..., *(None,) * 4)]


def _each(
    bodies: Sequence[ElasticBody],
    batch: tuple[int, ...],
    loads: Tensor,
    answers: Callable[[ElasticBody, np.ndarray], np.ndarray],
) -> Tensor:
    """Answers of every body to its loads, in double precision."""
    wide = torch.broadcast_shapes(batch, loads.shape[:-4])
    numbers = np.broadcast_to(np.arange(len(bodies)).reshape(batch), wide).reshape(-1).tolist()
    fields = loads.detach().double().cpu().expand(*wide, *loads.shape[-4:]).reshape(-1, *loads.shape[-4:]).numpy()
    responses = np.stack([answers(bodies[number], own) for number, own in zip(numbers, fields, strict=True)])
    return loads.new_tensor(responses).reshape(*wide, *loads.shape[-4:])

"""Advection-diffusion -Δu + ∇·(v u) = f, v = (∂ψ/∂y, -∂ψ/∂x) of a random stream function ψ."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from nipde.data.recipe import HiddenField, RandomLoads, option
from nipde.data.system import Quantities, Quantity
from nipde.grid import Grid
from nipde.physics.advection import AdvectionDiffusion
from nipde.physics.random_fields import GaussianField


@dataclass(frozen=True)
class AdvectionRecipe(RandomLoads):
    """-Δu + ∇·(v u) = f on the unit square, u = 0 on its sides, v the curl of a random stream function."""

    problem: ClassVar[str] = "advection"
    parameter_names: ClassVar[tuple[str, ...]] = ("peak_speed",)

    field_alpha: float = option(4.0, "smoothness of the stream function")
    speed: float = option(20.0, "largest speed; each system draws its own peak from half of it to all of it")

    @property
    def quantities(self) -> Quantities:
        """Source, concentration, velocity; dimensionless, diffusivity 1."""
        velocity = Quantity("velocity", components=("x", "y"))
        return Quantities(load=Quantity("source"), response=Quantity("concentration"), hidden=velocity)

    def draw_hidden(self, rng: Generator, seed: np.uint64) -> tuple[HiddenField, tuple[float]]:
        """A velocity field and its peak speed, taken on a grid that resolves every wave: resolution changes nothing."""
        peak = self.speed * rng.uniform(0.5, 1.0)
        law = GaussianField(self.field_alpha)
        coefficients = law.coefficients(self.grid, rng=rng, count=1)

        def curl(grid: Grid) -> HiddenField:
            along_x, along_y = (law.synthesise(grid, coefficients, derivative=axis) for axis in (0, 1))
            return np.concatenate([along_y, -along_x])

        fastest = np.max(np.linalg.norm(curl(law.resolving_grid()), axis=0))
        return peak * (curl(self.grid) / fastest), (peak,)

    def law_of(self, hidden: HiddenField) -> AdvectionDiffusion:
        """Diffusivity 1."""
        return AdvectionDiffusion(self.grid, np.ones(self.grid.shape), hidden.astype(np.float64))

"""Conduction in a cube: reference data by finite elements on a mesh finer than the grid of the data.

Kind of material, contrast and smoothness of loads differ between systems. The coefficient is constant in every cell of
the mesh, and the archive keeps it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from nipde.data.finer_mesh import FinerMeshRecipe, mean_around_nodes
from nipde.data.recipe import Loads, option, streams
from nipde.data.system import Quantities, Quantity, System
from nipde.errors import ArchiveError
from nipde.grid import Grid
from nipde.physics.finite_elements import FiniteElements
from nipde.physics.random_fields import GaussianField

#: Highest half wave of loads: a grid of 17³ resolves it.
LOAD_WAVES = 8


@dataclass(frozen=True)
class Conduction3DRecipe(FinerMeshRecipe):
    """-∇·(b∇u) = f in the unit cube, u = 0 on its sides, by finite elements on a finer mesh; phases or log-normal b."""

    problem: ClassVar[str] = "conduction-3d"
    parameter_names: ClassVar[tuple[str, ...]] = ("log_normal", "contrast", "load_alpha")
    stands_on: ClassVar[tuple[str, ...]] = ("pyamg",)

    nodes: int = option(17, "nodes per axis", flag="grid")
    pairs: int = option(25, "loads and responses per system")
    refine: int = option(2, "cells of the solver's mesh per spacing of the grid, along every axis")
    log_normal_share: float = option(0.5, "probability of a smooth log-normal material; the rest has two phases")
    contrasts: tuple[float, float] = option(
        (2.0, 10.0), "range of the ratio of the two phases; of a log-normal material, between ± 1 deviation"
    )
    level: float = option(1.0, "geometric mean of the two phases, or of a log-normal material")
    field_tau: float = option(4.0, "inverse correlation length of the field behind the material")
    load_alphas: tuple[float, float] = option((1.0, 3.0), "range of the smoothness of loads; one value per system")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (1 <= self.refine <= 8 and 0 <= self.log_normal_share <= 1 and self.level > 0 and self.field_tau > 0):
            raise ArchiveError(
                expected="refine from 1 to 8, log_normal_share from 0 to 1, level > 0, field_tau > 0",
                got=(self.refine, self.log_normal_share, self.level, self.field_tau), remedy="choose others",
            )  # fmt: skip
        for (low, high), least in ((self.contrasts, 1.0), (self.load_alphas, 0.1)):
            if not least <= low <= high < np.inf:
                raise ArchiveError(
                    expected=f"a range from at least {least:g}, the smaller first", got=(low, high),
                    remedy="give the ends of a range",
                )  # fmt: skip

    @cached_property
    def grid(self) -> Grid:
        """The unit cube with Dirichlet conditions on all sides."""
        return Grid.uniform((self.nodes,) * 3)

    @property
    def quantities(self) -> Quantities:
        """Heat, for instance."""
        return Quantities(load=Quantity("source"), response=Quantity("temperature"), hidden=Quantity("conductivity"))

    def draw_loads(self, rng: Generator) -> Loads:
        """Values of the loads at the nodes of the data."""
        return self.mesh.restrict(self._functions(rng)[1], to=self.grid)[:, None]

    def solve(self, rng: Generator, loads: Loads, seed: np.uint64) -> System:
        """Solve on the mesh, restrict to the grid."""
        log_normal, contrast, fine = self.draw_material(rng)
        alpha, functions = self._functions(streams(seed)[1])
        law = FiniteElements(self.mesh, fine.astype(np.float64))
        responses, residual = self.solved(law, law.moments(self.functions_of(loads, functions, self.mesh)))
        return self.system(
            mean_around_nodes(fine, self.refine)[None], loads, responses.astype(self.precision), seed=seed,
            fine=fine[None], parameters=(float(log_normal), contrast, alpha), diagnostics={"residual": residual},
        )  # fmt: skip

    def draw_material(self, rng: Generator) -> tuple[bool, float, Float[np.ndarray, "x y z"]]:
        """Whether log-normal, contrast, cells of the mesh: every second node of a mesh twice as fine is a centre."""
        log_normal = bool(rng.random() < self.log_normal_share)
        low, high = self.contrasts
        contrast = float(low * (high / low) ** rng.random())
        law = GaussianField(4.0, self.field_tau)
        field = law.sample(self.mesh.refine(2), rng=rng, count=1)[0, 1::2, 1::2, 1::2]
        exponent = field / (2 * np.sqrt(np.mean(field**2))) if log_normal else np.where(field < 0, -0.5, 0.5)
        return log_normal, contrast, (self.level * contrast**exponent).astype(self.precision)

    def _functions(self, rng: Generator) -> tuple[float, Float[np.ndarray, "pair x y z"]]:
        """Smoothness, and loads at the nodes of the mesh."""
        alpha = float(rng.uniform(*self.load_alphas))
        return alpha, GaussianField(alpha, waves=LOAD_WAVES, rms=1.0).sample(self.mesh, rng=rng, count=self.pairs)

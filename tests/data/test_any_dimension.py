"""The schema carries what later problems need: one to three dimensions, several components, several diagnostics."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pytest

import nipde
from nipde.boundary import Dirichlet, Neumann
from nipde.data.plan import Plan
from nipde.data.recipe import Recipe, option
from nipde.data.system import Quantities, Quantity, System
from nipde.grid import Axis, Grid


@dataclass(frozen=True)
class Elastic(Recipe):
    """Vector loads and responses on a box of any dimension; the numbers are random, only their shapes matter."""

    problem: ClassVar[str] = "elastic-for-tests"
    dimension: int = option(3, "axes of the box")

    @cached_property
    def grid(self) -> Grid:
        kinds = (Dirichlet(), Neumann(), Dirichlet())
        return Grid(tuple(Axis(self.nodes + place, 28.0, kinds[place]) for place in range(self.dimension)))

    @property
    def quantities(self) -> Quantities:
        return Quantities(
            load=Quantity("body force", "N/mm³", ("x", "y")),
            response=Quantity("displacement", "mm", ("x", "y")),
            hidden=Quantity("modulus", "MPa"),
        )

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return ("angle", "digit")

    @property
    def diagnostic_names(self) -> tuple[str, ...]:
        return ("residual", "iterations", "smallest_jacobian")

    def draw_loads(self, rng):
        return rng.standard_normal((self.pairs, 2, *self.grid.shape))

    def solve(self, rng, loads, seed):
        return System(
            grid=self.grid,
            loads=loads,
            responses=np.tanh(loads),
            hidden=rng.standard_normal((1, *self.grid.shape)).astype(self.precision),
            seed=np.asarray(seed),
            parameters={name: rng.standard_normal(()) for name in self.parameter_names},
            diagnostics={name: rng.standard_normal(self.pairs) for name in self.diagnostic_names},
        )


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_an_archive_of_vector_fields_in_any_dimension(dimension, tmp_path):
    recipe = Elastic(nodes=5, pairs=4, dimension=dimension)
    archive = nipde.generate(Plan(recipe, systems=10, shard_systems=3), tmp_path / "a", workers=1)
    archive = nipde.open_archive(tmp_path / "a", verify=True)
    assert archive.grid == recipe.grid
    assert archive[7].responses.shape == (4, 2, *recipe.grid.shape)
    assert archive.quantities.response.unit == "mm"
    assert archive[[1, 2]].diagnostics["iterations"].shape == (2, 4)
    for system in range(10):
        archive.rebuild(system)

"""Recipes that solve by finite elements on a mesh finer than the grid of the data: no estimator shares it.

Material and loads are functions, drawn below the grid; the coefficient is constant in every cell of the fine mesh, and
the archive keeps it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from nipde.data.recipe import Loads, Recipe, option
from nipde.discretisation.interpolation import interpolated
from nipde.errors import ArchiveError, SolverError
from nipde.grid import Grid
from nipde.physics.balance import RESIDUAL_LIMIT
from nipde.physics.finite_elements import Cells, FiniteElements, Nodes

#: Power of the spacing by which responses err where the material's cells meet in corners.
JUMP_ORDER = 1.6


@dataclass(frozen=True)
class FinerMeshRecipe(Recipe):
    """What such recipes have in common."""

    refine: int = option(8, "cells of the solver's mesh per spacing of the grid, along every axis")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared_loads:
            raise ArchiveError(expected="loads of each system's own", got="shared loads", remedy="leave them out")

    @cached_property
    def mesh(self) -> Grid:
        """Nodes of the solver."""
        return self.grid.refine(self.refine)

    @property
    def fine_shape(self) -> tuple[int, ...]:
        """Cells of the solver's mesh."""
        return tuple(axis.intervals for axis in self.mesh.axes)

    def functions_of(self, loads: Loads, drawn: Nodes, mesh: Grid) -> Nodes:
        """Those drawn on a mesh if the loads are theirs; of other loads, known at the grid's nodes only, cosines."""
        if np.array_equal(mesh.restrict(drawn, to=self.grid).astype(self.precision), loads[:, 0]):
            return drawn
        return interpolated(loads[:, 0].astype(np.float64), self.grid, to=mesh, kind="cosine")

    def solved(self, law: FiniteElements, moments: Nodes) -> tuple[Loads, Float[np.ndarray, " pair"]]:
        """Responses at the grid's nodes, and relative residuals."""
        solution = law.solve_moments(moments)
        residual = law.residual(moments, solution)
        check_solved(residual)
        return law.grid.restrict(solution, to=self.grid)[:, None], residual


def extrapolated(coarse: Loads, fine: Loads) -> Loads:
    """From responses of a mesh and of one twice as fine, with the same jumps of the material."""
    return fine + (fine - coarse) / (2**JUMP_ORDER - 1)


def check_solved(residual: Float[np.ndarray, " pair"]) -> None:
    """Raise unless relative residuals are those of solutions."""
    if not np.all(residual <= RESIDUAL_LIMIT):
        raise SolverError(
            expected=f"relative residual <= {RESIDUAL_LIMIT:g}", got=f"{residual.max():.2e}",
            remedy="lower the contrast",
        )  # fmt: skip


def mean_around_nodes(fine: Cells, refine: int) -> Float[np.ndarray, "*space"]:
    """Geometric, over the cells nearest to every node of the grid: those within half a spacing along every axis."""
    half, total = max(refine // 2, 1), np.log(fine.astype(np.float64))
    for axis, length in enumerate(fine.shape):
        sums = np.insert(total.cumsum(axis), 0, 0.0, axis)
        ends = np.arange(0, length + 1, refine)
        left, right = np.maximum(ends - half, 0), np.minimum(ends + half, length)
        widths = (right - left).reshape(-1, *(1,) * (fine.ndim - 1 - axis))
        total = (sums.take(right, axis) - sums.take(left, axis)) / widths
    return np.exp(total)

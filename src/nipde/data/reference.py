"""Reference data: Darcy flow solved by finite elements on a mesh several times finer than the grid of the data.

Material and loads are functions, drawn below the grid; the coefficient is constant in every cell of the fine mesh, and
the archive keeps it. No estimator shares this discretisation: its errors here are those it has on measurements.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from nipde.data.finer_mesh import FinerMeshRecipe, extrapolated, mean_around_nodes
from nipde.data.recipe import Loads, option, streams
from nipde.data.system import Quantities, Quantity, System
from nipde.errors import ArchiveError
from nipde.grid import Grid
from nipde.physics.finite_elements import FiniteElements
from nipde.physics.random_fields import GaussianField

Cells = Float[np.ndarray, "x y"]
Nodes = Float[np.ndarray, "pair x y"]
#: Geometric mean of the two phases, and of a log-normal material.
LEVEL = 6.0
#: Deviation of log b within phases that vary.
VARIATION = 0.15
Family = Literal["two-phase", "log-normal", "circles", "voronoi", "stripes", "three-phase", "varying"]
LoadKind = Literal["rough", "middle", "smooth", "bumps", "wells"]


@dataclass(frozen=True)
class FinerMeshDarcyRecipe(FinerMeshRecipe):
    """Darcy flow in the unit square, or in specimens inside of it."""

    extrapolated: bool = option(
        False, "solve on a mesh twice as fine as well, and extrapolate: a tenth of the error, five times the time"
    )

    @cached_property
    def grid(self) -> Grid:
        """The unit square with Dirichlet conditions on all sides; of specimens, the box around them."""
        return Grid.uniform(self.nodes)

    @property
    def quantities(self) -> Quantities:
        """As in darcy."""
        return Quantities(load=Quantity("source"), response=Quantity("pressure"), hidden=Quantity("permeability"))


@dataclass(frozen=True)
class ReferenceDarcyRecipe(FinerMeshDarcyRecipe):
    """-∇·(b∇p) = g as in darcy, solved by finite elements on a finer mesh; b keeps its details below the grid."""

    problem: ClassVar[str] = "darcy-reference"
    parameter_names: ClassVar[tuple[str, ...]] = ("contrast", "anisotropy")

    family: Family = option("two-phase", "kind of material")
    loads: LoadKind = option("middle", "kind of loads; wells are point sources at nodes")
    contrast: float = option(4.0, "ratio of the two phases; of a log-normal material, between ± 1 deviation")
    anisotropy: float = option(1.0, "b along x over b along y")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (1 <= self.refine <= 64 and 1 <= self.contrast < np.inf and 0 < self.anisotropy < np.inf):
            raise ArchiveError(
                expected="refine from 1 to 64, contrast >= 1, anisotropy > 0",
                got=(self.refine, self.contrast, self.anisotropy), remedy="choose others",
            )  # fmt: skip

    def draw_loads(self, rng: Generator) -> Loads:
        """Values of the loads at the nodes of the data; those of a well are its rate over the volume of its cell."""
        if self.loads == "wells":
            return _wells(rng, self.grid, self.pairs) / self.grid.weights
        return self.mesh.restrict(load_functions(self.loads, rng, self.mesh, self.pairs), to=self.grid)[:, None]

    def solve(self, rng: Generator, loads: Loads, seed: np.uint64) -> System:
        """Solve on the mesh, restrict to the grid."""
        fine = (MATERIALS[self.family](rng, self.mesh, self.contrast)).astype(self.precision)
        responses, residual = self._responses(fine, loads, seed, elements=1)
        if self.extrapolated:
            finer, residual = self._responses(fine, loads, seed, elements=2)
            responses = extrapolated(responses, finer)
        responses = responses.astype(self.precision)
        hidden = mean_around_nodes(fine, self.refine)
        return self.system(
            hidden[None], loads, responses, seed=seed, fine=fine[None],
            parameters=(self.contrast, self.anisotropy), diagnostics={"residual": residual},
        )  # fmt: skip

    def _responses(
        self, fine: Cells, loads: Loads, seed: np.uint64, *, elements: int
    ) -> tuple[Loads, Float[np.ndarray, " pair"]]:
        """By so many finite elements along every axis of a cell; and relative residuals."""
        cells = np.kron(fine.astype(np.float64), np.ones((elements, elements)))
        law = FiniteElements(self.mesh.refine(elements), cells, self.anisotropy)
        return self.solved(law, self._moments(law, loads, streams(seed)[1]))

    def _moments(self, law: FiniteElements, loads: Loads, rng: Generator) -> Nodes:
        """Moments of the loads that `rng` draws, below the grid; of others, known at its nodes only, of cosines."""
        if self.loads == "wells":
            rates = _wells(rng, self.grid, self.pairs)
            if not np.array_equal((rates / self.grid.weights).astype(self.precision), loads):
                rates = loads * self.grid.weights
            moments = np.zeros((len(loads), *law.grid.shape))
            law.grid.restrict(moments, to=self.grid)[:] = rates[:, 0]
            return moments
        drawn = load_functions(self.loads, rng, law.grid, self.pairs)
        return law.moments(self.functions_of(loads, drawn, law.grid))


def load_functions(kind: str, rng: Generator, mesh: Grid, count: int) -> Nodes:
    """Loads at the nodes of a mesh."""
    if kind == "bumps":
        return _bumps(rng, mesh, count)
    alpha, waves = {"rough": (1.0, 20), "middle": (1.0, 8), "smooth": (3.0, 8)}[kind]
    return GaussianField(alpha, waves=waves, rms=1.0).sample(mesh, rng=rng, count=count)


def _two_phase(rng: Generator, mesh: Grid, contrast: float) -> Cells:
    return _phases(_gaussian(rng, mesh, 4.0) < 0, contrast)


def _three_phase(rng: Generator, mesh: Grid, contrast: float) -> Cells:
    law = GaussianField(4.0)
    coefficients = law.coefficients(mesh, rng=rng, count=1)
    # Thresholds of a grid that resolves every wave: the material is the same function on every mesh.
    field, resolved = (
        law.synthesise(grid.refine(2), coefficients)[0, 1::2, 1::2] for grid in (mesh, law.resolving_grid())
    )
    return LEVEL * contrast ** (np.searchsorted(np.quantile(resolved, (1 / 3, 2 / 3)), field) / 2 - 0.5)


def _varying(rng: Generator, mesh: Grid, contrast: float) -> Cells:
    phases, field = _two_phase(rng, mesh, contrast), _gaussian(rng, mesh, 4.0)
    return phases * np.exp(VARIATION * field / np.sqrt(np.mean(field**2)))


def _log_normal(rng: Generator, mesh: Grid, contrast: float) -> Cells:
    field = _gaussian(rng, mesh, 3.0)
    return LEVEL * np.exp(log(contrast) / 2 * field / np.sqrt(np.mean(field**2)))


def _circles(rng: Generator, mesh: Grid, contrast: float) -> Cells:
    x, y = cell_centres(mesh)
    inside = np.zeros(x.shape, dtype=bool)
    for _ in range(rng.integers(3, 8)):
        (across, along), radius = rng.uniform(0.1, 0.9, 2), rng.uniform(0.06, 0.18)
        inside |= np.hypot(x - across, y - along) < radius
    return _phases(inside, contrast)


def _voronoi(rng: Generator, mesh: Grid, contrast: float) -> Cells:
    x, y = cell_centres(mesh)
    seeds = rng.uniform(0, 1, (rng.integers(8, 20), 2))
    high = rng.random(len(seeds)) < 0.5
    high[:2] = False, True
    nearest = np.argmin((x[..., None] - seeds[:, 0]) ** 2 + (y[..., None] - seeds[:, 1]) ** 2, axis=-1)
    return _phases(high[nearest], contrast)


def _stripes(rng: Generator, mesh: Grid, contrast: float) -> Cells:
    x, y = cell_centres(mesh)
    angle, period, start = rng.uniform(0, np.pi), rng.uniform(0.15, 0.4), rng.random()
    return _phases(((x * np.cos(angle) + y * np.sin(angle)) / period + start) % 1 < 0.5, contrast)


#: Cells of a mesh from a generator and a contrast.
MATERIALS: dict[str, Callable[[Generator, Grid, float], Cells]] = {
    "two-phase": _two_phase, "log-normal": _log_normal, "circles": _circles, "voronoi": _voronoi, "stripes": _stripes,
    "three-phase": _three_phase, "varying": _varying,
}  # fmt: skip


def _phases(high: Float[np.ndarray, "x y"], contrast: float) -> Cells:
    return LEVEL * contrast ** np.where(high, 0.5, -0.5)


def _gaussian(rng: Generator, mesh: Grid, alpha: float) -> Cells:
    """A Gaussian field at the centres of the cells, which are every second node of a mesh twice as fine."""
    return GaussianField(alpha).sample(mesh.refine(2), rng=rng, count=1)[0, 1::2, 1::2]


def cell_centres(mesh: Grid) -> tuple[Cells, ...]:
    """x and y of the cells of a mesh."""
    return tuple(x[1::2, 1::2] for x in mesh.refine(2).coordinates)


def _bumps(rng: Generator, mesh: Grid, count: int) -> Nodes:
    centres, widths = rng.uniform(0.1, 0.9, (2, count, 1, 1)), rng.uniform(0.06, 0.12, (count, 1, 1))
    squared = sum((x - centre) ** 2 for x, centre in zip(mesh.coordinates, centres, strict=True))
    return np.exp(-squared / (2 * widths**2))


def _wells(rng: Generator, grid: Grid, count: int) -> Loads:
    """A unit source at a node, away from the sides, and zeros elsewhere."""
    away = max(1, (grid.shape[0] - 1) // 7)
    places = rng.integers(away, np.array(grid.shape) - away, (count, 2))
    rates = np.zeros((count, 1, *grid.shape))
    rates[np.arange(count), 0, places[:, 0], places[:, 1]] = 1.0
    return rates

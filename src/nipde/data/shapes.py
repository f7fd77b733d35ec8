"""Reference data of specimens with an outline: Darcy flow by triangles that follow it, under random supports and loads.

Shape, supports and loads on the outline follow from a system's seed (`specimen_of`, `outline_of`). Fields are stored at
the nodes of the box around the specimen: responses and material are NaN outside.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import shapely
from jaxtyping import Bool, Float
from numpy.random import Generator

from nipde.data.finer_mesh import check_solved, extrapolated, mean_around_nodes
from nipde.data.random_specimens import SPECIMENS, on_random_arc, outline_case
from nipde.data.recipe import Loads, option, streams
from nipde.data.reference import MATERIALS, Cells, Family, FinerMeshDarcyRecipe, cell_centres, load_functions
from nipde.data.system import System
from nipde.discretisation.interpolation import multilinear
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import Specimen
from nipde.errors import ArchiveError
from nipde.physics.triangles import TriangleConduction, Triangulation, smaller_at_singular_points, triangulated

#: Wells are at nodes that are farther from the outline than this, in spacings.
AWAY = 2.0


@dataclass(frozen=True)
class ShapedDarcyRecipe(FinerMeshDarcyRecipe):
    """-∇·(b∇p) = g on discs, plates with a hole and other shapes, by triangles; supports and loads on any part."""

    problem: ClassVar[str] = "darcy-shapes"
    on_shapes: ClassVar[bool] = True
    parameter_names: ClassVar[tuple[str, ...]] = ("shape", "contrast")

    shape: Literal["any", "square", "disc", "plate-with-hole", "L", "blob"] = option(
        "any", "outline of the specimens; any draws one per system"
    )
    supports: Literal["usual", "random"] = option(
        "usual", "where the pressure is given: the usual parts of a shape, or an arc of its outline at random"
    )
    family: Family = option("two-phase", "kind of material")
    loads: Literal["rough", "middle", "smooth", "bumps", "wells", "outline"] = option(
        "middle", "kind of loads: sources inside, wells at nodes, or pressures and fluxes on the outline"
    )
    contrast: float = option(4.0, "ratio of the two phases; of a log-normal material, between ± 1 deviation")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (2 <= self.refine <= 64 and 1 <= self.contrast < np.inf and self.nodes >= 11):
            raise ArchiveError(
                expected="refine from 2 to 64, contrast >= 1, at least 11 nodes per axis",
                got=(self.refine, self.contrast, self.nodes), remedy="choose others",
            )  # fmt: skip

    def specimen_of(self, seed: int | np.uint64) -> Specimen:
        """Shape and supports of a system."""
        return self._specimen(streams(seed)[0])[1]

    def outline_of(self, seed: int | np.uint64) -> tuple[LoadCase, ...]:
        """Loads on the outline of a system, one case per pair; none where loads are inside."""
        if self.loads != "outline":
            return ()
        specimen, rng = self.specimen_of(seed), streams(seed)[1]
        return tuple(outline_case(specimen, rng) for _ in range(self.pairs))

    def loads_of(self, seed: int | np.uint64) -> Loads:
        """At the nodes of the box; wells stand inside the specimen."""
        if self.loads != "wells":
            return super().loads_of(seed)
        shape = self.specimen_of(seed).shape
        inside = shape.holds_nodes(self.grid)
        nodes = np.stack([x[inside] for x in self.grid.coordinates], axis=-1)
        away = shapely.distance(shape.region.boundary, shapely.points(nodes)) > AWAY * max(self.grid.spacing)
        chosen = streams(seed)[1].choice(np.flatnonzero(inside)[away], self.pairs)
        loads = np.zeros((self.pairs, self.grid.size))
        loads[np.arange(self.pairs), chosen] = 1 / np.prod(self.grid.spacing)
        return loads.reshape(self.pairs, 1, *self.grid.shape).astype(self.precision)

    def draw_loads(self, rng: Generator) -> Loads:
        """Sources at the nodes of the box."""
        if self.loads == "outline":
            return np.zeros((self.pairs, 1, *self.grid.shape))
        return self.mesh.restrict(load_functions(self.loads, rng, self.mesh, self.pairs), to=self.grid)[:, None]

    def solve(self, rng: Generator, loads: Loads, seed: np.uint64) -> System:
        """On triangles as small as the mesh, or smaller, each of the material that the mesh has at its centre."""
        number, specimen = self._specimen(rng)
        fine = MATERIALS[self.family](rng, self.mesh, self.contrast).astype(self.precision)
        triangles, _ = smaller_at_singular_points(triangulated(specimen.shape, max(self.mesh.spacing)), specimen)
        material = _at_cells(fine, triangles.centres)
        inside = specimen.shape.holds_nodes(self.grid)
        nodes = np.stack([x[inside] for x in self.grid.coordinates], axis=-1)
        law = TriangleConduction(triangles, material, specimen)
        values, residual = self._values(law, nodes, loads, seed)
        if self.extrapolated:
            finer = TriangleConduction(triangles.refined(), np.repeat(material, 4), specimen)
            of_finer, residual = self._values(finer, nodes, loads, seed)
            values = extrapolated(values, of_finer)
        responses = np.full((self.pairs, 1, *self.grid.shape), np.nan, dtype=self.precision)
        responses[:, 0, inside] = values
        hidden = np.where(inside, mean_around_nodes(fine, self.refine), np.nan)
        fine = np.where(self._cells_inside(specimen), fine, np.nan).astype(self.precision)
        return self.system(
            hidden[None], loads, responses, seed=seed, fine=fine[None],
            parameters=(float(number), self.contrast), diagnostics={"residual": residual},
        )  # fmt: skip

    def _values(
        self, law: TriangleConduction, nodes: Float[np.ndarray, "node axis"], loads: Loads, seed: np.uint64
    ) -> tuple[Float[np.ndarray, "pair node"], Float[np.ndarray, " pair"]]:
        """Responses at some nodes, and relative residuals."""
        moments = self._moments(law.mesh, loads, streams(seed)[1])
        solution, residual = law.solve_and_check(moments, self.outline_of(seed))
        check_solved(residual)
        return (law.mesh.at(nodes) @ solution).T, residual

    def _specimen(self, rng: Generator) -> tuple[int, Specimen]:
        """Number of the shape, and the specimen."""
        kinds = list(SPECIMENS)
        drawn = int(rng.integers(len(kinds)))
        number = drawn if self.shape == "any" else kinds.index(self.shape.replace("-", " "))
        specimen = SPECIMENS[kinds[number]](rng, half=self.loads == "outline")
        return number, on_random_arc(specimen, rng) if self.supports == "random" else specimen

    def _moments(self, triangles: Triangulation, loads: Loads, rng: Generator) -> Float[np.ndarray, "vertex pair"]:
        """∫ N g of loads inside."""
        if self.loads == "outline":
            return np.zeros((len(triangles.vertices), self.pairs))
        if self.loads == "wells":
            node = np.nonzero(loads.reshape(self.pairs, -1))[1]  # one of every pair
            return triangles.at(np.stack([x.ravel()[node] for x in self.grid.coordinates], axis=-1)).T.toarray()
        drawn = load_functions(self.loads, rng, self.mesh, self.pairs)
        functions = self.functions_of(loads, drawn, self.mesh)

        def values(points: Float[np.ndarray, "point axis"]) -> Float[np.ndarray, "point pair"]:
            return np.asarray(multilinear(self.mesh, points) @ functions.reshape(self.pairs, -1).T)

        if self.extrapolated:
            return triangles.moments(values)
        return np.asarray(triangles.mass @ values(triangles.vertices))

    def _cells_inside(self, specimen: Specimen) -> Bool[np.ndarray, "x y"]:
        """Cells of the mesh whose centre is in the specimen."""
        return np.asarray(shapely.contains_xy(specimen.shape.region, *cell_centres(self.mesh)))


def _at_cells(fine: Cells, points: Float[np.ndarray, "point axis"]) -> Float[np.ndarray, " point"]:
    """Values of the cells of the unit square that hold the points."""
    x, y = np.minimum((points * fine.shape).astype(int), np.array(fine.shape) - 1).T
    return fine[x, y].astype(np.float64)

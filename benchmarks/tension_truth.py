"""Simulated tests of plane solids on a bench: what a camera sees, truth by scikit-fem on a finer mesh.

E is constant in triangles of the truth, which has quadratic displacements. `unknown` says what is off beside the noise:
Poisson's ratio, the camera's motion, a traction that is uneven, a support that slips, errors correlated over subsets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import skfem
from skfem.models.elasticity import lame_parameters, linear_elasticity

from nipde.context.sensors import Sensors
from nipde.context.solid_tests import SolidTests, Uncertain, subset_correlation
from nipde.discretisation.links import factorised
from nipde.discretisation.parts import ClampedPart, Condition, RollerPart, Specimen
from nipde.discretisation.solid_load import SolidLoad, vectors_at
from nipde.estimators.inverse.material_models import Penalty
from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField
from nipde.physics.triangles import Triangulation, smaller_at_singular_points, triangulated
from nipde.shape import Shape

SEED = 6079
#: Across the specimen: nodes of the box on which a material is drawn, triangles of the truth, camera points.
DRAWN, TRIANGLES, LATTICE = 161, 100, 21
#: Largest displacement and pixels of the field of view, whose length is 1.
STRAIN, PIXELS = 5e-3, 1000
POISSON, LEVELS, ONE = 0.3, (1.0, 3.0), 2.0
#: A subset of image correlation is as wide as this.
SUBSET = 0.1
#: Of materials of the calibration: logarithms of the contrast, shares of the first phase, radii of inclusions.
CONTRASTS, PART, RADII = (0.4, 1.8), (0.3, 0.7), (0.08, 0.2)


@dataclass(frozen=True)
class Row:
    """One kind of experiment."""

    test: str
    material: str = "two phases"
    noise: float = 0.01
    #: What is off beside the noise.
    unknown: tuple[str, ...] = ()
    penalty: Penalty | None = None
    #: Camera points across.
    lattice: int = LATTICE
    seed: int = SEED
    #: Contrast and shares of the material are drawn, too.
    drawn: bool = False

    @property
    def name(self) -> str:
        """In tables."""
        more = [*self.unknown, *([self.penalty] if self.penalty else [])]
        return ", ".join([self.test, self.material, f"{self.noise:g} px", *more])


@dataclass(frozen=True, eq=False)
class Experiment:
    """What the camera saw, and what is true."""

    tests: SolidTests
    mesh: Triangulation
    modulus: np.ndarray


def specimen_of(test: str) -> Specimen:
    """Shape and supports."""
    if test == "plate with hole":
        corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
        hole = Shape.disc((0.5, 0.5), 0.15, vertices=256).rings[0]
        shape = Shape.polygon(corners, holes=[hole], sides=("bottom", "right", "top", "left"))
        return Specimen(shape, {"left": ClampedPart()})
    if test == "bending":
        shape = Shape.rectangle(1.0, 0.4)
        shape = shape.with_part("first support", lambda x, y: (y < 1e-9) & (x > 0.04) & (x < 0.1))
        shape = shape.with_part("second support", lambda x, y: (y < 1e-9) & (x > 0.9) & (x < 0.96))
        shape = shape.with_part("stamp", lambda x, y: (y > 0.4 - 1e-9) & (np.abs(x - 0.5) < 0.06))
        return Specimen(shape, {"first support": ClampedPart(), "second support": RollerPart("y")})
    shape = Shape.rectangle(1.0, 1.0)
    if test == "two directions":
        return Specimen(shape, {"left": RollerPart("x"), "bottom": RollerPart("y")})
    return Specimen(shape, {"left": ClampedPart()})


def loads_of(test: str) -> list[SolidLoad]:
    """Of unit size."""
    tension = SolidLoad(tractions={"right": (1.0, 0.0)})
    if test == "three loads":
        bending = SolidLoad(tractions={"right": lambda x, y: np.stack([2 * (2 * y - 1), 0 * y], axis=-1)})
        return [tension, SolidLoad(tractions={"right": (0.0, 1.0)}), bending]
    if test == "bending":
        return [SolidLoad(tractions={"stamp": (0.0, -1.0)})]
    if test == "two directions":
        return [SolidLoad(tractions={"right": (1.0, 0.0), "top": (0.0, 1.0)})]
    return [tension]


def experiment_of(row: Row, number: int) -> Experiment:
    """With seeds of its own; rows with and without a penalty have the same."""
    kind = f"{row.test} {row.material} {row.noise} {row.unknown}"
    rng = np.random.default_rng([row.seed, number, crc32(kind.encode())])
    specimen = specimen_of(row.test)
    mesh = triangulated(specimen.shape, 1 / TRIANGLES)
    modulus = drawn_modulus(row, mesh.centres, rng) if row.drawn else modulus_of(row, mesh.centres, rng)
    said = loads_of(row.test)
    acted = said
    if "traction" in row.unknown:
        uneven = rng.normal(0, 0.1, (2, 2))

        def traction(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            s = 2 * y - 1
            return np.stack([1 + uneven[0, 0] * s + uneven[0, 1] * (1.5 * s**2 - 0.5), uneven[1, 0] * s], axis=-1)

        acted = [SolidLoad(tractions={"right": traction})]
    slip = rng.normal(0, 0.1 * STRAIN / 2, 2) if "support" in row.unknown else None
    points = lattice_of(specimen, row.lattice)
    seen = displacements(mesh, modulus, specimen, acted, points, slip=slip)
    scales = STRAIN / np.abs(seen).max(axis=(1, 2))
    deviation = row.noise / PIXELS
    if slip is not None:  # its size is stated for the displacements that are seen
        seen = displacements(mesh, modulus, specimen, acted, points, slip=slip / scales[0])
    readings = seen * scales[:, None, None]
    correlation = subset_correlation(points, subset=SUBSET) if "correlated" in row.unknown else None
    noise = rng.standard_normal(readings.shape)
    if correlation is not None:
        noise = noise @ np.linalg.cholesky(correlation).T
    readings = readings + deviation * noise
    if "motion" in row.unknown:
        turned = np.stack([-points[:, 1], points[:, 0]])
        readings = readings + np.array([rng.normal(0, 2e-2, 2)[:, None] + rng.normal(0, 1e-2) * turned for _ in acted])
    uncertain: tuple[Uncertain, ...] = tuple(one for one in ("motion", "traction", "support") if one in row.unknown)
    tests = SolidTests.from_arrays(
        specimen, [load.scaled(scale) for load, scale in zip(said, scales, strict=True)], points, readings,
        noise=deviation, covariance=correlation, poisson=None if "ratio" in row.unknown else POISSON,
        uncertain=uncertain,
    )  # fmt: skip
    return Experiment(tests, mesh, modulus)


def modulus_of(row: Row, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """E at points, of the rows' materials."""
    field = smooth_field(points, rng)
    return {
        "two phases": np.where(field < np.median(field), *LEVELS), "smooth": ONE * np.exp(0.4 * field / field.std()),
        "one value": np.full(len(field), ONE),
    }[row.material]  # fmt: skip


def drawn_modulus(row: Row, points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same with contrast and shares at random; inclusions are one to three discs, stiff or soft."""
    contrast = float(np.exp(rng.uniform(*CONTRASTS) * rng.choice([-1, 1])))
    if row.material == "inclusions":
        low, high = points.min(axis=0), points.max(axis=0)
        middles = rng.uniform(low, high, (rng.integers(1, 4), 2))
        radii = rng.uniform(*RADII, len(middles)) * float((high - low).min())
        inside = (np.linalg.norm(points[:, None] - middles, axis=-1) < radii).any(axis=1)
        return np.where(inside, contrast, 1.0)
    field = smooth_field(points, rng)
    return {
        "two phases": np.where(field < np.quantile(field, rng.uniform(*PART)), 1.0, contrast),
        "smooth": ONE * np.exp(rng.uniform(0.15, 0.5) * field / field.std()), "one value": np.full(len(field), ONE),
    }[row.material]  # fmt: skip


def smooth_field(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A Gaussian field of the unit square, at points."""
    box = Grid.uniform(DRAWN)
    return Sensors.at(points).matrix(box) @ GaussianField(4.0).sample(box, rng=rng, count=1).ravel()


def lattice_of(specimen: Specimen, count: int = LATTICE) -> np.ndarray:
    """Camera points, none on the outline but those of its straight sides."""
    line = np.linspace(0, 1, count)
    points = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    points = points[specimen.shape.covers(points)]
    clamped = points[:, 0] < 1e-9
    return points[~clamped] if isinstance(specimen.condition("left"), ClampedPart) else points


def displacements(
    mesh: Triangulation, modulus: np.ndarray, specimen: Specimen, loads: Sequence[SolidLoad], points: np.ndarray, *,
    slip: np.ndarray | None = None, graded: bool = True,
) -> np.ndarray:  # fmt: skip
    """By quadratic triangles of scikit-fem, E constant in each; (load, component, point).

    They are smaller where stresses are singular if they are `graded`.
    """
    if graded:
        mesh, within = smaller_at_singular_points(mesh, specimen)
        modulus = modulus[within]
    triangles = skfem.MeshTri(*(np.ascontiguousarray(each.T) for each in (mesh.vertices, mesh.triangles)))
    names = {tuple(sorted(edge)): part for edge, part in zip(mesh.edges.tolist(), mesh.parts, strict=True)}
    facets = triangles.boundary_facets()
    of_facet = np.array([names[tuple(sorted(triangles.facets[:, facet].tolist()))] for facet in facets])
    basis = skfem.Basis(triangles, skfem.ElementVector(skfem.ElementTriP2()))
    constant = basis.with_element(skfem.ElementTriP0())
    unit = linear_elasticity(*plane_stress(1.0))

    @skfem.BilinearForm  # type: ignore[untyped-decorator]
    def stiffness(u: Any, v: Any, w: Any) -> Any:
        return w["modulus"] * unit.form(u, v, w)

    matrix = stiffness.assemble(basis, modulus=constant.interpolate(modulus))
    right, given = np.zeros((len(loads), basis.N)), np.zeros(basis.N)
    for number, load in enumerate(loads):
        for part, traction in load.tractions.items():
            side = skfem.FacetBasis(triangles, basis.elem, facets=facets[of_facet == part])

            @skfem.LinearForm  # type: ignore[untyped-decorator]
            def work(v: Any, w: Any, traction: Any = traction) -> Any:
                values = vectors_at(traction, np.stack([x.ravel() for x in w.x], axis=-1)).T.reshape(w.x.shape)
                return values[0] * v[0] + values[1] * v[1]

            right[number] += work.assemble(side)
    fixed = []
    for part, condition in specimen.conditions.items():
        held = basis.get_dofs(facets=facets[of_facet == part])
        fixed.append(held.all(_components(condition)))
        if slip is not None and isinstance(condition, ClampedPart):
            for axis, one in enumerate(("u^1", "u^2")):
                given[held.all([one])] = slip[axis]
    free = np.setdiff1d(np.arange(basis.N), np.concatenate(fixed))
    factor = factorised(matrix[free][:, free].tocsc(), symmetric=True, ordered=False)
    probes, found = basis.probes(points.T), []
    for one in right:
        u = given.copy()
        u[free] = factor.solve((one - matrix @ given)[free])
        found.append((probes @ u).reshape(2, -1))
    return np.array(found)


def plane_stress(modulus: float) -> tuple[float, float]:
    """Lamé's parameters that give plane stress in a plane law."""
    first, second = lame_parameters(modulus, POISSON)
    return 2 * first * second / (first + 2 * second), second


def _components(condition: Condition) -> list[str]:
    if isinstance(condition, RollerPart):
        return ["u^1" if condition.direction == "x" else "u^2"]
    return ["u^1", "u^2"]

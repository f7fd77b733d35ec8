"""Plane solids on a test bench: displacements at camera points to E(x), truth by scikit-fem on a finer mesh.

Rows are tests × materials × noise: tension; tension, shear and bending; three-point bending; two directions at once; a
plate with a hole. Two phases 1 : 3, a smooth field, one value. Noise in pixels at a field of view of 1,000; the largest
displacement is 0.5 % of it. `unknown` says what is off beside the noise and is to be found or borne: Poisson's ratio,
the camera's motion, a traction that is uneven, a support that slips, errors correlated over subsets. E is constant in
triangles of the truth, which has quadratic displacements.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import skfem
import torch
from skfem.models.elasticity import lame_parameters, linear_elasticity

from benchmarks import campaign
from benchmarks.reference import NORMAL, SHARES
from nipde.atomic import write_bytes
from nipde.context.sensors import Sensors
from nipde.context.solid_tests import SolidTests, Uncertain, subset_correlation
from nipde.discretisation.links import factorised
from nipde.discretisation.parts import ClampedPart, Condition, RollerPart, Specimen
from nipde.discretisation.solid_load import SolidLoad, vectors_at
from nipde.estimators.inverse.material_models import Penalty
from nipde.estimators.inverse.solid_inversion import SolidInversion, SolidLaw
from nipde.estimators.inverse.virtual_fields import VirtualFields
from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField
from nipde.physics.triangles import Triangulation, triangulated
from nipde.shape import Shape

SEED = 6079
#: Specimens of every row, by budget; of those with a penalty.
BUDGETS = {"quick": (1, 0), "standard": (10, 2), "long": (30, 10)}
#: Across the specimen: nodes of the box on which a material is drawn, triangles of the truth, camera points.
DRAWN, TRIANGLES, LATTICE = 161, 100, 21
#: Largest displacement and pixels of the field of view, whose length is 1.
STRAIN, PIXELS = 5e-3, 1000
POISSON, LEVELS, ONE = 0.3, (1.0, 3.0), 2.0
#: Points closer to the outline are not judged; a subset of image correlation is as wide as this.
RIM, SUBSET = 0.02, 0.1


@dataclass(frozen=True)
class Row:
    """One kind of experiment."""

    test: str
    material: str = "two phases"
    noise: float = 0.01
    #: What is off beside the noise.
    unknown: tuple[str, ...] = ()
    penalty: Penalty | None = None

    @property
    def name(self) -> str:
        """In tables."""
        more = [*self.unknown, *([self.penalty] if self.penalty else [])]
        return ", ".join([self.test, self.material, f"{self.noise:g} px", *more])


TESTS = ("tension", "three loads", "bending", "two directions", "plate with hole")
ROWS = (
    *(Row(test, "two phases", noise) for test, noise in product(TESTS, (0.01, 0.05))),
    *(Row(test, "smooth") for test in TESTS),
    *(Row("tension", "one value", noise, ("ratio", "motion")) for noise in (0.01, 0.05)),
    *(Row("tension", "two phases", 0.01, (one,)) for one in ("ratio", "motion", "traction", "support", "correlated")),
    Row("plate with hole", "two phases", 0.01, ("ratio", "motion", "traction")),
)  # fmt: skip
PENALTIES = tuple(
    replace(row, penalty=penalty) for row in ROWS if not row.unknown and row.noise == 0.01
    for penalty in ("tikhonov", "total-variation")
)  # fmt: skip


def measure(
    *, budget: str, before: Any = None, work: Path, only: list[str] | None = None, workers: int = 1,
    progress: Any = lambda finished: None,
) -> dict[str, Any]:  # fmt: skip
    """Every row over the specimens of the budget, or over those finished; `only` names rows."""
    folder = work / "tension"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(row, BUDGETS[budget][row.penalty is not None]) for row in (*ROWS, *PENALTIES)]
    jobs = [(row, number) for number in range(max(BUDGETS[budget])) for row, count in rows if number < count]
    jobs = [(row, number) for row, number in jobs if not only or row.name in only]
    before = {name: one for name, one in (before or {}).items() if "virtual_fields" in one}
    known = campaign.measured_systems(
        jobs, judged, name=_name, path=_path, folder=folder, before=before, count=workers, progress=progress
    )
    known = [{"virtual_fields": None, **one} for one in known]
    each = {row: [one for one in known if one["row"] == row.name] for row in (*ROWS, *PENALTIES)}
    return {
        "strain": STRAIN, "pixels": PIXELS, "triangles": TRIANGLES, "systems": known,
        "rows": [summary(row, found) for row, found in each.items() if found],
    }  # fmt: skip


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
    rng = np.random.default_rng([SEED, number, crc32(kind.encode())])
    specimen = specimen_of(row.test)
    mesh = triangulated(specimen.shape, 1 / TRIANGLES)
    box = Grid.uniform(DRAWN)
    field = Sensors.at(mesh.centres).matrix(box) @ GaussianField(4.0).sample(box, rng=rng, count=1).ravel()
    modulus = {
        "two phases": np.where(field < np.median(field), *LEVELS), "smooth": ONE * np.exp(0.4 * field / field.std()),
        "one value": np.full(len(field), ONE),
    }[row.material]  # fmt: skip
    said = loads_of(row.test)
    acted = said
    if "traction" in row.unknown:
        uneven = rng.normal(0, 0.1, (2, 2))

        def traction(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            s = 2 * y - 1
            return np.stack([1 + uneven[0, 0] * s + uneven[0, 1] * (1.5 * s**2 - 0.5), uneven[1, 0] * s], axis=-1)

        acted = [SolidLoad(tractions={"right": traction})]
    slip = rng.normal(0, 0.1 * STRAIN / 2, 2) if "support" in row.unknown else None
    points = lattice_of(specimen)
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


def lattice_of(specimen: Specimen) -> np.ndarray:
    """Camera points, none on the outline but those of its straight sides."""
    line = np.linspace(0, 1, LATTICE)
    points = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    points = points[specimen.shape.covers(points)]
    clamped = points[:, 0] < 1e-9
    return points[~clamped] if isinstance(specimen.condition("left"), ClampedPart) else points


def displacements(
    mesh: Triangulation, modulus: np.ndarray, specimen: Specimen, loads: Sequence[SolidLoad], points: np.ndarray, *,
    slip: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """By quadratic triangles of scikit-fem, E constant in each; (load, component, point)."""
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


def judged(row: Row, number: int, folder: Path) -> str:
    """One specimen."""
    torch.set_num_threads(1)
    experiment = experiment_of(row, number)
    start = time.process_time()
    law = SolidInversion(penalty=row.penalty)(experiment.tests)
    seconds = time.process_time() - start
    found = {"name": _name(row, number), "row": row.name, "seconds": round(seconds, 2), **assessed(law, experiment)}
    write_bytes(_path(folder, row, number), json.dumps(found).encode())
    return str(found["name"])


def assessed(law: SolidLaw, experiment: Experiment) -> dict[str, Any]:
    """Errors, and what the law says of them."""
    mesh, truth = experiment.mesh, np.log(experiment.modulus)
    inside = law.tests.specimen.shape.region.buffer(-RIM)
    kept = Shape.of(inside).contains(mesh.centres)
    log, middle = law.log_modulus_at(mesh.centres[kept]), float(np.log(LEVELS).mean())
    ratios = np.abs(log - truth[kept])[::7] / law.log_deviation_at(mesh.centres[kept][::7])
    scores = {name: round(float(value), 2) for name, value in law.outlier_test.scores.items()}
    homogeneous = np.ptp(truth) == 0
    by_fields = VirtualFields()(law.tests) if homogeneous else None
    return {
        "virtual_fields": by_fields, "log_mean": float(np.abs(log - truth[kept]).mean()),
        "level": float((log - truth[kept]).mean()),
        "phases_inside": float(np.mean((log > middle) == (truth[kept] > middle))),
        "within": float(np.mean(ratios <= NORMAL)), "ratios": np.quantile(ratios, SHARES).round(3).tolist(),
        "rings": bool(law.outlier_test.is_outlier), "scores": scores,
        **{name: value for name, value in law.summary.items() if name != "criteria"},
    }  # fmt: skip


def summary(row: Row, each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the specimens."""
    names = ("log_mean", "phases_inside", "within", "chi_square", "rings", "seconds")
    ratio = [abs(one["poisson"] - POISSON) for one in each]
    held = [abs(one["poisson"] - POISSON) <= NORMAL * one["poisson_deviation"] for one in each]
    return {
        "row": row.name, **asdict(row), "systems": len(each), "models": dict(Counter(one["model"] for one in each)),
        **{name: float(np.mean([one[name] for one in each])) for name in names},
        "log_worst": max(one["log_mean"] for one in each), "ratio_error": float(np.mean(ratio)),
        "ratio_within": float(np.mean(held)) if "ratio" in row.unknown else None,
        "virtual_fields": _mean_errors([one["virtual_fields"] for one in each if one["virtual_fields"]]),
    }  # fmt: skip


def _mean_errors(each: Sequence[tuple[float, float]]) -> list[float] | None:
    """Of log E and of ν."""
    if not each:
        return None
    return [
        float(np.mean([abs(np.log(e / ONE)) for e, _ in each])),
        float(np.mean([abs(v - POISSON) for _, v in each])),
    ]


def _name(row: Row, number: int) -> str:
    return f"{row.name} {number}"


def _path(folder: Path, row: Row, number: int) -> Path:
    return folder / f"{_name(row, number).replace(', ', '-').replace(' ', '-')}.json"

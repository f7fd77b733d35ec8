"""How exact the responses are that estimators are judged by: against those of finer meshes, with the same material.

Relative errors of the responses at the nodes of the data or at camera points, without noise. What stands for exact are
responses extrapolated from meshes two and four times finer than that of the material; on a bench those of triangles
half as large; over three axes those extrapolated from one finer mesh.
"""

from itertools import product
from typing import Any

import numpy as np

from benchmarks.tension_truth import TRIANGLES as ON_BENCH
from benchmarks.tension_truth import Row, displacements, lattice_of, loads_of, modulus_of, specimen_of
from nipde.data.conduction_3d import LOAD_WAVES, Conduction3DRecipe
from nipde.data.finer_mesh import extrapolated
from nipde.data.random_specimens import SPECIMENS, outline_case
from nipde.data.reference import MATERIALS, ReferenceDarcyRecipe, load_functions
from nipde.grid import Grid
from nipde.physics.finite_elements import FiniteElements
from nipde.physics.random_fields import GaussianField
from nipde.physics.triangles import TriangleConduction, Triangulation, smaller_at_singular_points, triangulated

SEED = 8111
SYSTEMS, PAIRS = 1, 10
#: Spacing of triangles, as of `darcy-shapes`, and of the points where responses are judged.
SPACING, POINTS = 1 / 160, 1 / 20
TESTS = ("bending", "tension")
#: Nodes per axis of the benchmarks' cubes, and their loads: finer meshes take minutes.
CUBES, LOADS_3D = (17, 33), 3


def measure(*, quick: bool) -> dict[str, Any]:
    """Squares by material, specimens by shape, tests on a bench, cubes."""
    numbers, first = range(SYSTEMS), slice(1 if quick else None)
    return {
        "systems": SYSTEMS, "pairs": PAIRS, "pairs_3d": LOADS_3D,
        "squares": [
            {"material": kind, **_mean([_square(kind, number) for number in numbers])} for kind in [*MATERIALS][first]
        ],
        "shapes": [{"shape": kind, **_mean([_shape(kind, one) for one in numbers])} for kind in [*SPECIMENS][first]],
        "tests": [{"test": test, **_mean([_test(test, one) for one in numbers])} for test in TESTS[first]],
        "cubes": [
            {"nodes": nodes, "material": kind, **_cube(nodes, share)}
            for nodes, (kind, share) in [*product(CUBES, (("two-phase", 0.0), ("log-normal", 1.0)))][first]
        ],
    }  # fmt: skip


def _square(family: Any, number: int) -> dict[str, float]:
    """Of `darcy-reference`."""
    recipe = ReferenceDarcyRecipe(pairs=PAIRS, family=family)
    fine = MATERIALS[family](np.random.default_rng([SEED, number]), recipe.mesh, recipe.contrast)
    found = []
    for elements in (1, 2, 4):
        law = FiniteElements(recipe.mesh.refine(elements), np.kron(fine, np.ones((elements, elements))))
        loads = load_functions(recipe.loads, np.random.default_rng([SEED, number, 1]), law.grid, PAIRS)
        found.append(law.grid.restrict(law.solve(loads), to=recipe.grid))
    exact = extrapolated(*found[1:])
    return {"as they are": _error(found[0], exact), "extrapolated": _error(extrapolated(*found[:2]), exact)}


def _shape(kind: str, number: int) -> dict[str, float]:
    """Of `darcy-shapes`, loads on the outline."""
    rng = np.random.default_rng([SEED, number])
    specimen = SPECIMENS[kind](rng, half=True)
    cases = [outline_case(specimen, rng) for _ in range(PAIRS)]
    plain = triangulated(specimen.shape, SPACING)
    phases = MATERIALS["two-phase"](rng, Grid.uniform(161), 4.0)
    x, y = np.minimum((plain.centres * phases.shape).astype(int), np.array(phases.shape) - 1).T
    material = phases[x, y]
    at = triangulated(specimen.shape, POINTS).centres

    def solved(mesh: Triangulation, values: np.ndarray) -> np.ndarray:
        law = TriangleConduction(mesh, values, specimen)
        return np.asarray(mesh.at(at) @ law.solve(np.zeros((len(mesh.vertices), PAIRS)), cases))

    mesh, within = smaller_at_singular_points(plain, specimen)
    found = []
    for _ in range(3):
        found.append(solved(mesh, material[within]))
        mesh, within = mesh.refined(), np.repeat(within, 4)
    exact = extrapolated(*found[1:])
    return {
        "triangles of one size": _error(solved(plain, material), exact), "as they are": _error(found[0], exact),
        "extrapolated": _error(extrapolated(*found[:2]), exact),
    }  # fmt: skip


def _test(test: str, number: int) -> dict[str, float]:
    """On a bench, two phases."""
    specimen, loads = specimen_of(test), loads_of(test)
    mesh, points = triangulated(specimen.shape, 1 / ON_BENCH), lattice_of(specimen)
    modulus = modulus_of(Row(test), mesh.centres, np.random.default_rng([SEED, number]))
    plain = displacements(mesh, modulus, specimen, loads, points, graded=False)
    found = displacements(mesh, modulus, specimen, loads, points)
    exact = displacements(mesh.refined(), np.repeat(modulus, 4), specimen, loads, points)
    return {"triangles of one size": _error(plain, exact), "as they are": _error(found, exact)}


def _cube(nodes: int, log_normal_share: float) -> dict[str, float]:
    """Of `conduction-3d`, contrast 4."""
    recipe = Conduction3DRecipe(nodes=nodes, log_normal_share=log_normal_share, contrasts=(4.0, 4.0))
    fine = recipe.draw_material(np.random.default_rng(SEED))[2].astype(np.float64)
    found = []
    for elements in (1, 2):
        law = FiniteElements(recipe.mesh.refine(elements), np.kron(fine, np.ones((elements,) * 3)))
        loads = GaussianField(2.0, waves=LOAD_WAVES, rms=1.0)
        functions = loads.sample(law.grid, rng=np.random.default_rng([SEED, 1]), count=LOADS_3D)
        found.append(law.grid.restrict(law.solve(functions), to=recipe.grid))
    return {"as they are": _error(found[0], extrapolated(*found))}


def _error(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def _mean(each: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in each])) for name in each[0]}

"""Are the bodies right, and what does a solve cost? Consistency, objectivity, orders, published energies, time.

The bodies are those of the data sets: two images of Mechanical MNIST with body forces of amplitude 0.01, and tissue of
two segments with amplitude 0.1, both held on all sides at 29 × 29 nodes. Times are processor time of one thread,
interleaved, medians: a whole solve against as many bare assemblies, band factors and band solves as it has iterations.
Agreement with scikit-fem is a test, tests/physics/test_hyperelastic.py: it is no dependency.
"""

import time
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import lapack

from benchmarks.mechanics_published import DISTANCES, ENERGIES, bitmap
from benchmarks.timing import seconds
from nipde.grid import Grid
from nipde.physics.assembly import add_forces, add_tangent
from nipde.physics.bodies import NeoHookean, TwoSegmentTissue, modulus_of_bitmap
from nipde.physics.elastic import ElasticBody
from nipde.physics.newton import Newton
from nipde.physics.quadrilaterals import Quadrilaterals
from nipde.physics.random_fields import PowerLawField
from nipde.physics.supports import HELD, UNIAXIAL_EXTENSION, Support, unknowns_of

SEED = 2027
PIXELS, SQUARE = Grid.uniform(29, length=28.0), Grid.uniform(29)
AMPLITUDES = {"neo-hookean": 0.01, "tissue": 0.1}
TIGHT = Newton(tolerance=1e-12)
#: Refinements whose responses are compared with the best one, on a uniform body.
REFINEMENTS, BEST = (1, 2, 4), 12


def measure(*, quick: bool) -> dict[str, Any]:
    """All figures of the mechanics table."""
    loads, specimens = (5, 2) if quick else (100, 20)
    bodies: dict[str, list[ElasticBody]] = {
        "neo-hookean": [_digit(number) for number in ENERGIES],
        "tissue": _tissues(specimens),
    }
    return {
        "patch_error": max(_patch_error(degree) for degree in (1, 2)),
        "consistency": {name: max(map(_consistency, some[:2])) for name, some in bodies.items()},
        "rotation": {name: max(map(_rotation, some[:2])) for name, some in bodies.items()},
        "orders": {f"degree_{degree}": _orders(degree) for degree in (1, 2)},
        "published": [_published(number, degree) for degree in (1, 2) for number in ENERGIES],
        "discretisation": {name: _discretisation(some[0], name, quick=quick) for name, some in bodies.items()},
        "solves": {name: _solves(some, name, loads=loads) for name, some in bodies.items()},
        "cost": {name: _cost(some[0], name, rounds=5 if quick else 60) for name, some in bodies.items()},
    }


def _digit(number: int, **options: Any) -> NeoHookean:
    return NeoHookean(PIXELS, modulus_of_bitmap(bitmap(number)), **options)


def _tissues(count: int) -> list[ElasticBody]:
    rng = np.random.default_rng(SEED)
    draws = [(rng.uniform(0, 2 * np.pi, 2), rng.uniform(0, np.pi)) for _ in range(count)]
    return [TwoSegmentTissue(SQUARE, (float(first), float(second)), line) for (first, second), line in draws]


def _loads(grid: Grid, name: str, *, count: int) -> Float[np.ndarray, "count 2 x y"]:
    fields = PowerLawField().sample(grid, rng=np.random.default_rng(SEED), count=2 * count)
    return AMPLITUDES[name] * fields.reshape(count, 2, *grid.shape)


@dataclass(frozen=True)
class _Patch(Support):
    """Every side follows an affine map; the guess is wrong inside."""

    def fixed(self, mesh: Quadrilaterals) -> Bool[np.ndarray, "x y component"]:
        return np.repeat(np.logical_or.reduce(list(mesh.sides().values()))[..., None], 2, axis=-1)

    def displacement(self, mesh: Quadrilaterals) -> Float[np.ndarray, "x y component"]:
        wrong = 0.02 * np.random.default_rng(SEED).standard_normal((*mesh.shape, 2))
        return self.exact(mesh) + np.where(self.fixed(mesh), 0, wrong)

    def exact(self, mesh: Quadrilaterals) -> Float[np.ndarray, "x y component"]:
        return np.einsum("ca,axy->xyc", np.array([[0.3, 0.2], [-0.1, -0.15]]), mesh.coordinates)


def _patch_error(degree: int) -> float:
    body = NeoHookean(Grid.uniform(6), np.full((5, 5), 10.0), degree=degree, newton=TIGHT)
    (result,), _ = body.deform(_Patch(), [1.0])
    return float(np.max(np.abs(result - np.moveaxis(_Patch().exact(body.mesh), -1, 0))))


def _consistency(body: ElasticBody) -> float:
    """Relative distance of force and tangent along a direction from central differences of energy and force."""
    rng, shape, step = np.random.default_rng(SEED), (2, *body.mesh.shape), 1e-5
    spacing = body.grid.spacing[0]
    u, way = (spacing * size * rng.standard_normal(shape) for size in (0.05, 1.0))
    slope = (body.energy(u + step * way) - body.energy(u - step * way)) / (2 * step)
    change = (body.forces(u + step * way) - body.forces(u - step * way)) / (2 * step)
    forces = abs(np.sum(body.forces(u) * way) / slope - 1)
    along = (body.tangent(u) @ np.moveaxis(way, 0, -1).reshape(-1)).reshape(*shape[1:], 2)
    return float(max(forces, np.linalg.norm(np.moveaxis(along, -1, 0) - change) / np.linalg.norm(change)))


def _rotation(body: ElasticBody) -> float:
    """Change of the energy of a random displacement, relative, when the body is turned by one radian as well."""
    turn, x = np.array([[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]]), body.mesh.coordinates
    u = 0.05 * body.grid.spacing[0] * np.random.default_rng(SEED).standard_normal(x.shape)
    return float(abs(body.energy(np.einsum("ij,jxy->ixy", turn, x + u) - x) / body.energy(u) - 1))


def _orders(degree: int) -> list[float]:
    """log₂ of the ratios of errors from one refinement to the next; one load, a uniform body of 4 × 4 cells."""
    grid, modulus = Grid.uniform(5), np.full((4, 4), 10.0)
    load = 300 * _loads(grid, "neo-hookean", count=1)

    def solution(degree: int, refine: int) -> Float[np.ndarray, "1 2 x y"]:
        return NeoHookean(grid, modulus, degree=degree, refine=refine, newton=TIGHT).solve(load)

    best = solution(2, BEST)
    errors = [float(np.linalg.norm(solution(degree, refine) - best)) for refine in REFINEMENTS]
    return [float(np.log2(coarse / fine)) for coarse, fine in pairwise(errors)]


def _published(number: int, degree: int) -> dict[str, Any]:
    """Largest relative distance from the published energies over all distances."""
    body = _digit(number, degree=degree)
    fields, records = body.deform(UNIAXIAL_EXTENSION, DISTANCES)
    ratios = np.array([body.energy(field) for field in fields]) / ENERGIES[number]
    return {
        "image": number,
        "degree": degree,
        "largest_error": float(np.max(np.abs(ratios - 1))),
        "cutbacks": sum(record.cutbacks for record in records),
    }


def _discretisation(body: ElasticBody, name: str, *, quick: bool) -> dict[str, float]:
    """Relative L² distance at the grid's nodes from elements of degree 2, half as large where there is time."""
    loads = _loads(body.grid, name, count=1 if quick else 3)

    def solution(degree: int, refine: int) -> Float[np.ndarray, "load 2 x y"]:
        return _other_elements(body, degree, refine).solve(loads)

    best = solution(2, 1 if quick else 2)
    kinds = {"degree_1": (1, 1), "degree_1_refined": (1, 2)} | ({} if quick else {"degree_2": (2, 1)})
    return {kind: float(np.linalg.norm(solution(*how) - best) / np.linalg.norm(best)) for kind, how in kinds.items()}


def _other_elements(body: ElasticBody, degree: int, refine: int) -> ElasticBody:
    if isinstance(body, TwoSegmentTissue):
        return TwoSegmentTissue(body.grid, body.angles, body.line, degree=degree, refine=refine)
    assert isinstance(body, NeoHookean)
    return NeoHookean(body.grid, body.modulus, degree=degree, refine=refine)


def _solves(bodies: list[ElasticBody], name: str, *, loads: int) -> dict[str, float]:
    """All specimens under the same loads: what the records say."""
    result = [body.attempt(_loads(body.grid, name, count=loads)) for body in bodies]
    records = [record for _, some in result for record in some]
    near = [new / old**2 for record in records for old, new in pairwise(record.history) if 1e-6 < old < 0.1]
    return {
        "amplitude": AMPLITUDES[name],
        "solves": len(records),
        "failures": sum(not record.converged for record in records),
        "mean_iterations": float(np.mean([record.iterations for record in records])),
        "most_iterations": max(record.iterations for record in records),
        "cutbacks": sum(record.cutbacks for record in records),
        "largest_residual": max(record.residual for record in records),
        "smallest_jacobian": min(record.smallest_jacobian for record in records),
        "largest_displacement": float(max(np.nanmax(np.abs(responses)) for responses, _ in result)),
        "median_quadratic_ratio": float(np.median(near)),
    }


def _cost(body: ElasticBody, name: str, *, rounds: int) -> dict[str, float]:
    """Milliseconds of one solve and of its bare parts, and their ratio."""
    loads = _loads(body.grid, name, count=rounds)
    body.solve(loads[:1])  # compiled, and the mesh built
    whole, bare, iterations = [], [], []
    for load in loads:
        start = time.process_time()
        response, (record,) = body.checked_solve(load)
        whole.append(time.process_time() - start)
        bare.append(record.iterations * _bare_seconds(body, response))
        iterations.append(record.iterations)
    return {
        "milliseconds": 1e3 * float(np.median(whole)),
        "bare_milliseconds": 1e3 * float(np.median(bare)),
        "ratio": float(np.median(np.array(whole) / np.array(bare))),
        "mean_iterations": float(np.mean(iterations)),
        "unknowns": unknowns_of(body.mesh, HELD).size,
        "bandwidth": unknowns_of(body.mesh, HELD).bandwidth,
    }


def _bare_seconds(body: ElasticBody, response: Float[np.ndarray, "2 x y"]) -> float:
    """Seconds of one assembly of forces and tangent, one band factor and one solve, into memory that is there."""
    mesh, unknowns, material = body.mesh, unknowns_of(body.mesh, HELD), body.material
    displacement = np.ascontiguousarray(response.reshape(2, -1).T)
    forces, band, right = np.zeros(displacement.shape), np.zeros(unknowns.slot_count), np.ones(unknowns.size)

    def once() -> None:
        band.fill(0)
        add_forces(displacement, mesh.elements, mesh.gradients, mesh.weights, material, forces)
        add_tangent(displacement, mesh.elements, mesh.gradients, mesh.weights, material, unknowns.slots, band)
        factor, _ = lapack.dpbtrf(unknowns.columns(band), lower=1, overwrite_ab=1)
        lapack.dpbtrs(factor, right, lower=1)

    return median(seconds(once) for _ in range(3))

"""Random bodies in a specimen with electrodes, and what the electrodes see of them: R(σ), potentials by currents.

    U = R I: with R of all electrodes, every set of injections and readings, and every symmetric view, is at hand

A mesh of its own, with electrodes that are drawn anew, stands for the laboratory: a network must not learn the errors
of one mesh.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import shapely
from jaxtyping import Float, Int
from shapely import affinity
from shapely.geometry.base import BaseGeometry

from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.parts import Specimen
from nipde.estimators.inverse.electrode_solver import ElectrodeSolver, ElectrodeSystem
from nipde.estimators.inverse.material_grid import material_grid
from nipde.physics.triangles import triangulated

#: Numbers of bodies, and how often.
COUNTS, OFTEN = (0, 1, 2, 3, 4, 5), (0.02, 0.24, 0.32, 0.24, 0.12, 0.06)
#: Radii of bodies and their distances from each other and from the outline, over half the width of the specimen.
RADII, APART, AWAY = (0.16, 0.46), 0.04, 0.05
#: log10 of conductivities over that of the background: resistive, conductive.
RESISTIVE, CONDUCTIVE = (-3.0, -1.3), (1.3, 3.0)
#: Attempts to place a body.
ATTEMPTS = 12
#: Triangles along the width.
TRIANGLES = 61


@dataclass(frozen=True, eq=False)
class Phantoms:
    """Bodies that were drawn, and what electrodes see of them."""

    #: Potentials of electrodes by currents, and those without bodies; σ of the background is 1.
    resistances: Float[np.ndarray, "phantom electrode electrode"]
    empty: Float[np.ndarray, "phantom electrode electrode"]
    #: -1, 0, 1 at the points asked for.
    phases: Int[np.ndarray, "phantom x y"]

    def chosen(self, numbers: Int[np.ndarray, " chosen"]) -> "Phantoms":
        """Some of them."""
        return Phantoms(self.resistances[numbers], self.empty[numbers], self.phases[numbers])


def phantoms(
    count: int, specimen_of: Callable[[np.random.Generator], Specimen], *, points: Float[np.ndarray, "x y 2"],
    rng: np.random.Generator, triangles: int = TRIANGLES,
) -> Phantoms:  # fmt: skip
    """So many in one specimen, as `specimen_of` draws its electrodes."""
    specimen = specimen_of(rng)
    region = specimen.shape.region
    half = max(region.bounds[2] - region.bounds[0], region.bounds[3] - region.bounds[1]) / 2
    solver = all_electrodes(specimen, 2 * half / triangles)
    empty, seen, shown = resistances(solver, np.ones(len(solver.mesh.triangles))), [], []
    for _ in range(count):
        bodies = random_bodies(region, half, rng)
        values = {-1: 10 ** rng.uniform(*RESISTIVE), 1: 10 ** rng.uniform(*CONDUCTIVE), 0: 1.0}
        phases = phases_at(solver.mesh.centres, bodies)
        seen.append(resistances(solver, np.vectorize(values.get, otypes=[float])(phases)))
        shown.append(phases_at(points.reshape(-1, 2), bodies).reshape(points.shape[:-1]))
    return Phantoms(np.array(seen), np.broadcast_to(empty, (count, *empty.shape)), np.array(shown, dtype=np.int8))


def random_bodies(region: shapely.Polygon, half: float, rng: np.random.Generator) -> list[tuple[shapely.Polygon, int]]:
    """Outlines and phases: resistive alone, conductive alone, or both."""
    inside, found = region.buffer(-AWAY * half), list[tuple[shapely.Polygon, int]]()
    shapely.prepare(inside)
    low, high = np.array(region.bounds).reshape(2, 2)
    allowed = ((-1,), (1,), (-1, 1))[rng.choice(3, p=(0.25, 0.25, 0.5))]
    for _ in range(rng.choice(COUNTS, p=OFTEN)):
        for _ in range(ATTEMPTS):
            outline, radius = random_outline(rng), half * rng.uniform(*RADII)
            body = affinity.scale(outline, radius, radius, origin=(0, 0))
            body = affinity.translate(
                affinity.rotate(body, rng.uniform(0, 360), origin=(0, 0)), *rng.uniform(low, high)
            )
            if inside.contains(body) and all(body.distance(other) > APART * half for other, _ in found):
                found.append((body, int(rng.choice(allowed))))
                break
    return found


def random_outline(rng: np.random.Generator) -> shapely.Polygon:
    """Around 0, of radius about 1: an ellipse, a polygon, a blob, a rectangle, part of a ring, an angle, a cross."""
    kind, turn = rng.integers(7), np.linspace(0, 2 * np.pi, 64, endpoint=False)
    if kind == 0:
        squeeze = rng.uniform(0.6, 1) if rng.random() < 0.4 else 1.0
        return shapely.Polygon(np.stack([np.cos(turn), squeeze * np.sin(turn)], axis=-1))
    if kind == 1:
        corners = 2 * np.pi * (np.arange(count := rng.integers(3, 7)) + rng.uniform(-0.2, 0.2, count)) / count
        radius = rng.uniform(0.75, 1, count)
        return shapely.Polygon(np.stack([radius * np.cos(corners), radius * np.sin(corners)], axis=-1))
    if kind == 2:
        waves = [rng.normal(0, 0.22 / order) * np.cos(order * turn + rng.uniform(0, 6.28)) for order in range(2, 6)]
        radius = np.maximum(1 + sum(waves), 0.2)
        return shapely.Polygon(np.stack([np.cos(turn), np.sin(turn)], axis=-1) * (radius / radius.max())[:, None])
    if kind == 3:
        return shapely.box(-1, -(height := rng.uniform(0.3, 1)), 1, height)
    if kind == 4:
        along, inner = np.linspace(-1, 1, 40) * rng.uniform(0.6, 2.4), 1 - rng.uniform(0.25, 0.5)
        arc = np.stack([np.cos(along), np.sin(along)], axis=-1)
        ring = np.concatenate([arc, inner * arc[::-1]])
        return shapely.Polygon(ring - ring.mean(axis=0))
    if kind == 5:
        bar = shapely.box(-1, -(height := rng.uniform(0.2, 0.35)), 1, height)
        return _polygon(bar | affinity.rotate(bar, 90, origin=(0, 0)))
    width = rng.uniform(0.5, 1.1)
    angle = _polygon(shapely.box(-1, -1, 1, 1) - shapely.box(-1 + width, -1 + width, 2, 2))
    return affinity.scale(angle, 0.8, 0.8, origin=(0, 0))


def _polygon(geometry: BaseGeometry) -> shapely.Polygon:
    assert isinstance(geometry, shapely.Polygon)  # of one piece
    return geometry


def phases_at(
    points: Float[np.ndarray, "point 2"], bodies: list[tuple[shapely.Polygon, int]]
) -> Int[np.ndarray, " point"]:
    """-1 or 1 inside of bodies, 0 elsewhere."""
    found = np.zeros(len(points), dtype=int)
    for body, phase in bodies:
        shapely.prepare(body)
        found[shapely.contains_xy(body, *points.T)] = phase
    return found


def all_electrodes(specimen: Specimen, spacing: float) -> ElectrodeSolver:
    """One injection and one reading per electrode, against the mean of all."""
    count = sum(name in specimen.conditions for name in specimen.shape.parts)
    centred = np.eye(count) - 1 / count
    tests = ElectrodeTests.from_arrays(specimen, centred, centred, *np.zeros((2, count, count)), noise=1.0)
    nothing = np.zeros((count, count))
    system = ElectrodeSystem(values=nothing, weights=nothing + 1, tests=tests, currents=centred, patterns=centred)
    nodes = material_grid(specimen.shape, 4)
    return ElectrodeSolver(nodes, system, triangulated(specimen.shape, spacing), nodes=nodes)


def resistances(
    solver: ElectrodeSolver, conductivity: Float[np.ndarray, " triangle"]
) -> Float[np.ndarray, "electrode electrode"]:
    """R, by σ of the triangles."""
    conductances = np.concatenate([np.repeat(solver.mesh.areas * conductivity, 2), solver.contact])
    return np.asarray(solver.sensors @ solver.factor(conductances).solve(solver.inflow(conductances)))

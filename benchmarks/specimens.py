"""Sensors to material on a disc: truth by linear triangles that follow the rim, output error on cut cells.

Loads are known at nodes inside the disc only. Errors are held-out responses at the lattice, without noise, and the
material in the triangles of the truth, but for a rim of 0.04.
"""

import time
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import splu
from skfem import Basis, BilinearForm, ElementTriP0, ElementTriP1, MeshTri, asm
from skfem.helpers import dot, grad

from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.discretisation.parts import DirichletPart, Specimen
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField
from nipde.shape import Shape

SEED, SYSTEMS = 4057, 4
PAIRS, QUERIES, NOISE = 50, 10, 0.01
GRID, CENTRE, RADIUS, RIM = Grid.uniform(21), (0.5, 0.5), 0.45, 0.04
#: Lattice points inside, or so many of them.
SENSORS = (0, 40)
#: Nodes of the box on which loads and material are drawn.
DRAWN = 161


def measure(*, quick: bool) -> dict[str, Any]:
    """Means by number of sensors; every system is kept."""
    torch.set_num_threads(1)
    systems = [judged(number, count) for count in SENSORS for number in range(1 if quick else SYSTEMS)]
    return {
        "pairs": PAIRS, "noise": NOISE, "queries": QUERIES, "systems": systems,
        "rows": [summary([one for one in systems if one["few"] == count]) for count in SENSORS],
    }  # fmt: skip


def judged(number: int, count: int) -> dict[str, Any]:
    """One disc."""
    rng = np.random.default_rng([SEED, number])
    mesh = MeshTri.init_circle(6).scaled(RADIUS).translated(CENTRE)
    box = Grid.uniform(DRAWN)
    phase = GaussianField(4.0).sample(box, rng=rng, count=1)
    middle = mesh.p[:, mesh.t].mean(axis=1)
    truth = np.where(Sensors.at(middle.T).matrix(box) @ phase.ravel() < 0, 12.0, 3.0)
    fields = GaussianField(1.0, waves=8, rms=1.0).sample(box, rng=rng, count=PAIRS + QUERIES)
    specimen = Specimen(Shape.disc(CENTRE, RADIUS), {"rim": DirichletPart()})
    inside = specimen.shape.holds_nodes(GRID) & (np.hypot(*(x - 0.5 for x in GRID.coordinates)) < RADIUS - 0.02)
    points = np.stack([x[inside] for x in GRID.coordinates], axis=-1)
    exact = solved(mesh, truth, Sensors.at(mesh.p.T).matrix(box) @ fields.reshape(len(fields), -1).T, points)
    chosen = rng.choice(len(points), count, replace=False) if count else np.arange(len(points))
    deviation = NOISE * float(np.sqrt(np.mean(exact[:PAIRS] ** 2)))
    readings = exact[:PAIRS, chosen] + deviation * rng.standard_normal((PAIRS, len(chosen)))
    loads = np.where(specimen.shape.holds_nodes(GRID), box.restrict(fields, to=GRID), 0.0)
    pairs = SensorPairs.from_arrays(
        loads[:PAIRS], readings, grid=GRID, sensors=Sensors.at(points[chosen]), noise=deviation, specimen=specimen
    )
    start = time.process_time()
    law = SensorInversion()(pairs).laws[0]
    seconds = time.process_time() - start
    off = law.solve(loads[PAIRS:])[:, inside] - exact[PAIRS:]
    within = np.abs(off) <= 1.645 * law.posterior.response_deviation(loads[PAIRS:])[:, inside]
    judged_cells = np.hypot(middle[0] - 0.5, middle[1] - 0.5) < RADIUS - RIM
    log = law.log_coefficient_at(middle.T[judged_cells])
    known = np.log(truth[judged_cells])
    return {
        "number": number, "few": count, "sensors": len(chosen), "model": law.summary["model"], "seconds": seconds,
        "held_out": float(np.mean(np.linalg.norm(off, axis=1) / np.linalg.norm(exact[PAIRS:], axis=1))),
        "within_posterior": float(within.mean()), "log_mean": float(np.abs(log - known).mean()),
        "phases_inside": float(np.mean((log > np.log(6)) == (known > np.log(6)))),
        "chi_square": law.summary["chi_square"], "rings": bool(law.bands.outlier_test.is_outlier),
    }  # fmt: skip


def solved(mesh: MeshTri, truth: np.ndarray, loads: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Responses at points, one row per load; 0 on the rim."""
    basis, cells = Basis(mesh, ElementTriP1()), Basis(mesh, ElementTriP0())
    stiffness = asm(BilinearForm(lambda u, v, w: w.b * dot(grad(u), grad(v))), basis, b=cells.interpolate(truth))
    mass = asm(BilinearForm(lambda u, v, w: u * v), basis)
    free = np.setdiff1d(np.arange(mesh.p.shape[1]), mesh.boundary_nodes())
    solution = np.zeros(loads.shape)
    solution[free] = splu(stiffness[free][:, free].tocsc()).solve((mass @ loads)[free])
    return np.asarray((basis.probes(points.T) @ solution).T)


def summary(each: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the systems."""
    names = ("held_out", "within_posterior", "log_mean", "phases_inside", "chi_square", "rings", "seconds")
    means = {name: float(np.mean([one[name] for one in each])) for name in names}
    sensors = sorted({one["sensors"] for one in each})
    return {"specimen": "disc, Dirichlet rim", "sensors": sensors, "systems": len(each), **means}

"""Sensors to material on specimens of other shapes: truth by triangles that follow the outline, estimate on cut cells.

Rows are shapes × loads × sensors: a square, a disc, a plate with a hole, an L, random blobs; loads inside, on the
outline only, wells only; a lattice of sensors or 40 points. `penalty` is total variation on the same cells and sensors.
The rows `calibration` are drawn at random, with other seeds, materials and noise: from them come the factors of bands.
Loads inside are known at all nodes of the box; in rows "inside, not beyond" at nodes of the specimen only. The material
is constant in triangles, which are smaller where responses are singular. Responses are extrapolated from those of the
triangles and of their quarters (`truths` says how exact they are). Errors are held-out responses at the lattice,
without noise, and the material in the triangles, but for a rim of 0.04.
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
import shapely
import torch
from scipy.spatial import cKDTree

from benchmarks import band_factors, campaign
from benchmarks.reference import NORMAL, SHARES
from nipde.atomic import write_bytes
from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.data.finer_mesh import extrapolated
from nipde.data.random_specimens import SPECIMENS, outline_case
from nipde.discretisation.load_case import LoadCase
from nipde.estimators.inverse.material_models import Penalty
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Grid
from nipde.kernels.refined import RefinedLaw
from nipde.physics.random_fields import GaussianField
from nipde.physics.triangles import TriangleConduction, Triangulation, smaller_at_singular_points, triangulated

SEED = 4057
#: Systems that bands are calibrated on are in no row.
CALIBRATION_SEED = 5099
#: By budget: systems of every row, of those with a penalty, and that bands are calibrated on.
BUDGETS = {"quick": (1, 0, 0), "standard": (50, 1, 72), "long": (50, 10, 200)}
QUERIES, NOISE, RIM = 10, 0.01, 0.04
GRID = Grid.uniform(21)
#: Nodes of the box on which loads and material are drawn; spacing of the triangles.
DRAWN, SPACING = 161, 1 / 180
#: Wells and sensors keep this distance from the outline; held-out responses next to a well are not judged.
AWAY, NEAR_WELL = 0.02, 0.06


@dataclass(frozen=True)
class Row:
    """One kind of experiment."""

    shape: str
    loads: str
    #: Points; 0: those of the lattice.
    sensors: int
    penalty: Penalty | None = None
    noise: float = NOISE
    material: str = "two phases"
    seed: int = SEED

    @property
    def name(self) -> str:
        """In tables; those of the calibration have none of their own."""
        if self.seed == CALIBRATION_SEED:
            return CALIBRATION
        sensors = f"{self.sensors} points" if self.sensors else "lattice"
        material = [] if self.material == "two phases" else [self.material]
        return ", ".join([self.shape, self.loads, sensors, *material, *([self.penalty] if self.penalty else [])])


NOT_BEYOND = "inside, not beyond"
LOADS = {"inside": 50, NOT_BEYOND: 50, "outline": 50, "wells": 20}
ROWS = (
    *(Row(*one) for one in product(SPECIMENS, ("inside", "outline", "wells"), (0, 40))), Row("blob", NOT_BEYOND, 0),
    Row("plate with hole", NOT_BEYOND, 0),
    *(Row(*one, 40, material="log-normal") for one in product(SPECIMENS, ("inside", "outline", "wells"))),
)  # fmt: skip
PENALTIES = tuple(replace(row, penalty="total-variation") for row in ROWS if row.material == "two phases")
CALIBRATION = "calibration"


def drawn_row(number: int) -> Row:
    """For the calibration: many sensors or few, phases or a smooth material, the rest at random."""
    rng = np.random.default_rng([CALIBRATION_SEED, number])
    loads = str(rng.choice(["inside", "outline", "wells"]))
    sensors = 0 if number % 2 and loads != "wells" else int(rng.integers(25, 59))
    shape, noise = str(rng.choice(list(SPECIMENS))), float(10 ** rng.uniform(-3, -1.3))
    return Row(
        shape, loads, sensors, noise=noise, seed=CALIBRATION_SEED,
        material="log-normal" if number % 3 == 0 else "two phases",
    )  # fmt: skip


def measure(
    *, budget: str, before: Any = None, work: Path, only: list[str] | None = None, workers: int = 1,
    progress: Any = lambda finished: None,
) -> dict[str, Any]:  # fmt: skip
    """Every row over the systems of the budget, or over those finished; `only` names rows."""
    folder = work / "specimens"
    folder.mkdir(parents=True, exist_ok=True)
    of_rows, of_penalties, calibrated = BUDGETS[budget]
    rows = [(row, of_penalties if row.penalty else of_rows) for row in (*ROWS, *PENALTIES)]
    jobs = [(drawn_row(number), number) for number in range(calibrated)]
    jobs += [(row, number) for number in range(max(of_rows, of_penalties)) for row, count in rows if number < count]
    jobs = [(row, number) for row, number in jobs if not only or row.name in only]
    stale = [one for one in (before or {}).values() if not _is_current(one)]
    before = {name: one for name, one in (before or {}).items() if _is_current(one)}
    known = campaign.measured_systems(
        jobs, judged, name=_name, path=_path, folder=folder, before=before, count=workers, progress=progress
    )
    measured_again = {CALIBRATION, *(one["row"] for one in known)}
    return recorded([*known, *(one for one in stale if one["row"] not in measured_again)])


def _is_current(one: dict[str, Any]) -> bool:
    """Whether responses were extrapolated; errors of total variation are several times those of others."""
    return "extrapolated" in one or "total-variation" in one["row"]


def recorded(systems: list[dict[str, Any]]) -> dict[str, Any]:
    """Systems with what calibrated bands hold of them, and their means by row."""
    factors = band_factors.strata([one for one in systems if one["row"] == CALIBRATION], SHARES)
    known = [{**one, **band_factors.held(one, factors, SHARES)} for one in systems]
    each = {row: [one for one in known if one["row"] == row.name] for row in (*ROWS, *PENALTIES)}
    return {
        "noise": NOISE, "queries": QUERIES, "spacing": SPACING, "shares": list(SHARES), "factors": factors,
        "systems": known, "rows": [summary(row, found) for row, found in each.items() if found],
    }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Experiment:
    """Readings, and what is true: responses at the lattice to other loads, the material of every triangle."""

    pairs: SensorPairs
    loads: np.ndarray
    outline: tuple[LoadCase, ...]
    lattice: np.ndarray
    #: At the lattice, NaN next to a well.
    exact: np.ndarray
    mesh: Triangulation
    truth: np.ndarray


def experiment_of(row: Row, number: int) -> Experiment:
    """With seeds of its own; rows with and without a penalty have the same."""
    rng = np.random.default_rng([row.seed, number, crc32(f"{row.shape} {row.loads} {row.sensors}".encode())])
    specimen = SPECIMENS[row.shape](rng, half=row.loads == "outline")
    shape, box = specimen.shape, Grid.uniform(DRAWN)
    mesh = triangulated(shape, SPACING)
    graded, within = smaller_at_singular_points(mesh, specimen)
    phase = GaussianField(4.0).sample(box, rng=rng, count=1)
    field = Sensors.at(mesh.centres).matrix(box) @ phase.ravel()
    truth = np.where(field < 0, 12.0, 3.0) if row.material == "two phases" else 6 * np.exp(0.5 * field / field.std())
    inside = shape.holds_nodes(GRID)
    nodes = np.stack([x[inside] for x in GRID.coordinates], axis=-1)
    distance = np.asarray(shapely.distance(shape.region.boundary, shapely.points(nodes)))
    lattice = nodes[distance > AWAY]
    count = LOADS[row.loads] + QUERIES
    loads = np.zeros((count, *GRID.shape))
    outline: tuple[LoadCase, ...] = ()
    near_well = np.zeros((count, len(lattice)), dtype=bool)
    fields = wells = None
    if row.loads in ("inside", NOT_BEYOND):
        fields = GaussianField(1.0, waves=8, rms=1.0).sample(box, rng=rng, count=count)
        loads = box.restrict(fields, to=GRID) * (inside if row.loads == NOT_BEYOND else 1.0)
    elif row.loads == "wells":
        at = rng.permutation(np.flatnonzero(distance > 2 * max(GRID.spacing)))[:count]
        wells = nodes[at]
        loads[np.arange(count), *np.array(np.nonzero(inside))[:, at]] = 1 / np.prod(GRID.spacing)
        near_well = np.linalg.norm(lattice - wells[:, None], axis=-1) < NEAR_WELL
    else:
        outline = tuple(outline_case(specimen, rng) for _ in range(count))
    solved = []
    for _ in range(2):
        law = TriangleConduction(graded, truth[within], specimen)
        solved.append((graded.at(lattice) @ law.solve(_moments(graded, count, fields, wells), outline)).T)
        graded, within = graded.refined(), np.repeat(within, 4)
    exact = extrapolated(*solved)
    context = slice(0, LOADS[row.loads])
    far = ~near_well[context].any(0) if row.loads == "wells" and row.sensors else np.ones(len(lattice), dtype=bool)
    chosen = np.flatnonzero(far)
    if row.sensors:
        chosen = rng.choice(chosen, min(row.sensors, len(chosen)), replace=False)
    deviation = row.noise * float(np.sqrt(np.mean(exact[context][:, chosen] ** 2)))
    readings = exact[context][:, chosen] + deviation * rng.standard_normal((LOADS[row.loads], len(chosen)))
    readings = np.where(near_well[context][:, chosen], np.nan, readings)
    pairs = SensorPairs.from_arrays(
        loads[context], readings, grid=GRID, sensors=Sensors.at(lattice[chosen]), noise=deviation, specimen=specimen,
        outline=outline[context],
    )  # fmt: skip
    judged_at = slice(LOADS[row.loads], None)
    answers = np.where(near_well, np.nan, exact)[judged_at]
    return Experiment(pairs, loads[judged_at], outline[judged_at], lattice, answers, mesh, truth)


def _moments(mesh: Triangulation, count: int, fields: np.ndarray | None, wells: np.ndarray | None) -> np.ndarray:
    """∫ N f of loads inside: fields at the nodes of a box, or wells."""
    if fields is not None:
        box, values = Grid.uniform(DRAWN), fields.reshape(count, -1).T
        return mesh.moments(lambda points: Sensors.at(points).matrix(box) @ values)
    return np.zeros((len(mesh.vertices), count)) if wells is None else mesh.at(wells).T.toarray()


def judged(row: Row, number: int, folder: Path) -> str:
    """One specimen."""
    torch.set_num_threads(1)
    experiment = experiment_of(row, number)
    start = time.process_time()
    law = SensorInversion(penalty=row.penalty)(experiment.pairs).laws[0]
    seconds = time.process_time() - start
    found = {
        "name": _name(row, number), "row": row.name, "seconds": round(seconds, 2), "extrapolated": True,
        **assessed(law, experiment),
    }  # fmt: skip
    write_bytes(_path(folder, row, number), json.dumps(found).encode())
    return found["name"]


def assessed(law: RefinedLaw, experiment: Experiment) -> dict[str, Any]:
    """Errors, and what the law says of them."""
    at, loads, outline = Sensors.at(experiment.lattice), experiment.loads, experiment.outline
    known = np.isfinite(experiment.exact)
    off = np.where(known, law.readings(loads, at.matrix, outline) - experiment.exact, 0.0)
    sizes = np.linalg.norm(np.where(known, experiment.exact, 0.0), axis=1)
    deviation = (at.matrix(law.grid) @ law.posterior.response_deviation(loads, outline).reshape(len(loads), -1).T).T
    ratios = (np.abs(off) / np.maximum(deviation, 1e-300))[known]
    mesh, truth = experiment.mesh, np.log(experiment.truth)
    region = experiment.pairs.specimen.shape.region.buffer(-RIM)  # type: ignore[union-attr]
    cells = shapely.contains_xy(region, *mesh.centres.T)
    log = law.log_coefficient_at(mesh.centres[cells])
    nearest = cKDTree(mesh.centres).query(experiment.lattice)[1]
    fields = np.stack([law.log_coefficient, law.posterior.log_deviation()]).reshape(2, -1)
    estimate, width = (at.matrix(law.grid) @ field for field in fields)  # the lattice is nodes
    of_material = np.abs(truth[nearest] - estimate) / width
    scores = {name: round(float(value), 2) for name, value in law.bands.outlier_test.scores.items()}
    return {
        "sensors": len(experiment.pairs.sensors), "pairs": experiment.pairs.count,
        "held_out": float(np.mean(np.linalg.norm(off, axis=1) / sizes)),
        "within": float(np.mean(ratios <= NORMAL)), "material_within": float(np.mean(of_material <= NORMAL)),
        "ratios": np.quantile(ratios, SHARES).round(3).tolist(),
        "material_ratios": np.quantile(of_material, SHARES).round(3).tolist(),
        "log_mean": float(np.abs(log - truth[cells]).mean()),
        "phases_inside": float(np.mean((log > np.log(6)) == (truth[cells] > np.log(6)))),
        "rings": bool(law.bands.outlier_test.is_outlier), "scores": scores,
        **{name: law.summary[name] for name in ("model", "chi_square", "readings", "noise", "size", "discretisation")},
    }  # fmt: skip


def summary(row: Row, each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the systems."""
    names = ("held_out", "within", "material_within", "log_mean", "phases_inside", "chi_square", "rings", "seconds")
    means = {name: float(np.mean([one[name] for one in each])) for name in names}
    held = {name: band_factors.mean_of(name, each) for name in band_factors.HELD}
    return {
        "row": row.name, **asdict(row), "systems": len(each), "extrapolated": "extrapolated" in each[0],
        "models": dict(Counter(one["model"] for one in each)),
        **means, **held, "held_out_worst": max(one["held_out"] for one in each),
    }  # fmt: skip


def _name(row: Row, number: int) -> str:
    return f"{row.name} {number}"


def _path(folder: Path, row: Row, number: int) -> Path:
    return folder / f"{_name(row, number).replace(', ', '-').replace(' ', '-')}.json"

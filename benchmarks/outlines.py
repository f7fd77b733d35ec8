"""From files to the report on a disc, a plate with a hole and an aquifer: what a user has, by `nipde discover`.

Data are those of linear triangles that follow the outline, 1 % noise. `within` is the share of nodes inside whose true
coefficient lies in the band of 90 %, `phantom` the number of nodes outside that have a coefficient.
"""

import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import shapely
from scipy.spatial import cKDTree

from nipde.context.sensors import Sensors
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, Specimen
from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField
from nipde.physics.triangles import TriangleConduction, Triangulation, triangulated
from nipde.shape import Shape

SEED, NOISE = 4099, 0.01
#: Nodes of the unit box that fields are drawn on.
DRAWN = Grid.uniform(129)


@dataclass(frozen=True, eq=False)
class Case:
    """A specimen in its own unit of length, its material and tests."""

    name: str
    shape: Shape
    held: str
    #: Where responses are read.
    points: np.ndarray
    mesh: Triangulation
    truth: np.ndarray
    #: Densities at the points, ∫ N f of the mesh, loads on the outline; described loads as TOML.
    columns: np.ndarray | None
    moments: np.ndarray
    cases: tuple[LoadCase, ...] = ()
    described: str = ""


def measure(*, quick: bool) -> dict[str, Any]:
    """Every case with seeds of its own."""
    systems = [
        judged(make(np.random.default_rng([SEED, number, place])), number)
        for number in range(1 if quick else 3) for place, make in enumerate((disc, plate, aquifer))
        if not quick or place == 0
    ]  # fmt: skip
    return {"noise": NOISE, "systems": systems}


def disc(rng: np.random.Generator) -> Case:
    """Radius 45 mm, rim held, 20 fields of heat, a lattice of 5 mm."""
    return _heated(rng, "disc", Shape.disc((50.0, 50.0), 45.0), "rest", step=5.0, size=100.0)


def plate(rng: np.random.Generator) -> Case:
    """100 × 100 mm with a hole, left side held, 20 fields of heat, a lattice of 61²."""
    hole = Shape.disc((55.0, 45.0), 17.0, vertices=256).rings[0]
    shape = Shape.polygon(
        [(0, 0), (100, 0), (100, 100), (0, 100)], holes=[hole], sides=("bottom", "right", "top", "left")
    )
    return _heated(rng, "plate with hole", shape, "left", step=100 / 60, size=100.0)


def aquifer(rng: np.random.Generator) -> Case:
    """1,000 × 800 m, a river in the south, eight wells, thirty observation points; log-normal."""
    corners = [(0, 60), (300, 0), (650, 40), (1000, 0), (960, 400), (1000, 760), (500, 800), (30, 740)]
    shape = Shape.polygon(corners, sides=("river",) * 3 + ("rest",) * 5)
    mesh = triangulated(shape, 10.0)
    field = GaussianField(3.0, rms=0.35).sample(DRAWN, rng=rng, count=1)
    truth = 500 * np.exp(Sensors.at(mesh.centres / 1000).matrix(DRAWN) @ field.ravel())
    inner = shape.region.buffer(-60)
    places = np.array(
        [point for point in rng.uniform((0, 0), (1000, 800), (400, 2)) if shapely.contains_xy(inner, *point)]
    )
    wells = _apart(places, 170.0)[:8].round()
    points = _apart(np.vstack([wells, places]), 75.0)[len(wells) :][:30].round(1)
    moments = 800 * mesh.refined().at(wells).T.toarray()
    loads = "".join(f'[[loads]]\nkind = "point"\nposition = {well.tolist()}\ntotal = 800.0\n' for well in wells)
    return Case("aquifer", shape, "river", points, mesh, truth, None, moments, described=loads)


def judged(case: Case, number: int) -> dict[str, Any]:
    """Write the files, run the command, compare."""
    solver = case.mesh.refined()
    law = TriangleConduction(solver, np.repeat(case.truth, 4), Specimen(case.shape, {_part(case): DirichletPart()}))
    rng = np.random.default_rng([SEED, number])
    exact = (solver.at(case.points) @ law.solve(case.moments, case.cases)).T
    noise = NOISE * float(np.sqrt(np.mean(exact**2)))
    readings = exact + noise * rng.standard_normal(exact.shape)
    with TemporaryDirectory() as place:
        folder = Path(place)
        write_files(case, folder, readings, noise)
        command = [
            sys.executable,
            "-m",
            "nipde.cli",
            "discover",
            str(folder / "case.toml"),
            "--out",
            str(folder / "out"),
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = dict(np.load(folder / "out" / "microstructure.npz"))
        summary = json.loads((folder / "out" / "summary.json").read_text())
    nodes = np.stack(np.meshgrid(found["x"], found["y"], indexing="ij"), axis=-1)
    inside = case.shape.covers(nodes.reshape(-1, 2)).reshape(nodes.shape[:2])
    known = np.isfinite(found["coefficient"])
    truth = case.truth[cKDTree(case.mesh.centres).query(nodes[inside])[1]]
    low, high, estimate = (found[f"coefficient{end}"][inside] for end in ("_low", "_high", ""))
    return {
        "case": case.name, "number": number, "nodes": list(inside.shape), "readings": int(readings.size),
        "phantom": int(np.sum(known & ~inside)), "missing": int(np.sum(inside & ~known)),
        "within": float(np.mean((low <= truth) & (truth <= high))),
        "log_median": float(np.median(np.abs(np.log(estimate / truth)))),
        "held_out": summary["held_out"]["mean_error"], "covered": summary["coverage"]["covered"],
        "rings": summary["outlier_test"]["is_outlier"], "first_words": summary["statements"][1],
        "seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }  # fmt: skip


def write_files(case: Case, folder: Path, readings: np.ndarray, noise: float) -> None:
    """A table, an outline, a description."""
    rows = [
        (pair + 1, *case.points[at], *(() if case.columns is None else (case.columns[pair, at],)), readings[pair, at])
        for pair, at in np.ndindex(readings.shape)
    ]
    head = "pair,x,y," + ("" if case.columns is None else "load,") + "response"
    np.savetxt(folder / "case.csv", rows, delimiter=",", header=head, comments="", fmt="%.9g")
    geometries: list[tuple[Any, Any]] = [(None, case.shape.region)]
    if case.held not in ("rest", "left"):
        geometries.append((case.held, case.shape.parts[case.held]))
    features = [{"type": "Feature", "properties": {"name": name}, "geometry": shapely.geometry.mapping(one)}
                for name, one in geometries]  # fmt: skip
    (folder / "case.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    text = f'files = "case.csv"\noutline = "case.geojson"\nnoise = {noise!r}\n'
    text += 'units = { x = "1", load = "1", response = "1" }\n'
    (folder / "case.toml").write_text(f'{text}[parts]\n{case.held} = "dirichlet"\n{case.described}')


def _heated(rng: np.random.Generator, name: str, shape: Shape, held: str, *, step: float, size: float) -> Case:
    """Two phases, smooth fields of heat, responses on a lattice; loads are known beyond the outline, too."""
    mesh = triangulated(shape, size / 150)
    phase = GaussianField(4.0).sample(DRAWN, rng=rng, count=1)
    truth = np.where(Sensors.at(mesh.centres / size).matrix(DRAWN) @ phase.ravel() < 0, 1.6, 0.4)
    fields = GaussianField(2.0, waves=6, rms=0.01).sample(DRAWN, rng=rng, count=20).reshape(20, -1).T
    lattice = np.stack(np.meshgrid(*[np.arange(0, size + step / 2, step)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    points = lattice[shape.covers(lattice)]
    solver = mesh.refined()
    moments = solver.mass @ (Sensors.at(np.clip(solver.vertices / size, 0, 1)).matrix(DRAWN) @ fields)
    columns = (Sensors.at(points / size).matrix(DRAWN) @ fields).T
    return Case(name, shape, held, points, mesh, truth, columns, moments)


def _part(case: Case) -> str:
    """Of the shape in memory; files have no names but those that are drawn."""
    return case.held if case.held in case.shape.parts else next(iter(case.shape.parts))


def _apart(points: np.ndarray, distance: float) -> np.ndarray:
    """Greedily those that keep a distance from all before them."""
    kept: list[np.ndarray] = []
    for point in points:
        if all(np.hypot(*(point - other)) > distance for other in kept):
            kept.append(point)
    return np.array(kept)

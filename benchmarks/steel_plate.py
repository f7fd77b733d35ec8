"""A measured tensile test: image correlation of a steel plate (S235) with a hole, 106.26 N/mm² on its ends.

The data are published by Tröger, Anton and others and are not part of this project: `--data` names the folder that
holds `displacements_raw.csv`. Rows differ in what is assumed of the load and of the errors. Handbooks give about
210,000 N/mm² and 0.3 for such steel.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reference import NORMAL
from nipde.context.solid_tests import SolidTests, Uncertain
from nipde.discretisation.parts import GripPart, Specimen
from nipde.discretisation.solid_load import SolidLoad
from nipde.errors import NipdeError
from nipde.estimators.inverse.solid_inversion import SolidInversion
from nipde.shape import Shape

SEED = 0
NAME = "displacements_raw.csv"
#: In mm and N/mm².
LENGTH, WIDTH, HOLE, STRESS = 80.0, 20.0, 4.0, 106.26
#: Of the points, every so many are taken: neighbours share most of their pixels.
EVERY = 5


@dataclass(frozen=True)
class Row:
    """What is assumed."""

    name: str
    uncertain: tuple[Uncertain, ...]
    #: Rigid grips where the camera's view ends, or an even traction.
    grips: bool = False
    poisson: float | None = None
    hole: float = HOLE
    every: int = EVERY


ROWS = (
    Row("even traction", ("motion", "outliers")),
    Row("even traction, every 11th point", ("motion", "outliers"), every=11),
    Row("traction may be uneven", ("motion", "traction", "outliers")),
    Row("rigid grips that turn, at the ends of the view", ("motion", "outliers"), grips=True),
    Row("even traction, ν = 0.3", ("motion", "outliers"), poisson=0.3),
    Row("even traction, outliers not borne", ("motion",)),
    Row("even traction, hole 0.2 mm larger", ("motion", "outliers"), hole=HOLE + 0.2),
)


def measure(*, data: Path | None = None, quick: bool = False) -> dict[str, Any]:
    """E and ν with bands of 90 %."""
    path = None if data is None else Path(data) / NAME
    if path is None or not path.is_file():
        raise NipdeError(
            expected=f"--data with a folder that holds {NAME}", got=str(data),
            remedy="it is published with the papers of Tröger, Anton and others on a steel plate with a hole (Zenodo)",
        )  # fmt: skip
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return {
        "file": NAME, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "points": len(table),
        "rows": [found(row, table) for row in (ROWS[:1] if quick else ROWS)],
    }  # fmt: skip


def found(row: Row, table: np.ndarray) -> dict[str, Any]:
    """Of one set of assumptions."""
    hole = Shape.disc((LENGTH / 2, WIDTH / 2), row.hole, vertices=256).rings[0]
    corners = [(0.0, 0.0), (LENGTH, 0.0), (LENGTH, WIDTH), (0.0, WIDTH)]
    shape = Shape.polygon(corners, holes=[hole], sides=("bottom", "right", "top", "left"))
    seen = table[shape.contains(table[:, :2])][:: row.every]
    if row.grips:
        specimen = Specimen(shape, {"left": GripPart(rotates=True), "right": GripPart(rotates=True)})
        load = SolidLoad(forces={"right": (STRESS * WIDTH, 0.0), "left": (-STRESS * WIDTH, 0.0)})
    else:
        specimen = Specimen(shape)
        load = SolidLoad(tractions={"right": (STRESS, 0.0), "left": (-STRESS, 0.0)})
    tests = SolidTests.from_arrays(
        specimen, [load], seen[:, :2], seen[None, :, 2:].transpose(0, 2, 1), poisson=row.poisson,
        uncertain=row.uncertain,
    )  # fmt: skip
    law = SolidInversion(homogeneous=True)(tests)
    middle = np.array([[LENGTH / 4, WIDTH / 2]])
    modulus, half = float(law.modulus_at(middle)[0]), float(law.log_half_width_at(middle)[0])
    scores = {name: round(float(value), 2) for name, value in law.outlier_test.scores.items()}
    return {
        "name": row.name, "points": len(seen), "modulus": modulus, "modulus_half": half * modulus,
        "poisson": law.poisson, "poisson_half": NORMAL * law.poisson_deviation, "scores": scores,
        **{name: law.summary[name] for name in ("chi_square", "noise", "correlation")},
    }  # fmt: skip

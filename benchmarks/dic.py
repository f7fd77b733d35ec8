"""Fifty specimens seen by stereo image correlation: b from exported files, beside Tikhonov and total variation.

A sheet of two stiffnesses, clamped in a frame, is pressed by a pad at one place after another; W, its motion out of
plane, is exported as VIC-3D does it, one CSV per frame, 0.01 px of noise that neighbouring subsets share, and one
point in five lost (sigma = -1). The files are read as a user reads them. All methods see the same pairs and are told
the same standard deviation of the noise, which they take for white.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.ndimage import gaussian_filter

from nipde.discovery.discover import baseline, discover
from nipde.estimators.inverse.adjoint import BASELINES
from nipde.grid import Grid
from nipde.measurements.description import Description
from nipde.measurements.measurement import Measurement
from nipde.measurements.read import read
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase
from nipde.weights import load

SEED = 73019
WEIGHTS = "darcy"
CASES, NODES, FRAMES = 50, 15, 16
#: Side of the sheet and size of a pixel in mm; noise in px, the width of what subsets share in nodes, points lost.
LENGTH, PIXEL, NOISE, SHARED, LOST = 70.0, 0.05, 0.01, 0.7, 0.2
#: Root mean square of W in px, over all frames, and width of the pad over the sheet.
MOTION, PAD = 2.0, 0.08


def measure(*, quick: bool) -> dict[str, Any]:
    """Errors of log b at free nodes and their share within bands, per case and in the mean."""
    cases = 2 if quick else CASES
    model = load(WEIGHTS)
    with TemporaryDirectory() as folder:
        rows = [_case(seed, Path(folder) / str(seed), model) for seed in range(SEED, SEED + cases)]
    names = ("ours", *BASELINES)
    return {
        "cases": cases, "nodes": NODES, "frames": FRAMES, "noise_px": NOISE, "motion_px": MOTION, "lost": LOST,
        "weights": WEIGHTS, "rows": rows,
        "mean": {name: float(np.mean([row["error"][name] for row in rows])) for name in names},
        "median": {name: float(np.median([row["error"][name] for row in rows])) for name in names},
        "seconds": {name: float(np.median([row["seconds"][name] for row in rows])) for name in names},
        "not_worse": {name: int(sum(row["error"]["ours"] <= row["error"][name] for row in rows)) for name in BASELINES},
        "coverage": float(np.mean([row["coverage"] for row in rows])),
        "phases": float(np.mean([row["phases"] for row in rows])),
        "piecewise_constant": int(sum(row["piecewise_constant"] for row in rows)),
    }  # fmt: skip


def _case(seed: int, folder: Path, model: Any) -> dict[str, Any]:
    measurement, truth = exported(seed, folder)
    free = np.asarray(measurement.pairs.grid.unknown)
    result = discover(measurement, model, recommendations=1)
    fields = {"ours": result.material.values}
    seconds = {"ours": float(result.provenance["seconds"])}  # type: ignore[arg-type]
    for name in BASELINES:
        other = baseline(name, BASELINES[name], measurement.pairs, None)
        fields[name], seconds[name] = other.values, other.seconds
    within = (result.material.low <= truth) & (truth <= result.material.high)
    return {
        "seed": seed,
        "error": {name: float(np.mean(np.abs(np.log(field / truth))[free])) for name, field in fields.items()},
        "seconds": seconds,
        "coverage": float(np.mean(within[free])),
        "phases": float(np.mean((result.phases.labels == (truth > np.sqrt(36.0)))[free])),
        "piecewise_constant": bool(result.provenance["piecewise_constant"]),
    }


def exported(seed: int, folder: Path) -> tuple[Measurement, Float[np.ndarray, "*space"]]:
    """Files of one specimen written and read again, and its b in N/mm."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    grid, unit = Grid.uniform(NODES, length=LENGTH), Grid.uniform(NODES)
    stiffness = TwoPhase(12.0, 3.0)(GaussianField(4.0).sample(unit, rng=rng, count=1))[0]
    centres = LENGTH * rng.uniform(0.12, 0.88, size=(FRAMES, 2))
    terms = [{"kind": "gaussian", "pair": number + 1, "centre": [float(value) for value in centre],
              "width": PAD * LENGTH, "amplitude": 1.0} for number, centre in enumerate(centres)]  # fmt: skip
    x, y = grid.coordinates
    pads = np.stack([np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * (PAD * LENGTH) ** 2)) for a, b in centres])
    motion = Darcy(grid, stiffness).solve(pads)
    pressure = MOTION * PIXEL / float(np.sqrt(np.mean(motion**2)))
    noise = np.stack([gaussian_filter(field, SHARED) for field in rng.standard_normal(motion.shape)])
    noise *= NOISE * PIXEL / noise.std()
    seen = motion * pressure + noise * grid.unknown
    lost = rng.random(seen.shape) < LOST
    files = []
    for number, (frame, gaps) in enumerate(zip(seen, lost, strict=True)):
        files.append(folder / f"frame_{number:02d}.csv")
        sigma = np.where(gaps, -1.0, 0.004)
        columns = [x / PIXEL, y / PIXEL, x, y, 0 * x, 0 * x, 0 * x, np.where(gaps, 0.0, frame), sigma]
        table = np.column_stack([column.reshape(-1) for column in columns])
        names = '"x", "y", "X", "Y", "Z", "U", "V", "W", "sigma"'
        np.savetxt(files[-1], table, delimiter=", ", header=names, comments="", fmt="%.9g")
    for term in terms:
        term["amplitude"] = pressure
    description = Description.from_dict({
        "format": "vic", "response": ["W"], "coordinates": ["X", "Y"], "loads": terms, "noise": NOISE * PIXEL,
        "units": {"X": "mm", "Y": "mm", "W": "mm", "load": "N/mm^2"},
    })  # fmt: skip
    return read(files, description=description), stiffness

"""A measurement that comes with the package: a membrane -∇·(b∇w) = q of two tensions b, pressed 20 times.

Deflections w carry noise of 0.2 % of their root mean square, and every twentieth is missing. b itself is kept in a
file beside them, for comparison only.
"""

import json
from pathlib import Path

import numpy as np
from jaxtyping import Float

from nipde.errors import MeasurementError
from nipde.grid import Grid
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase

FOLDER = Path(__file__).with_name("samples")
SEED = 1712
NODES, LENGTH, PAIRS = 21, 90.0, 20
PRESSURE, NOISE, MISSING = 0.01, 0.002, 0.05


def sample(name: str = "membrane") -> Path:
    """Where a bundled measurement lies, to be read with `nipde.read`."""
    path = FOLDER / f"{name}.npz"
    if not path.is_file():
        known = sorted(one.stem for one in FOLDER.glob("*.npz") if not one.stem.endswith("_truth"))
        raise MeasurementError(expected=f"a sample among {', '.join(known)}", got=repr(name))
    return path


def sample_truth(name: str = "membrane") -> Float[np.ndarray, "*space"]:
    """The coefficient that a bundled measurement was made with, in the unit `Units.coefficient` of its reading."""
    with np.load(sample(name).with_name(f"{name}_truth.npz"), allow_pickle=False) as stored:
        return np.asarray(stored["b"], dtype=np.float64)


def make(folder: Path = FOLDER) -> None:
    """Write the files anew; the same seed gives the same bytes."""
    rng = np.random.default_rng(SEED)
    grid, unit_square = Grid.uniform(NODES, length=LENGTH), Grid.uniform(NODES)
    tension = TwoPhase(12.0, 3.0)(GaussianField(4.0).sample(unit_square, rng=rng, count=1))[0]
    draws = GaussianField(1.0, rms=1.0).sample(unit_square, rng=rng, count=PAIRS)
    pressures = (PRESSURE * draws).astype(np.float32)
    deflections, _ = Darcy(grid, tension).checked_solve(pressures.astype(np.float64))
    noise = NOISE * float(np.sqrt(np.mean(deflections**2)))
    # Sides are held in a frame: known without measuring.
    measured = deflections + noise * rng.standard_normal(deflections.shape) * grid.unknown
    measured[rng.random(measured.shape) < MISSING] = np.nan
    x = grid.axes[0].coordinates
    units = {"x": "mm", "y": "mm", "loads": "N/mm^2", "responses": "mm"}
    np.savez_compressed(
        folder / "membrane.npz", x=x, y=x, loads=pressures, responses=measured.astype(np.float32),
        noise=np.float64(noise), units=json.dumps(units),
    )  # fmt: skip
    stated = json.dumps({"x": "mm", "y": "mm", "b": "N/mm"})
    np.savez_compressed(folder / "membrane_truth.npz", x=x, y=x, b=tension.astype(np.float32), units=stated)

"""
Material identification from a CSV file
=======================================

A heated plate as a laboratory records it: one row per sensor and run, units in the header, empty cells where a sensor
failed, rows in any order. Two inserts conduct better than the plate.
"""

import csv
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.measurements.description import Description
from nipde.report.statements import statements

# %%
# Stands for an experiment: Dirichlet sides, 15 runs of heating and cooling.
rng, grid = np.random.default_rng(3), nipde.Grid.uniform(17, length=76.0)
x, y = grid.coordinates
inserts = (np.hypot(x - 25, y - 30) < 12) | (np.hypot(x - 52, y - 50) < 15)
conductance = np.where(inserts, 0.8, 0.2)  # conductivity times thickness, W/K
heat = 1e-3 * nipde.physics.GaussianField(1.0, rms=1.0).sample(nipde.Grid.uniform(17), rng=rng, count=15)
rise = nipde.Darcy(grid, conductance).solve(heat)
noise = 0.005 * np.sqrt(np.mean(rise**2))
rise += noise * rng.standard_normal(rise.shape) * grid.unknown
rows = [
    (run + 1, x[node], y[node], f"{heat[run][node]:.6g}", f"{rise[run][node]:.5g}" if rng.random() > 0.05 else "")
    for run in range(15)
    for node in np.ndindex(grid.shape)
]
path = Path(tempfile.mkdtemp()) / "plate.csv"
with path.open("w", newline="") as file:
    csv.writer(file).writerows([("run", "x [mm]", "y [mm]", "heat [W/mm^2]", "warmer by [K]"), *rng.permutation(rows)])
print("\n".join(path.read_text().splitlines()[:4]))

# %%
# Column names are described once. Units stand in the file; without them reading ends with an error.
description = Description(pair="run", load=("heat",), response=("warmer by",), noise=float(noise))
measurement = nipde.read(path, description=description)
print(measurement.interpretation())
result = nipde.discover(measurement, nipde.load("darcy-two-phase"))
print("\n".join(statements(result)[:2]))

figure, panels = plt.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
first, there = measurement.pairs.responses[0, 0], measurement.pairs.mask[0, 0]
shown = {"one run, missing cells blank, K": np.where(there, first, np.nan)}
shown |= {"true conductance, W/K": conductance, f"estimate, {result.material.unit}": result.material.values}
for axes, (title, values) in zip(panels, shown.items(), strict=True):
    scale = {} if axes is panels[0] else {"vmin": 0.2, "vmax": 0.8}
    figure.colorbar(axes.pcolormesh(x, y, values, shading="nearest", cmap=cm.batlow, **scale), ax=axes, shrink=0.8)
    axes.set(title=title, aspect="equal", xlabel="x, mm")
plt.show()

"""
A block in three dimensions, from a file to a report
====================================================

A ball in a block that conducts heat three times better, from temperatures at the nodes of the block in 16 runs. The
data come from finite volumes on a grid twice as fine, with 0.5 % noise: no part of nipde.
"""

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu

import nipde
from nipde.report.plane_figure import draw_planes
from nipde.report.statements import statements

# %%
# Stands for an experiment: -∇·(b∇u) = f, u = 0 on the sides, b by harmonic means between nodes.
rng, lengths, counts = np.random.default_rng(0), (1.0, 0.8, 1.2), (21, 17, 25)
axes = [np.linspace(0, length, count) for length, count in zip(lengths, counts, strict=True)]
x, y, z = places = np.meshgrid(*axes, indexing="ij")
b = np.where((x - 0.6) ** 2 + (y - 0.4) ** 2 + (z - 0.7) ** 2 < 0.27**2, 12.0, 4.0)
number, entries = np.arange(b.size).reshape(b.shape), []
for axis in range(3):
    left, right = (np.take(number, range(i, counts[axis] - 1 + i), axis).ravel() for i in (0, 1))
    link = 2 / (1 / b.flat[left] + 1 / b.flat[right]) / (axes[axis][1] - axes[axis][0]) ** 2
    entries += [(left, left, link), (right, right, link), (left, right, -link), (right, left, -link)]
rows, columns, values = map(np.concatenate, zip(*entries, strict=True))
free, cut = number[1:-1, 1:-1, 1:-1].ravel(), (slice(None), *(slice(None, None, 2),) * 3)
solver = splu(coo_array((values, (rows, columns))).tocsc()[free][:, free])
waves = rng.uniform(-12, 12, (16, 8, 3)), rng.uniform(0, 6, (16, 8, 1, 1, 1))
heat = 300 * np.cos(np.tensordot(waves[0], np.stack(places), 1) + waves[1]).sum(1)  # W/m³
warmer = np.zeros_like(heat)
warmer.reshape(16, -1)[:, free] = solver.solve(heat.reshape(16, -1)[:, free].T).T
noise = 0.005 * np.sqrt(np.mean(warmer**2))
units = json.dumps({"x": "m", "y": "m", "z": "m", "loads": "W/m^3", "responses": "K"})
path, coarse = Path(tempfile.mkdtemp()) / "block.npz", dict(zip("xyz", (axis[::2] for axis in axes), strict=True))
measured = warmer[cut] + noise * rng.standard_normal(warmer[cut].shape) * (warmer[cut] != 0)
np.savez(path, **coarse, loads=heat[cut], responses=measured, noise=noise, units=units)

# %%
# Three axes are read off the file. The check fails, rightly: so coarse a grid errs by more than the noise.
measurement, weights = nipde.read(path), nipde.load("conduction-3d")
result = nipde.discover(measurement, weights, quantity="conductivity", piecewise_constant=True)
print(*statements(result)[1:4], sep="\n")

figure, panels = plt.subplots(2, 3, figsize=(9.5, 6), layout="constrained")
scale, shown = {"cmap": cm.batlow, "vmin": 4, "vmax": 12}, {"true": b[cut[1:]], "estimated": result.material.values}
for row, (name, field) in zip(panels, shown.items(), strict=True):
    mesh = draw_planes(row, field, list(coarse.values()), at=(6, 4, 7), unit=" m", scale=scale)
    figure.colorbar(mesh, ax=list(row), label=f"{name} conductivity, W/(m·K)")
plt.show()

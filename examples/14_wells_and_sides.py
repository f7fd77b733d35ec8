"""
Wells and sides
===============

Nobody stores the field of a load that is a pump. Here an aquifer between two rivers is pumped at one well after
another, and once water is pressed in along a whole side. A TOML file beside the table of levels describes the loads.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.physics.random_fields import TwoPhase

# %%
# Stands for a field campaign: rivers hold the level at both ends of y, the ends of x let no water through.
grid = nipde.Grid((nipde.Axis(17, 800.0, nipde.Neumann()), nipde.Axis(17, 800.0, nipde.Dirichlet())))
rng = np.random.default_rng(7)
sand = TwoPhase(0.02, 0.005)(nipde.GaussianField(4.0).sample(nipde.Grid.uniform(17), rng=rng, count=1))[0]  # m²/s
wells = [(i, j) for i in (2, 6, 10, 14) for j in (2, 5, 8, 11, 14)]
loads = np.zeros((len(wells) + 1, *grid.shape))
for load, well in zip(loads, wells, strict=False):
    load[well] = -0.01 / grid.weights[well]  # 10 litres a second, out of the cell of one node
loads[-1, 0] = 0.05 / grid.weights[0].sum()  # 50 litres a second along the side x = 0
levels = nipde.Darcy(grid, sand).solve(loads)
levels += 0.002 * np.sqrt(np.mean(levels**2)) * rng.standard_normal(levels.shape) * grid.unknown

# %%
# What the campaign leaves behind: a table with a column for each test, and a few lines on what was done.
folder, (x, y) = Path(tempfile.mkdtemp()), grid.coordinates
names = ["x [m]", "y [m]", *(f"level_{pair + 1} [m]" for pair in range(len(loads)))]
table = np.stack([x, y, *levels]).reshape(len(names), -1).T
np.savetxt(folder / "levels.csv", table, delimiter=",", header=",".join(names), comments="", fmt="%.6g")
pumped = [f'[[loads]]\nkind = "point"\nposition = [{x[well]}, {y[well]}]\ntotal = "-10 l/s"\n' for well in wells]
pressed = '[[loads]]\nkind = "side"\nside = "left"\ntotal = "50 l/s"\n'
head = 'files = "levels.csv"\nresponse = "level"\nnoise = "0.2 %"\nunits = { load = "m/s" }\n'
head += 'boundary = ["neumann", "dirichlet"]\n'
(folder / "aquifer.toml").write_text("\n".join([head, *pumped, pressed]))
print(head, pumped[0], "...", pressed, sep="\n")

# %%
# A total is shared among the nodes so that it is kept exactly: a well is a field like any other load.
measurement = nipde.read(folder / "aquifer.toml")
assert np.allclose(measurement.pairs.loads[:, 0], loads, rtol=1e-9, atol=0)
found = nipde.discover(measurement, nipde.load("darcy"), rivals=())
print("\n".join(found.verdict))

figure, panels = plt.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
titles = "level, pump at the first well, m", "transmissivity as it is, m²/s", "as found, m²/s"
for place, title, values in zip(panels, titles, (levels[0], sand, found.material.values), strict=True):
    figure.colorbar(place.pcolormesh(x, y, values, shading="nearest", cmap=cm.batlow), ax=place, shrink=0.8)
    place.set(title=title, aspect="equal", xlabel="x, m")
plt.show()

"""
Pumping wells and boundary inflow
=================================

The field of a load that is a pump is not stored. An aquifer between two rivers is pumped at one well after another,
and once water is injected along a whole side. A TOML file beside the table of heads describes the loads.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.physics.random_fields import TwoPhase
from nipde.report.statements import statements

# %%
# Stands for a field campaign: fixed head (Dirichlet) at both ends of y, no flow (Neumann) at the ends of x.
sides = nipde.boundary.Neumann(), nipde.boundary.Dirichlet()
grid = nipde.Grid(tuple(nipde.grid.Axis(17, 800.0, side) for side in sides))
rng = np.random.default_rng(7)
field = nipde.physics.GaussianField(4.0).sample(nipde.Grid.uniform(17), rng=rng, count=1)[0]
transmissivity = TwoPhase(0.02, 0.005)(field)  # m²/s
wells = [(i, j) for i in (2, 6, 10, 14) for j in (2, 5, 8, 11, 14)]
loads = np.zeros((len(wells) + 1, *grid.shape))
for load, well in zip(loads, wells, strict=False):
    load[well] = -0.01 / grid.weights[well]  # 10 litres a second, out of the cell of one node
loads[-1, 0] = 0.05 / grid.weights[0].sum()  # 50 litres a second along the side x = 0
heads = nipde.Darcy(grid, transmissivity).solve(loads)
heads += 0.002 * np.sqrt(np.mean(heads**2)) * rng.standard_normal(heads.shape) * grid.unknown

# %%
# The files of the campaign: a table with a column per test, and a description of the loads.
folder, (x, y) = Path(tempfile.mkdtemp()), grid.coordinates
names = ["x [m]", "y [m]", *(f"head_{pair + 1} [m]" for pair in range(len(loads)))]
table = np.stack([x, y, *heads]).reshape(len(names), -1).T
np.savetxt(folder / "heads.csv", table, delimiter=",", header=",".join(names), comments="", fmt="%.6g")
pumped = [f'[[loads]]\nkind = "point"\nposition = [{x[well]}, {y[well]}]\ntotal = "-10 l/s"\n' for well in wells]
injected = '[[loads]]\nkind = "side"\nside = "left"\ntotal = "50 l/s"\n'
header = 'files = "heads.csv"\nresponse = "head"\nnoise = "0.2 %"\nunits = { load = "m/s" }\n'
header += 'boundary = ["neumann", "dirichlet"]\n'
(folder / "aquifer.toml").write_text("\n".join([header, *pumped, injected]))

# %%
# A total rate is distributed over the nodes around the well so that its integral is exact.
measurement = nipde.read(folder / "aquifer.toml")
assert np.allclose(measurement.pairs.loads[:, 0], loads, rtol=1e-9, atol=0)
result = nipde.discover(measurement, nipde.load("darcy"))
print("\n".join(statements(result)))

figure, panels = plt.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
titles = "head, pump at the first well, m", "true transmissivity, m²/s", "estimate, m²/s"
for place, title, values in zip(panels, titles, (heads[0], transmissivity, result.material.values), strict=True):
    figure.colorbar(place.pcolormesh(x, y, values, shading="nearest", cmap=cm.batlow), ax=place, shrink=0.8)
    place.set(title=title, aspect="equal", xlabel="x, m")
plt.show()

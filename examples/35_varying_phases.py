"""
Phases in which the material varies
===================================

Two phases, each with ± 15 % of variation, from 120 sensors under 20 loads with 1 % noise: finite elements on 160² cells
are the laboratory. What explains the readings best without phases that vary, and with them.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.data.reference import ReferenceDarcyRecipe

rng = np.random.default_rng(2)
recipe = ReferenceDarcyRecipe(pairs=30, family="varying", extrapolated=True)
system = recipe.build(11)
loads, exact = (field[:, 0].astype(float) for field in (system.loads, system.responses))
truth, grid = system.fine[0], recipe.grid

# %%
# Twenty loads are known, ten are held out; 120 of 361 inner nodes are sensors.
seen = np.isin(np.arange(grid.size), rng.choice(np.flatnonzero(grid.unknown), 120, replace=False)).reshape(grid.shape)
noise = 0.01 * float(np.sqrt(np.mean(exact[:20, seen] ** 2)))
readings = exact[:20] + noise * rng.standard_normal(exact[:20].shape)
mask = np.broadcast_to(seen, readings.shape)
pairs = nipde.SensorPairs.of(nipde.Pairs.from_arrays(loads[:20], readings, grid=grid, mask=mask, noise=noise))

# %%
# The model is chosen by the readings. `varying=False` leaves out phases that vary.
figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
maps = {"true coefficient\nand sensors": truth}
for varying in (False, True):
    law = nipde.SensorInversion(varying=varying, material=32, solver=96)(pairs).laws[0]
    found = law.map_of(truth.shape)
    error = np.linalg.norm(law.solve(loads[20:]) - exact[20:]) / np.linalg.norm(exact[20:])
    apart, model = np.abs(np.log(found / truth)).mean(), law.summary["model"]
    print(f"{model}: held-out error {error:.2%}, mean abs error of log b {apart:.3f}")
    maps[f"{model}\nmean abs error of log b {apart:.3f}"] = found
for place, (title, field) in zip(axes, maps.items(), strict=True):
    image = place.pcolormesh(*np.linspace(0, 1, 161)[None].repeat(2, 0), field.T, cmap=cm.batlow, vmin=2, vmax=16)
    place.set(title=title, xlabel="x", aspect="equal")
x, y = np.broadcast_arrays(*grid.coordinates)
axes[0].plot(x[seen], y[seen], "o", color="white", markeredgecolor="black", markersize=3)
figure.colorbar(image, ax=axes, label="b")
plt.show()

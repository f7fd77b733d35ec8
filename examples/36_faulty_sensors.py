"""
Faulty sensors and a wrong load
===============================

Sixty sensors under 14 loads with 1 % noise, finite elements on 160² cells as the laboratory. One sensor is stuck, two
are exchanged, and the load of one pair is 1.3 times what is said. They are identified, named and left out.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.data.reference import ReferenceDarcyRecipe

rng = np.random.default_rng(4)
recipe = ReferenceDarcyRecipe(pairs=24, family="circles", extrapolated=True)
system = recipe.build(3)
loads, exact = (field[:, 0].astype(float) for field in (system.loads, system.responses))
truth, grid = system.fine[0], recipe.grid

# %%
# The first 14 loads are applied, ten are held out; 60 of 361 inner nodes are sensors.
seen = np.isin(np.arange(grid.size), rng.choice(np.flatnonzero(grid.unknown), 60, replace=False)).reshape(grid.shape)
sensors = nipde.Sensors.at_nodes(grid, mask=seen)
readings = exact[:14, seen]
noise = 0.01 * float(np.sqrt(np.mean(readings**2)))
readings = readings + noise * rng.standard_normal(readings.shape)
readings[:, 20] = readings[0, 20]
readings[:, [5, 33]] = readings[:, [33, 5]]
readings[9] *= 1.3

# %%
# With `faults=False` all readings count. The alarm says that something is wrong, but the material is useless.
figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
maps = {"true coefficient\nand sensors": truth}
pairs = nipde.SensorPairs.from_arrays(loads[:14], readings, grid=grid, sensors=sensors, noise=noise)
for faults in (False, True):
    law = nipde.SensorInversion(faults=faults, phases=(2,), varying=False, material=32, solver=96)(pairs).laws[0]
    error = np.linalg.norm(law.solve(loads[14:]) - exact[14:]) / np.linalg.norm(exact[14:])
    print(f"faults={faults}: held-out error {error:.1%}, alarm {bool(law.bands.outlier_test.is_outlier)}")
    for one in (*law.summary.get("faulty_sensors", ()), *law.summary.get("faulty_pairs", ())):
        print(f"  {one}")
    maps[f"{'without faulty readings' if faults else 'all readings'}\nheld-out error {error:.1%}"] = law.map_of(
        (160, 160)
    )
for place, (title, field) in zip(axes, maps.items(), strict=True):
    image = place.pcolormesh(*np.linspace(0, 1, 161)[None].repeat(2, 0), field.T, cmap=cm.batlow, vmin=2, vmax=14)
    place.set(title=title, xlabel="x", aspect="equal")
axes[0].plot(*sensors.points.T, "o", color="white", markeredgecolor="black", markersize=3)
axes[2].plot(*law.faulty_positions.T, "x", color="red", markersize=9, markeredgewidth=2.5)
figure.colorbar(image, ax=axes, label="b")
plt.show()

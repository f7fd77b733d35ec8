"""
A material from thirty sensors
==============================

Ten loads, thirty scattered sensors, 1 % noise. The readings come from finite elements on a mesh eight times finer than
the grid of the loads: a discretisation that the estimator does not share.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.physics.finite_elements import FiniteElements

recipe, rng = ReferenceDarcyRecipe(nodes=21, pairs=10), np.random.default_rng(4)
truth = recipe.build(3).fine[0].astype(np.float64)  # b in 160 x 160 cells, two phases
fine_loads = nipde.physics.GaussianField(1.0, waves=8, rms=1.0).sample(recipe.mesh, rng=rng, count=20)
fine_responses = FiniteElements(recipe.mesh, truth).solve(fine_loads)
loads, responses = (recipe.mesh.restrict(fields, to=recipe.grid) for fields in (fine_loads, fine_responses))

# %%
# Sensors lie anywhere, not at nodes. They read ten responses; the other ten loads are held out.
sensors = nipde.Sensors.at(rng.uniform(0.05, 0.95, (30, 2)))
exact = (sensors.matrix(recipe.mesh) @ fine_responses[:10].reshape(10, -1).T).T
noise = 0.01 * np.sqrt(np.mean(exact**2))
readings = exact + noise * rng.standard_normal(exact.shape)
pairs = nipde.SensorPairs.from_arrays(loads[:10], readings, grid=recipe.grid, sensors=sensors, noise=noise)
kernel = nipde.SensorInversion()(pairs)

# %%
# The law holds the material below the grid, and a summary of the fit.
law, held_out = kernel.laws[0], pairs.loads.new_tensor(loads[10:, None])
predicted = kernel.predict(held_out)[:, 0].numpy()
low, high = (side[:, 0].numpy() for side in kernel.band(held_out, level=0.9))
error = np.mean([np.linalg.norm(p - u) / np.linalg.norm(u) for p, u in zip(predicted, responses[10:], strict=True)])
identified, inside = law.map_of(truth.shape), recipe.grid.unknown
right = np.mean((identified > 6) == (truth > 6))
covered = np.mean(((low <= responses[10:]) & (responses[10:] <= high))[:, inside])
print(f"model: {law.summary['model']}, chi² {law.summary['chi_square']:.2f}, {law.summary['readings']} readings")
print(f"held-out error {error:.1%}; {covered:.0%} of held-out values within bands of 90 %")
print(f"{right:.1%} of fine cells in the right phase")

figure, (*maps, line) = plt.subplots(1, 3, figsize=(11.5, 3.4), layout="constrained", width_ratios=(1, 1, 1.2))
for axes, title, values in zip(maps, ("true b", "identified b; dots: sensors"), (truth, identified), strict=True):
    image = axes.imshow(values.T, origin="lower", cmap=cm.batlow, vmin=0, vmax=15, extent=(0, 1, 0, 1))
    axes.set(title=title, xticks=(0, 0.5, 1), yticks=(0, 0.5, 1), xlabel="x", ylabel="y")
figure.colorbar(image, ax=maps, shrink=0.9)
maps[1].plot(*sensors.points.T, "o", color="white", markeredgecolor="black", markersize=4)
x, fine_x = (grid.coordinates[0][:, 0] for grid in (recipe.grid, recipe.mesh))
line.fill_between(x, low[0, :, 10], high[0, :, 10], color="0.8", label="band of 90 %")
line.plot(fine_x, fine_responses[10, :, 80], color="black", label="truth")
line.plot(x, predicted[0, :, 10], "--", color="tab:red", label="prediction")
line.set(title="held-out response at y = 0.5", xlabel="x", xlim=(0, 1), xticks=(0, 0.5, 1))
line.ticklabel_format(axis="y", scilimits=(0, 0))
line.legend()
plt.show()

"""
A posterior of 25,000 unknowns
==============================

A smooth material from scattered sensors, and how sure it is: deviations and samples of log b on a fine grid. The
covariance is never formed. It is the prior's, less a few hundred directions that the readings tell about.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.estimators.inverse.posterior_at_size import posterior_at_size
from nipde.physics.finite_elements import FiniteElements

# Data of finite elements, a discretisation that the estimator does not share. Nothing is read in the right third.
recipe, rng = ReferenceDarcyRecipe(nodes=21, pairs=8, family="log-normal"), np.random.default_rng(2)
truth = recipe.build(5).fine[0].astype(np.float64)
fine_loads = nipde.physics.GaussianField(1.0, waves=8, rms=1.0).sample(recipe.mesh, rng=rng, count=8)
fine_responses = FiniteElements(recipe.mesh, truth).solve(fine_loads)
sensors = nipde.Sensors.at(rng.uniform((0.05, 0.05), (0.65, 0.95), (40, 2)))
exact = (sensors.matrix(recipe.mesh) @ fine_responses.reshape(8, -1).T).T
noise = 0.01 * np.sqrt(np.mean(exact**2))
readings = exact + noise * rng.standard_normal(exact.shape)
loads = recipe.mesh.restrict(fine_loads, to=recipe.grid)
pairs = nipde.SensorPairs.from_arrays(loads, readings, grid=recipe.grid, sensors=sensors, noise=noise)

# %%
# The fit is that of a smooth material; its posterior is then taken on 161 × 161 nodes.
law = nipde.SensorInversion(piecewise_constant=False)(pairs).laws[0]
posterior = posterior_at_size(law, intervals=160)
deviation, samples = posterior.log_deviation(), posterior.samples(2, seed=0)
print(posterior.summary)

# %%
# The same covariance gives deviations of means over regions, and of responses to other loads.
halves = np.stack([x < 0.5 for x in (posterior.grid.coordinates[0], 1 - posterior.grid.coordinates[0])]).astype(float)
left, right = posterior.mean_deviation(halves)
print(f"mean of log b: ± {left:.3f} in the left half, ± {right:.3f} in the right half")
centre = posterior.response_deviation(loads[:1], at=nipde.Sensors.at([[0.8, 0.5]]))[0, 0]
print(f"response to the first load at (0.8, 0.5): ± {centre / np.abs(exact[0]).max():.1%} of its largest reading")

shown = {
    "true log b": (np.log(truth), cm.batlow), "estimate; dots: sensors": (posterior.estimate, cm.batlow),
    "a sample": (samples[0], cm.batlow), "another": (samples[1], cm.batlow), "deviation": (deviation, cm.lajolla_r),
}  # fmt: skip
figure, panels = plt.subplots(1, 5, figsize=(15, 3.2), layout="constrained")
for axes, (title, (field, colours)) in zip(panels, shown.items(), strict=True):
    ends = (0, 0.3) if title == "deviation" else (np.log(truth).min(), np.log(truth).max())
    image = axes.imshow(field.T, origin="lower", cmap=colours, extent=(0, 1, 0, 1), vmin=ends[0], vmax=ends[1])
    axes.set(title=title, xticks=(0, 1), yticks=(0, 1))
    figure.colorbar(image, ax=axes, shrink=0.8)
panels[1].plot(*sensors.points.T, "o", color="white", markeredgecolor="black", markersize=3)
plt.show()

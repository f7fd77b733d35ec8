"""
Reference data of random specimens
==================================

Discs, plates with a hole and random blobs under random supports, solved by triangles that follow the outline. One of
them is estimated from 40 of its nodes, on cells that the outline cuts.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.data.shapes import ShapedDarcyRecipe
from nipde.evaluation.specimens import readings_of

recipe = ShapedDarcyRecipe(pairs=24, supports="random", refine=8)
with tempfile.TemporaryDirectory() as folder:
    archive = nipde.generate(nipde.Plan(recipe, systems=6, seed=11), folder, workers=1)
    systems = archive[:]
    readings = readings_of(archive, 3, pairs=range(20), sensors=40, noise=0.01)
specimens = [recipe.specimen_of(seed) for seed in systems.seed]

# %%
# The estimate knows the outline, its supports, 20 loads and 40 readings of each, with 1 % noise.
law = nipde.SensorInversion()(readings).laws[0]
inside = np.isfinite(systems.responses[3, 0, 0])
nodes = np.stack([x[inside] for x in recipe.grid.coordinates], axis=-1)
answers = law.readings(systems.loads[3, 20:, 0].astype(float), nipde.Sensors.at(nodes).matrix)
exact = systems.responses[3, 20:, 0][:, inside]
error = np.mean(np.linalg.norm(answers - exact, axis=1) / np.linalg.norm(exact, axis=1))
estimate = np.where(np.isfinite(systems.fine[3, 0]), law.map_of(systems.fine.shape[-2:]), np.nan)
print(f"{law.summary['model']}, χ² {law.summary['chi_square']:.2f}, held-out error {error:.2%}")

# %%
# Supports are drawn wider; dots are the sensors.
figure, axes = plt.subplots(1, 5, figsize=(15, 3.4), layout="constrained", sharey=True)
shown = [*((k, systems.fine[k, 0], "true") for k in (0, 2, 4, 3)), (3, estimate, "estimated")]
for place, (number, field, title) in zip(axes, shown, strict=True):
    image = place.imshow(field.T, origin="lower", extent=(0, 1, 0, 1), cmap=cm.batlow, vmin=3, vmax=12)
    for name, line in specimens[number].shape.parts.items():
        for piece in getattr(line, "geoms", [line]):
            place.plot(*piece.xy, color="black", linewidth=3 if name == "support" else 0.8)
    place.set(title=f"specimen {number}, {title}", xlabel="x", aspect="equal")
axes[-1].plot(*readings.sensors.points.T, "o", color="white", markeredgecolor="black", markersize=4)
figure.colorbar(image, ax=axes, label="permeability")
plt.show()
